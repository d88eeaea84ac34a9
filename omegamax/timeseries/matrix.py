"""Matrices of distances between time series."""

from __future__ import annotations

from typing import Any

from omegamax.timeseries.distances import make_distance
from omegamax.timeseries.measures import Distance
from omegamax.timeseries.series import as_series, in_one_type
from omegamax.timeseries.windows import Window


def cdist(
    x: Any,
    y: Any = None,
    *,
    distance: str | Distance = "dtw",
    window: Window = None,
    gamma: float = 1.0,
    convention: str = "squared",
    channels: str = "last",
    **options: Any,
) -> Any:
    """Computes the distances (n, p) between all series of x and all series of y, or of x.

    Arguments:
        x: n series; see `as_series`
        y: p series, or None for those of x
        distance: a name of `DISTANCES`, or a distance
        window: None, a number of steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        convention: "squared" or "root", for DTW
        channels: "last" for (n, length, channels), "first" for (n, channels, length)
        options: others of the distance

    >>> cdist([[0.0, 1.0], [0.0, 2.0]])
    array([[0., 1.],
           [1., 0.]])
    """
    measure = make_distance("cdist", distance, window=window, gamma=gamma, convention=convention, **options)
    one = as_series("cdist", x, channels=channels)
    other = one if y is None else as_series("cdist", y, channels=channels, name="y")
    one, other = in_one_type("cdist", one, other)
    measure = measure.placed(max(one.values.shape[1], other.values.shape[1]))
    found = measure.pairwise(one, other, triangle=y is None)
    if y is None:
        found = found + found.triu(1).mT
    return one.output(found)
