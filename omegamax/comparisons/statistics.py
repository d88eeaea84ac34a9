"""Statistics of a comparison: how sparse and structured attention is, and whether several seeds differ by chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from omegamax.attention.weight_counts import count_weights, row_counts
from omegamax.training.task import AttentionMap

# Quantiles of Student's t at 97.5 %, for 1, 2, ... degrees of freedom: chance alone exceeds them, on either side, in
# one case of twenty.
_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 2.1  # for more of them, a little too large


class AttentionStatistics(NamedTuple):
    """Means over the rows of attention that have any weight."""

    support: float  # positions with weight
    share: float  # the same, of all positions
    segments: float  # runs of neighbours with exactly equal weight
    segment_length: float  # positions in a segment, over all segments
    clusters: float  # different weights
    long_segments: float  # the share of segments that are longer than one position
    n_rows: int


def attention_statistics(maps: Iterable[AttentionMap]) -> AttentionStatistics | None:
    """Counts over all rows and heads of the maps; returns None if there are none. Zero weights are not counted."""
    maps = [each for each in maps if each.weights.numel()]
    counts = [row_counts(each.weights.flatten(0, -2), always_positive=each.always_positive) for each in maps]
    if not sum(map(len, counts)):
        return None
    counted = [count_weights(each.weights, always_positive=each.always_positive) for each in maps]
    support, share, segments, clusters = torch.cat(counts).double().unbind(-1)
    n_rows = len(support)
    return AttentionStatistics(
        support=float(support.mean()),
        share=float(share.mean()),
        segments=float(segments.mean()),
        segment_length=float(support.sum() / segments.sum()),
        clusters=float(clusters.mean()),
        long_segments=sum(each.long_segments for each in counted) / max(1, sum(each.segments for each in counted)),
        n_rows=n_rows,
    )


def mean_of(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of each number, over those that have it.

    >>> mean_of([{"a": 1.0}, {"a": 2.0, "b": 5.0}])
    {'a': 1.5, 'b': 5.0}
    """
    return _apply_to_each(several, fmean)


def deviation_of(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the standard deviation of each number over seeds, divided by n - 1; nothing for one seed.

    >>> deviation_of([{"a": 1.0}, {"a": 3.0}])
    {'a': 1.4142135623730951}
    """
    return _apply_to_each(several, stdev) if len(several) > 1 else {}


def clearly_best(values: Sequence[Sequence[float]]) -> int | None:
    """Returns the row whose mean is higher than every other's by more than chance; None if there is none.

    Each row holds the values of one model for several seeds. Means are compared by Welch's test at 5 %. A single value
    says nothing about chance, so it is never clearly best.

    >>> clearly_best([[0.90, 0.91, 0.92], [0.70, 0.72, 0.71]]), clearly_best([[0.9, 0.7], [0.8, 0.7]])
    (0, None)
    """
    if len(values) < 2 or any(len(row) < 2 for row in values):
        return None
    best = max(range(len(values)), key=lambda at: fmean(values[at]))
    others = (row for at, row in enumerate(values) if at != best)
    return best if all(_differs(values[best], row) for row in others) else None


def _differs(high: Sequence[float], low: Sequence[float]) -> bool:
    gap = fmean(high) - fmean(low)
    shares = [stdev(row) ** 2 / len(row) for row in (high, low)]
    spread = sum(shares)
    if spread == 0:
        return gap > 0
    freedom = spread**2 / sum(share**2 / (len(row) - 1) for share, row in zip(shares, (high, low)))
    place = max(1, math.floor(freedom))
    return gap > (_STUDENT[place - 1] if place <= len(_STUDENT) else _NORMAL) * math.sqrt(spread)


def _apply_to_each(
    several: Sequence[Mapping[str, float]], statistic: Callable[[list[float]], float]
) -> dict[str, float]:
    names = dict.fromkeys(name for each in several for name in each)
    columns = {name: [each[name] for each in several if name in each] for name in names}
    return {name: statistic(column) for name, column in columns.items() if len(column) > (statistic is stdev)}
