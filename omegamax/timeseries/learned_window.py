"""The window of dynamic time warping with the fewest errors in leave-one-out cross validation.

    argmin_w  #{i : label of argmin_{j ≠ i} dtw_w(x_i, x_j)  is not  y_i},    w = 0, 1, …, 100 percent of the length

The UCR archive chooses windows so (Dau et al., "The UCR time series archive", 2019), the smallest of equally good ones.

Exact and far from computing all distances for all windows: dtw_w grows when w shrinks, since fewer paths are allowed.
So the windows are visited from the widest to the narrowest, and the distance of a pair at a wider window is a lower
bound now. For each series the candidates are taken by their bounds, a few at a time, until the next bound is above the
nearest distance so far. A path is rarely cut by a window that is one step narrower: most of the time the nearest of the
last window and a few others settle it. Tan et al., "Efficient search of the best warping window for dynamic time
warping" (2018), use the same bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from omegamax.timeseries.measures import Dtw
from omegamax.timeseries.series import SeriesBatch, as_series

_AT_ONCE = 8  # candidates computed together: the kernel takes one per vector lane


class LearnedWindow(NamedTuple):
    """The best window, and the errors of all."""

    steps: int  # the window, in steps
    percent: float  # the same, of the longest series
    error: float  # its share of wrong neighbours in leave-one-out cross validation
    percents: np.ndarray  # (windows,): what was tried, in increasing order
    errors: np.ndarray  # (windows,): the share of wrong neighbours of each
    computed: int  # how many distances were computed, of windows · n · (n − 1) / 2


def learn_window(X: Any, y: Any, *, percents: Sequence[float] = range(101)) -> LearnedWindow:
    """Finds the window of DTW that makes the fewest errors when each series is classified by its nearest other one.

    A percentage of the longest series is rounded up to steps, as in the archive's table of windows. Of equally good
    windows the smallest is chosen, of equally near series the first.

    Arguments:
        X: series; see `as_series`
        y: one label for each
        percents: the windows to try, as percentages of the longest series

    >>> late, early = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]
    >>> learn_window([late, early, [0.0] * 6, [0.1] * 6], [0, 0, 1, 1]).steps
    0
    """
    batch = as_series("learn_window", X, name="X").to(torch.float64)
    labels = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    if len(labels) != len(batch) or len(batch) < 2:
        raise ValueError(
            f"learn_window: there must be at least two series and a label for each, got {len(batch)} series and "
            f"{len(labels)} labels; give as many of both"
        )
    tried = sorted({float(each) for each in percents})
    if not tried or not 0 <= tried[0] <= tried[-1] <= 100:
        raise ValueError(f"learn_window: percents must be numbers from 0 to 100, got {list(percents)!r}; leave it out")
    longest = batch.values.shape[1]
    steps = [math.ceil(each * longest / 100 - 1e-9) for each in tried]  # 7 percent of 100 is 7.000000000000001
    search = _NestedSearch(batch)
    errors = {
        width: float((labels[search.nearest(width)] != labels).mean()) for width in sorted({*steps}, reverse=True)
    }
    found = np.array([errors[width] for width in steps])
    best = int(found.argmin())  # the first of equally good ones
    return LearnedWindow(steps[best], tried[best], float(found[best]), np.array(tried), found, search.computed)


class _NestedSearch:
    """Finds the nearest other series of each, for windows that only get narrower."""

    def __init__(self, batch: SeriesBatch) -> None:
        n = len(batch)
        self._batch = batch
        self._bounds = np.zeros((n, n))  # distances at the last window at which each pair was computed
        self._widths = np.full((n, n), np.iinfo(np.int64).max)  # that window
        np.fill_diagonal(self._bounds, np.inf)
        self.computed = 0

    def nearest(self, width: int) -> np.ndarray:
        """Returns the number of the nearest other series of each, (n,), within `width` steps of the diagonal."""
        return np.array([self._nearest(i, width) for i in range(len(self._batch))])

    def _nearest(self, i: int, width: int) -> int:
        bounds, widths = self._bounds[i], self._widths[i]
        order = np.argsort(bounds, kind="stable")[:-1]  # the series itself is last
        waiting = order[widths[order] != width]
        while waiting.size:
            known = np.where(widths == width, bounds, np.inf)
            waiting = waiting[bounds[waiting] <= known.min()]  # one that is equally near may have a lower number
            some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            if some.size:
                self._compute(i, some, width)
        return int(np.where(widths == width, bounds, np.inf).argmin())

    def _compute(self, i: int, others: np.ndarray, width: int) -> None:
        one, some = (self._batch.select(torch.from_numpy(np.atleast_1d(each))) for each in (np.array([i]), others))
        found = Dtw(window=width).pairwise(one, some)[0].numpy()
        for first, second in ((i, others), (others, i)):
            self._bounds[first, second] = found
            self._widths[first, second] = width
        self.computed += len(others)
