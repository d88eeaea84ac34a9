"""How sparse and how structured attention is: counts over the rows of many attention maps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.training.task import AttentionMap


class AttentionStatistics(NamedTuple):
    """Means over rows that have any weight."""

    support: float  # positions with weight
    share: float  # the same, of all positions
    segments: float  # runs of neighbours with exactly equal weight
    segment_length: float  # positions in a segment, over all segments
    clusters: float  # different weights
    n_rows: int


def attention_statistics(maps: Iterable[AttentionMap]) -> AttentionStatistics | None:
    """Over all rows and heads of the maps; None where there are none. Weights of exactly zero count nowhere."""
    counts = [
        row_counts(each.weights.flatten(0, -2), always_positive=each.always_positive)
        for each in maps
        if each.weights.numel()
    ]
    if not sum(map(len, counts)):
        return None
    support, share, segments, clusters = torch.cat(counts).double().unbind(-1)
    n_rows = len(support)
    return AttentionStatistics(
        support=float(support.mean()),
        share=float(share.mean()),
        segments=float(segments.mean()),
        segment_length=float(support.sum() / segments.sum()),
        clusters=float(clusters.mean()),
        n_rows=n_rows,
    )


def row_counts(weights: Tensor, *, always_positive: bool = False) -> Tensor:
    """Support, its share, segments and clusters (rows, 4) of rows (rows, K) that have any weight.

    Weights of softmax are `always_positive`: its zeros are small weights that were rounded, each different from others.

    >>> row_counts(torch.tensor([[0.25, 0.25, 0.0, 0.25, 0.25], [0.5, 0.3, 0.2, 0.0, 0.0]]))
    tensor([[4.0000, 0.8000, 2.0000, 1.0000],
            [3.0000, 0.6000, 3.0000, 3.0000]])
    """
    weights = weights[(weights > 0).any(-1)]
    positive = weights >= 0 if always_positive else weights > 0
    before = torch.nn.functional.pad(weights, (1, 0))[:, :-1]
    rounded = positive & (weights == 0)
    starts = positive & ((weights != before) | rounded)
    ordered = weights.sort(-1).values
    differs = torch.nn.functional.pad(ordered, (1, 0))[:, :-1] != ordered  # zeros come first and differ from nothing
    support = positive.sum(-1)
    clusters = differs.sum(-1) + rounded.sum(-1)
    counted = [support, support / max(1, weights.shape[-1]), starts.sum(-1), clusters]
    return torch.stack([each.to(torch.get_default_dtype()) for each in counted], -1)
