"""Counts how sparse and structured rows of attention weights are: support, segments, clusters.

A segment is a run of neighbours with exactly the same weight above zero, as fusedmax makes them; a cluster is a set of
positions with the same weight, as oscarmax makes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class WeightCounts(NamedTuple):
    """Sums over the rows that have any weight."""

    rows: int
    positions: int  # weights of these rows
    support: int  # weights above zero
    segments: int
    long_segments: int  # of two or more positions


def count_weights(weights: Tensor, *, always_positive: bool = False) -> WeightCounts:
    """Counts over all rows of weights (..., K).

    Arguments:
        weights: of any number of rows
        always_positive: whether zeros are small weights that were rounded, as softmax's are

    >>> count_weights(torch.tensor([[0.25, 0.25, 0.0, 0.25, 0.25], [0.5, 0.3, 0.2, 0.0, 0.0]]))
    WeightCounts(rows=2, positions=10, support=7, segments=5, long_segments=2)
    """
    rows = weights.flatten(0, -2)
    rows = rows[(rows > 0).any(-1)]
    positive, starts = _segments(rows, always_positive)
    longer = starts[:, :-1] & positive[:, 1:] & ~starts[:, 1:]
    return WeightCounts(len(rows), rows.numel(), *(int(each.sum()) for each in (positive, starts, longer)))


def weight_metrics(counts: Iterable[WeightCounts]) -> dict[str, float]:
    """Returns means over all rows that were counted; nothing if there are none.

    `zeros` is the share of weights that are exactly zero, `support` the positions that a row reads, `segments` the runs
    among them, `long_segments` the share of those runs that are longer than one position.
    """
    counts = list(counts)
    if not sum(each.rows for each in counts):
        return {}
    rows, positions, support, segments, longer = map(sum, zip(*counts))
    return {
        "zeros": 1 - support / max(1, positions),
        "support": support / rows,
        "segments": segments / rows,
        "long_segments": longer / max(1, segments),
    }


def row_counts(weights: Tensor, *, always_positive: bool = False) -> Tensor:
    """Counts support, its share, segments and clusters, (rows, 4), of the rows (rows, K) that have any weight.

    Weights of softmax are `always_positive`: its zeros are small weights that were rounded, each different from others.

    >>> row_counts(torch.tensor([[0.25, 0.25, 0.0, 0.25, 0.25], [0.5, 0.3, 0.2, 0.0, 0.0]]))
    tensor([[4.0000, 0.8000, 2.0000, 1.0000],
            [3.0000, 0.6000, 3.0000, 3.0000]])
    """
    weights = weights[(weights > 0).any(-1)]
    positive, starts = _segments(weights, always_positive)
    rounded = positive & (weights == 0)
    ordered = weights.sort(-1).values
    differs = torch.nn.functional.pad(ordered, (1, 0))[:, :-1] != ordered  # zeros come first and differ from nothing
    support = positive.sum(-1)
    clusters = differs.sum(-1) + rounded.sum(-1)
    counted = [support, support / max(1, weights.shape[-1]), starts.sum(-1), clusters]
    return torch.stack([each.to(torch.get_default_dtype()) for each in counted], -1)


def _segments(weights: Tensor, always_positive: bool) -> tuple[Tensor, Tensor]:
    """Returns where weights (rows, K) count as positive, and where a segment begins."""
    positive = weights >= 0 if always_positive else weights > 0
    before = torch.nn.functional.pad(weights, (1, 0))[:, :-1]
    return positive, positive & ((weights != before) | (weights == 0))
