"""Distances between two time series, by name: the number, the cost matrix and the alignment path.

The matrices of many series are in `matrix.py`. A `distance` is a name of `DISTANCES`, or an object such as
`SoftDtw(gamma=0.1, window=0.05)`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor

from omegamax.structures.alignment import SYMMETRIC1, Step
from omegamax.structures.soft_dtw import soft_dtw_alignment
from omegamax.timeseries.gaps import Edit, NeedlemanWunsch, SmithWaterman
from omegamax.timeseries.measures import Distance, Dtw, SoftDtw, SoftDtwDivergence, SparseDtw
from omegamax.timeseries.series import SeriesBatch, as_one_series, in_one_type
from omegamax.timeseries.windows import Window, band_of

DISTANCES: dict[str, type[Distance]] = {
    "dtw": Dtw,
    "soft_dtw": SoftDtw,
    "soft_dtw_divergence": SoftDtwDivergence,
    "sparse_dtw": SparseDtw,
    "edit": Edit,
    "needleman_wunsch": NeedlemanWunsch,
    "smith_waterman": SmithWaterman,
}
_DEFAULTS: dict[str, Any] = {"window": None, "gamma": 1.0, "convention": "squared"}


def make_distance(who: str, distance: str | Distance, **options: Any) -> Distance:
    """Makes the distance of a name with the options that it has.

    Arguments:
        who: the name at the beginning of messages
        distance: a name of `DISTANCES`, or a distance, which then has its options already
        options: window, gamma, convention and whatever else the class takes

    >>> make_distance("me", "soft_dtw", gamma=0.1)
    SoftDtw(window=None, gamma=0.1)
    """
    changed = {name: value for name, value in options.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}
    if isinstance(distance, Distance):
        if changed:
            raise ValueError(
                f"{who}: options must stand in the distance itself, got {distance} and {', '.join(changed)}; write "
                f"{type(distance).__name__}(...)"
            )
        return distance
    if not isinstance(distance, str) or distance not in DISTANCES:
        raise ValueError(
            f"{who}: distance must be one of {', '.join(DISTANCES)}, or a Distance, got {distance!r}; choose one"
        )
    kind = DISTANCES[distance]
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = [name for name in changed if name not in known]
    if unknown:
        raise ValueError(
            f"{who}: {distance} takes {', '.join(sorted(known))}, got {', '.join(unknown)}; leave it out or choose "
            "another distance"
        )
    return kind(**{name: value for name, value in options.items() if name in known})


def _pair(who: str, x: Any, y: Any, channels: str) -> tuple[SeriesBatch, SeriesBatch]:
    return in_one_type(who, *(as_one_series(who, s, channels=channels, name=n) for s, n in ((x, "x"), (y, "y"))))


def distance_of(x: Any, y: Any, *, distance: str | Distance = "dtw", channels: str = "last", **options: Any) -> float:
    """Computes the distance of two series.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        distance: a name of `DISTANCES`, or a distance
        channels: "last" for (length, channels), "first" for (channels, length)
        options: of the distance, such as window=0.1

    >>> distance_of([0.0, 1.0, 2.0], [0.0, 1.0, 1.0, 2.0])
    0.0
    """
    measure = make_distance("distance_of", distance, **options)
    return float(measure.pairwise(*_pair("distance_of", x, y, channels)))


def cost_matrix(x: Any, y: Any, *, distance: str | Distance = "dtw", channels: str = "last", **options: Any) -> Any:
    """Computes the cost of the best, or smoothed, alignment up to each cell.

    For time warping it is (M, N), and infinite outside the window; for distances with gaps (M + 1, N + 1), where entry
    (i, j) is about the first i numbers of x and the first j of y. It is never a root.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        distance: a name of `DISTANCES`, or a distance
        channels: "last" for (length, channels), "first" for (channels, length)
        options: of the distance, such as window=0.1

    >>> cost_matrix([0.0, 2.0], [0.0, 1.0])
    array([[0., 1.],
           [4., 1.]])
    """
    one, other = _pair("cost_matrix", x, y, channels)
    return one.output(make_distance("cost_matrix", distance, **options).cost_matrix(one, other))


def alignment_path(x: Any, y: Any, *, distance: str | Distance = "dtw", channels: str = "last", **options: Any) -> Any:
    """Returns the cells (length, 2) of the best alignment: for smoothed distances, of the most likely one.

    Where steps are equally good the diagonal one is taken, then the one along x. Distances with gaps list the pairs.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        distance: a name of `DISTANCES`, or a distance
        channels: "last" for (length, channels), "first" for (channels, length)
        options: of the distance, such as window=0.1

    >>> alignment_path([0.0, 1.0], [0.0, 1.0, 1.0]).tolist()
    [[0, 0], [1, 1], [1, 2]]
    """
    one, other = _pair("alignment_path", x, y, channels)
    return one.output(make_distance("alignment_path", distance, **options).path(one, other))


def expected_alignment(x: Any, y: Any, *, gamma: float = 1.0, window: Window = None, channels: str = "last") -> Any:
    """Computes how likely soft-DTW visits each cell, (M, N); it is the gradient of soft-DTW in the costs.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        gamma: the temperature
        window: None, a number of steps, a fraction of the longer series, or a band
        channels: "last" for (length, channels), "first" for (channels, length)
    """
    one, other = _pair("expected_alignment", x, y, channels)
    SoftDtw(window, gamma)
    band = band_of("expected_alignment", window, max(one.values.shape[1], other.values.shape[1]))
    found: Tensor = soft_dtw_alignment(one.values[0], other.values[0], gamma, band=band)
    return one.output(found)


def dtw(
    x: Any,
    y: Any,
    *,
    window: Window = None,
    convention: str = "squared",
    steps: tuple[Step, ...] = SYMMETRIC1,
    channels: str = "last",
) -> float:
    """Computes the cost of the cheapest warping path, Σ |x_i − y_j|²; with `convention="root"` its square root.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        window: None, a number of steps, a fraction of the longer series, or a band
        convention: "squared", as aeon reports it, or "root", as tslearn does
        steps: (di, dj, weight), as in `omegamax.structures.Alignment`
        channels: "last" for (length, channels), "first" for (channels, length)

    >>> dtw([0.0, 1.0, 5.0], [0.0, 2.0])
    10.0
    """
    return distance_of(x, y, channels=channels, window=window, convention=convention, steps=steps)


def soft_dtw(x: Any, y: Any, *, gamma: float = 1.0, window: Window = None, channels: str = "last") -> float:
    """Computes soft-DTW, −γ log Σ exp(−cost / γ) over all paths. For gradients use `omegamax.soft_dtw`.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        gamma: the temperature
        window: None, a number of steps, a fraction of the longer series, or a band
        channels: "last" for (length, channels), "first" for (channels, length)
    """
    return distance_of(x, y, distance="soft_dtw", channels=channels, window=window, gamma=gamma)


def soft_dtw_divergence(x: Any, y: Any, *, gamma: float = 1.0, window: Window = None, channels: str = "last") -> float:
    """Computes soft_dtw(x, y) − ½ soft_dtw(x, x) − ½ soft_dtw(y, y): exactly zero for equal series.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        gamma: the temperature
        window: None, a number of steps, a fraction of the longer series, or a band
        channels: "last" for (length, channels), "first" for (channels, length)
    """
    return distance_of(x, y, distance="soft_dtw_divergence", channels=channels, window=window, gamma=gamma)


def sparse_dtw(x: Any, y: Any, *, gamma: float = 1.0, window: Window = None, channels: str = "last") -> float:
    """Computes squared-norm DTW: the recursion of soft-DTW under Ω = ½‖·‖², in which few paths count.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        gamma: the temperature
        window: None, a number of steps, a fraction of the longer series, or a band
        channels: "last" for (length, channels), "first" for (channels, length)
    """
    return distance_of(x, y, distance="sparse_dtw", channels=channels, window=window, gamma=gamma)
