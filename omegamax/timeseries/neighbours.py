"""The nearest series of each query."""

from __future__ import annotations

from typing import Any, NamedTuple

from omegamax.timeseries.distances import make_distance
from omegamax.timeseries.measures import Distance
from omegamax.timeseries.series import as_series, in_one_type
from omegamax.timeseries.windows import Window


class PruningReport(NamedTuple):
    """What became of the pairs of a search: each is counted once."""

    pairs: int = 0
    by_kim: int = 0  # ruled out by the first and last numbers (LB_Kim)
    by_keogh: int = 0  # ruled out by an envelope (LB_Keogh)
    abandoned: int = 0  # recursions that stopped early
    computed: int = 0  # distances that were computed to the end


class NearestResult(NamedTuple):
    """The nearest series of each query, nearest first; of equally near ones the lowest number comes first."""

    distances: Any  # (queries, n_neighbors)
    indices: Any  # (queries, n_neighbors)
    pruned: PruningReport


def nearest(
    queries: Any,
    references: Any,
    *,
    n_neighbors: int = 1,
    distance: str | Distance = "dtw",
    window: Window = None,
    gamma: float = 1.0,
    convention: str = "squared",
    channels: str = "last",
    **options: Any,
) -> NearestResult:
    """Finds the `n_neighbors` nearest references of every query.

    Arguments:
        queries: q series; see `as_series`
        references: n series
        n_neighbors: how many to find
        distance: a name of `DISTANCES`, or a distance
        window: None, a number of steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        convention: "squared" or "root", for DTW
        channels: "last" for (n, length, channels), "first" for (n, channels, length)
        options: others of the distance

    >>> nearest([[0.0, 1.0]], [[5.0, 5.0], [0.0, 2.0]]).indices
    array([[1]])
    """
    measure = make_distance("nearest", distance, window=window, gamma=gamma, convention=convention, **options)
    one = as_series("nearest", queries, channels=channels, name="queries")
    other = as_series("nearest", references, channels=channels, name="references")
    one, other = in_one_type("nearest", one, other)
    measure = measure.placed(max(one.values.shape[1], other.values.shape[1]))
    found, numbers = measure.pairwise(one, other).sort(dim=1, stable=True)
    n_pairs = len(one) * len(other)
    report = PruningReport(pairs=n_pairs, computed=n_pairs)
    return NearestResult(one.output(found[:, :n_neighbors]), one.output(numbers[:, :n_neighbors]), report)
