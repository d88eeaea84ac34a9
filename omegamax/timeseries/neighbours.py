"""The nearest series of each query: exactly those of the full matrix of distances, with fewer recursions.

Under DTW with unit steps lower bounds rule most pairs out: LB_Kim by the first and last numbers, LB_Keogh by the
envelope of the query. The others are swept in the order of their bounds, many at once, and a sweep stops as soon as
no path can be among the nearest. Other distances have no bounds here; all pairs are computed.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.series_search import series_bounds, series_search
from omegamax.timeseries.distances import make_distance
from omegamax.timeseries.measures import Distance, Dtw
from omegamax.timeseries.series import SeriesBatch, as_series, in_one_type
from omegamax.timeseries.windows import Window

_PAIRS = 1 << 21  # of which bounds are held at a time


class PruningReport(NamedTuple):
    """What became of the pairs of a search; every pair is counted once."""

    pairs: int = 0
    by_kim: int = 0  # ruled out by the first and last numbers (LB_Kim)
    by_keogh: int = 0  # ruled out by an envelope (LB_Keogh)
    abandoned: int = 0  # recursions that stopped early
    computed: int = 0  # recursions that ran to the end


class NearestResult(NamedTuple):
    """The nearest series of each query, nearest first; of equally near ones the lowest number comes first."""

    distances: Any  # (queries, n_neighbors)
    indices: Any  # (queries, n_neighbors)
    pruned: PruningReport


class RadiusResult(NamedTuple):
    """The series within a radius of each query, nearest first; of equally near ones the lowest number comes first."""

    distances: list[Any]  # per query (found,)
    indices: list[Any]
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
    """Finds the `n_neighbors` nearest references of every query, as a full matrix of distances would.

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
    one, other, measure = _prepared("nearest", queries, references, measure, channels)
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, numbers.Integral):
        kind = type(n_neighbors).__name__
        raise TypeError(f"nearest: n_neighbors must be an int, got {kind}; 1 finds the nearest one")
    if not 1 <= n_neighbors <= len(other):
        raise ValueError(
            f"nearest: n_neighbors must be from 1 to {len(other)}, the number of references, got {n_neighbors}; ask "
            "for fewer"
        )
    found = [_search(measure, part, other, int(n_neighbors), math.inf, False) for part in _parts(one, other)]
    distances = torch.cat([each.nearest for each in found]) if found else one.values.new_zeros(0, n_neighbors)
    indices = torch.cat([each.numbers for each in found]) if found else torch.zeros(0, n_neighbors, dtype=torch.long)
    return NearestResult(one.output(distances), one.output(indices), _report(found, len(other)))


def within(
    queries: Any,
    references: Any,
    *,
    radius: float,
    distance: str | Distance = "dtw",
    window: Window = None,
    gamma: float = 1.0,
    convention: str = "squared",
    channels: str = "last",
    **options: Any,
) -> RadiusResult:
    """Finds all references at a distance of at most `radius` from every query.

    Arguments:
        queries: q series; see `as_series`
        references: n series
        radius: the largest distance, in the convention of the distance
        distance: a name of `DISTANCES`, or a distance
        window: None, a number of steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        convention: "squared" or "root", for DTW
        channels: "last" for (n, length, channels), "first" for (n, channels, length)
        options: others of the distance

    >>> within([[0.0, 1.0]], [[5.0, 5.0], [0.0, 2.0], [0.0, 1.0]], radius=1.0).indices
    [array([2, 1])]
    """
    measure = make_distance("within", distance, window=window, gamma=gamma, convention=convention, **options)
    one, other, measure = _prepared("within", queries, references, measure, channels)
    if isinstance(radius, bool) or not isinstance(radius, numbers.Real) or math.isnan(radius):
        raise TypeError(f"within: radius must be a number, got {radius!r}; use the unit of the distance")
    found = [_search(measure, part, other, 0, float(radius), True) for part in _parts(one, other)]
    distances: list[Any] = []
    indices: list[Any] = []
    for part in found:
        for row in part.distances:
            near = (row <= radius).nonzero().squeeze(1)
            order = row[near].sort(stable=True).indices
            indices.append(one.output(near[order]))
            distances.append(one.output(row[near[order]]))
    return RadiusResult(distances, indices, _report(found, len(other)))


class _Found(NamedTuple):
    nearest: Tensor
    numbers: Tensor
    distances: Any  # (queries, references) or None
    counts: Tensor


def _prepared(
    who: str, queries: Any, references: Any, measure: Distance, channels: str
) -> tuple[SeriesBatch, SeriesBatch, Distance]:
    one = as_series(who, queries, channels=channels, name="queries")
    other = as_series(who, references, channels=channels, name="references")
    one, other = in_one_type(who, one, other)
    return one, other, measure.placed(max(one.values.shape[1], other.values.shape[1]))


def _parts(one: SeriesBatch, other: SeriesBatch) -> list[SeriesBatch]:
    """Cuts the queries, so that what is held for all pairs of a part is small."""
    size = max(1, _PAIRS // max(1, len(other)))
    return [one.select(slice(begin, begin + size)) for begin in range(0, len(one), size)]


def _report(found: list[_Found], n_references: int) -> PruningReport:
    totals = [0, 0, 0, 0]
    n_queries = 0
    for part in found:
        n_queries += len(part.counts)
        totals = [total + int(count) for total, count in zip(totals, part.counts.sum(0))]
    return PruningReport(n_queries * n_references, *totals)


def _search(measure: Distance, one: SeriesBatch, other: SeriesBatch, k: int, radius: float, dense: bool) -> _Found:
    if isinstance(measure, Dtw) and measure.has_bounds and len(other):
        return _pruned(measure, one, other, k, radius, dense)
    found = measure.pairwise(one, other)
    counts = torch.zeros(len(one), 4, dtype=torch.long)
    counts[:, 3] = len(other)
    distances, order = found.sort(dim=1, stable=True)
    return _Found(distances[:, :k], order[:, :k], found, counts)


def _pruned(measure: Dtw, one: SeriesBatch, other: SeriesBatch, k: int, radius: float, dense: bool) -> _Found:
    band = measure.plain_band(one, other)
    # The envelope of the references would be a second bound. It takes longer than the recursions that it saves.
    kim, keogh = series_bounds(one.values, other.values, one.lengths, other.lengths, band)
    bound = torch.maximum(keogh, kim)
    # Sums of squares are rounded: a bound must not rule out a pair that it only seems to exceed.
    longest = max(one.values.shape[1], other.values.shape[1]) * one.values.shape[2]
    slack = 1 - 8 * (longest + 4) * torch.finfo(bound.dtype).eps
    kim, bound = kim * slack, bound * slack
    order = bound.argsort(dim=1)
    most = radius
    if measure.convention == "root":
        most = -1.0 if radius < 0 else radius * radius * (1 + 8 * torch.finfo(bound.dtype).eps)
    found = series_search(one.values, other.values, one.lengths, other.lengths, band, order, kim, bound, k, most, dense)
    distances = None if found.distances is None else measure.in_convention(found.distances)
    return _Found(measure.in_convention(found.nearest), found.numbers, distances, found.counts)
