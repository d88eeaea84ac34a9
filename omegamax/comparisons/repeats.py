"""Several seeds of one model as one line: means, deviations, and whether a difference is more than chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

# Quantiles of Student's t at 97.5 %, for 1, 2, ... degrees of freedom: chance alone exceeds them, on either side, in
# one case of twenty.
_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 2.1  # for more of them, a little too large


def mean_of(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number, over those that have it.

    >>> mean_of([{"a": 1.0}, {"a": 2.0, "b": 5.0}])
    {'a': 1.5, 'b': 5.0}
    """
    return _of_each(several, fmean)


def deviation_of(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The standard deviation of each number over seeds, with n - 1 below; empty for one seed.

    >>> deviation_of([{"a": 1.0}, {"a": 3.0}])
    {'a': 1.4142135623730951}
    """
    return _of_each(several, stdev) if len(several) > 1 else {}


def clearly_best(values: Sequence[Sequence[float]]) -> int | None:
    """The place of the row whose mean is higher than every other's by more than chance; None if there is none.

    Rows hold the values of one model's seeds. Means are compared by Welch's test at 5 %, so a single value, which says
    nothing about chance, is never clearly best.

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


def _of_each(several: Sequence[Mapping[str, float]], statistic: Callable[[list[float]], float]) -> dict[str, float]:
    names = dict.fromkeys(name for each in several for name in each)
    columns = {name: [each[name] for each in several if name in each] for name in names}
    return {name: statistic(column) for name, column in columns.items() if len(column) > (statistic is stdev)}
