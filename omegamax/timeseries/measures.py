"""What two series are compared by: the interface of distances, and those of dynamic time warping.

Dtw                 min over paths of  Σ |x_i − y_j|²      (squared, as aeon), or its root (as tslearn)
SoftDtw             −γ log Σ over paths of exp(−cost / γ)
SoftDtwDivergence   SoftDtw(x, y) − ½ SoftDtw(x, x) − ½ SoftDtw(y, y)
SparseDtw           the same recursion under the squared norm: few paths count
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.series_distances import PlainBand, accumulated, inside_band, series_distances
from omegamax.kernels.structures.omega import Omega
from omegamax.operators.hard import Hard
from omegamax.structures.alignment import SYMMETRIC1, Alignment, Step, check_steps
from omegamax.structures.bands import Band
from omegamax.timeseries.series import SeriesBatch
from omegamax.timeseries.windows import Window, band_of, plain_band

_CONVENTIONS = ("squared", "root")


class Distance(ABC):
    """How two time series are compared. All methods take batches of `as_series`, of one type."""

    has_bounds = False  # whether `nearest` may use the lower bounds of dynamic time warping

    def placed(self, longest: int) -> Distance:
        """Returns this distance for series of at most `longest` times: a window that is a fraction becomes steps."""
        return self

    @abstractmethod
    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        """Computes the distances (n, p) of all pairs; with `triangle` only those with j ≥ i, and zeros."""

    @abstractmethod
    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes the cost (M, N) up to each cell, for one series in each batch."""

    @abstractmethod
    def path(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Returns the cells (length, 2) of the best path, for one series in each batch."""


@dataclass(frozen=True)
class _Warping(Distance):
    """The base class of distances by dynamic time warping."""

    window: Window = None

    def __post_init__(self) -> None:
        band_of(type(self).__name__, self.window, 1)

    def placed(self, longest: int) -> Distance:
        return replace(self, window=band_of(type(self).__name__, self.window, longest))

    def band(self, x: SeriesBatch, y: SeriesBatch) -> Band | None:
        """Returns the band for these series."""
        return band_of(type(self).__name__, self.window, max(x.values.shape[1], y.values.shape[1]))

    def plain_band(self, x: SeriesBatch, y: SeriesBatch) -> PlainBand:
        """Returns the band as numbers for kernels."""
        return plain_band(type(self).__name__, self.band(x, y))

    def path(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Returns the cheapest path: under smoothing it is the most likely one."""
        return Alignment(band=self.band(x, y)).map(-squared_costs(x, y)[0]).nonzero()

    def _smoothed(self, x: SeriesBatch, y: SeriesBatch, gamma: float, omega: Omega, triangle: bool) -> Tensor:
        return series_distances(x.values, y.values, x.lengths, y.lengths, gamma, omega, self.plain_band(x, y), triangle)

    def _accumulated(self, x: SeriesBatch, y: SeriesBatch, gamma: float, omega: Omega) -> Tensor:
        costs = squared_costs(x, y)
        inside = inside_band(self.plain_band(x, y), costs.shape[1], costs.shape[2], x.lengths, y.lengths)
        return accumulated(torch.where(inside, costs, torch.inf), gamma, omega)[0]


@dataclass(frozen=True)
class Dtw(_Warping):
    """The cost of the cheapest path, Σ |x_i − y_j|², or its square root with `convention="root"`.

    `steps` are those of `omegamax.structures.Alignment`; with others than the three unit steps it is slower.
    """

    convention: str = "squared"
    steps: tuple[Step, ...] = SYMMETRIC1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", check_steps("Dtw", self.steps))
        if self.convention not in _CONVENTIONS:
            raise ValueError(
                f'Dtw: convention must be "squared" (as aeon) or "root" (as tslearn), got {self.convention!r}; the '
                "root is that of the sum"
            )

    @property
    def has_bounds(self) -> bool:  # type: ignore[override]
        """The lower bounds hold for unit steps."""
        return self.steps == SYMMETRIC1

    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        if self.steps == SYMMETRIC1:
            found = self._smoothed(x, y, 1.0, Omega.HARD, triangle)
        else:
            found = by_blocks(x, y, triangle, self._of_pairs)
        return self.in_convention(found)

    def in_convention(self, squared: Tensor) -> Tensor:
        """Converts sums of squares to the convention of this distance."""
        return squared.sqrt() if self.convention == "root" else squared

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes the sum of squares up to each cell; infinite outside the band. The root is not taken."""
        if self.steps == SYMMETRIC1:
            return self._accumulated(x, y, 1.0, Omega.HARD)
        return _cells_by_steps(squared_costs(x, y)[0], self.steps, self.band(x, y))

    def path(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        return Alignment(self.steps, self.band(x, y)).map(-squared_costs(x, y)[0]).nonzero()

    def _of_pairs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        structure = Alignment(self.steps, self.band(x, y))
        return 0 - structure.max(-squared_costs(x, y), Hard(), lengths=(x.lengths, y.lengths))


@dataclass(frozen=True)
class SoftDtw(_Warping):
    """Soft-DTW with temperature `gamma` (Cuturi & Blondel, ICML 2017); it may be negative."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_gamma(self)

    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        return self._smoothed(x, y, self.gamma, Omega.SHANNON, triangle)

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        return self._accumulated(x, y, self.gamma, Omega.SHANNON)


@dataclass(frozen=True)
class SparseDtw(_Warping):
    """Squared-norm DTW with temperature `gamma` (Mensch & Blondel, ICML 2018): few paths have weight."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_gamma(self)

    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        return self._smoothed(x, y, self.gamma, Omega.SQUARED_NORM, triangle)

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        return self._accumulated(x, y, self.gamma, Omega.SQUARED_NORM)


@dataclass(frozen=True)
class SoftDtwDivergence(_Warping):
    """The divergence of soft-DTW (Blondel, Mensch & Vert, AISTATS 2021): zero for equal series."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_gamma(self)

    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        soft = SoftDtw(self.window, self.gamma)
        both = soft.pairwise(x, y, triangle=triangle)
        found = both - (self._halves(x, y).unsqueeze(1) + self._halves(y, x))
        return found.triu() if triangle else found

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        raise ValueError(
            "soft_dtw_divergence: it is a difference of three costs and has no cost matrix; use that of soft_dtw"
        )

    def _halves(self, series: SeriesBatch, other: SeriesBatch) -> Tensor:
        """Computes half of the soft-DTW of each series with itself, (n,).

        It runs the same kernel on small squares, so that equal series have a divergence of exactly zero.
        """
        soft, found = SoftDtw(self.band(series, other), self.gamma), []
        for begin in range(0, len(series), _SQUARE):
            some = series.select(slice(begin, begin + _SQUARE))
            found.append(soft.pairwise(some, some, triangle=True).diagonal() / 2)
        return torch.cat(found) if found else series.values.new_zeros(0)


_SQUARE = 8
_CELLS = 1 << 22  # of all grids that are swept at once


def _check_gamma(distance: Any) -> None:
    gamma, who = distance.gamma, type(distance).__name__
    if isinstance(gamma, bool) or not isinstance(gamma, numbers.Real):
        raise TypeError(f"{who}: gamma must be a number, got {type(gamma).__name__}; smaller is closer to DTW")
    if not 0 < float(gamma) < math.inf:
        raise ValueError(f"{who}: gamma must be positive and finite, got {gamma}; for gamma = 0 use dtw")


def squared_costs(x: SeriesBatch, y: SeriesBatch) -> Tensor:
    """Computes |x_i − y_j|² (pairs, M, N) of the series with equal numbers."""
    return (x.values.unsqueeze(2) - y.values.unsqueeze(1)).square().sum(-1)


def by_blocks(x: SeriesBatch, y: SeriesBatch, triangle: bool, of_pairs: Any) -> Tensor:
    """Computes the matrix of a distance that takes a batch of pairs, a block of pairs at a time."""
    n, p = len(x), len(y)
    found = x.values.new_zeros(n, p)
    i, j = torch.triu_indices(n, p) if triangle else torch.cartesian_prod(torch.arange(n), torch.arange(p)).T
    most = max(1, _CELLS // max(1, x.values.shape[1] * y.values.shape[1]))
    for begin in range(0, i.numel(), most):
        rows, columns = i[begin : begin + most], j[begin : begin + most]
        found[rows, columns] = of_pairs(x.select(rows), y.select(columns)).to(found.dtype)
    return found


def _cells_by_steps(costs: Tensor, steps: tuple[Step, ...], band: Band | None) -> Tensor:
    """Computes the cost of the cheapest path to each cell, for any steps, cell by cell."""
    m, n = costs.shape
    inside = torch.ones(m, n, dtype=torch.bool)
    if band is not None:
        first, last = band.rows(m, torch.tensor([m]), torch.tensor([n]))
        column = torch.arange(n)
        inside = (column >= first[0].unsqueeze(1)) & (column <= last[0].unsqueeze(1))
    given, allowed, found = costs.tolist(), inside.tolist(), [[math.inf] * n for _ in range(m)]
    for i in range(m):
        for j in range(n):
            if not allowed[i][j]:
                continue
            into = [found[i - di][j - dj] + weight * given[i][j] for di, dj, weight in steps if i >= di and j >= dj]
            found[i][j] = given[0][0] if i == j == 0 else min(into, default=math.inf)
    return torch.tensor(found, dtype=costs.dtype)
