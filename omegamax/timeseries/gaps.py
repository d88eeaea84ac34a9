"""Distances with gaps: numbers of one series may stay without a partner in the other, at a cost.

    Edit               pairs within `tolerance` are free, others cost 1, and so does a number without a partner
    NeedlemanWunsch    a pair costs |x_i − y_j|², a gap of L numbers costs gap_open + (L − 1) gap_extend
    SmithWaterman      minus the best score of a stretch of x with a stretch of y: pairs score bonus − |x_i − y_j|²

They are recursions over three states (Gotoh, J. Mol. Biol. 1982): the last step made a pair, left a number of x
without a partner, or one of y. `omegamax.structures.GlobalAlignment` and `LocalAlignment` are the differentiable forms.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.structures.gapped_alignment import GappedScores, GlobalAlignment, LocalAlignment
from omegamax.timeseries.measures import Distance, by_blocks, squared_costs
from omegamax.timeseries.series import SeriesBatch


@dataclass(frozen=True)
class _Gapped(Distance):
    """The base class of distances with gaps."""

    def pair_costs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes the costs (pairs, M, N) of pairs of numbers."""
        return squared_costs(x, y)

    def gap_costs(self) -> tuple[float, float]:
        """Returns the cost of the first number of a gap, and that of each further one."""
        raise NotImplementedError

    def pairwise(self, x: SeriesBatch, y: SeriesBatch, *, triangle: bool = False) -> Tensor:
        return by_blocks(x, y, triangle, self._of_pairs)

    def _of_pairs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        cells = cells_with_gaps(self.pair_costs(x, y), *self.gap_costs())
        return cells[torch.arange(len(x)), x.lengths, y.lengths]

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes the cost (M + 1, N + 1) of aligning the first i numbers of x with the first j of y."""
        return cells_with_gaps(self.pair_costs(x, y), *self.gap_costs())[0]

    def path(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Returns the pairs (length, 2) of the best alignment; what is not listed has no partner."""
        scores = GappedScores.from_match(-self.pair_costs(x, y)[0], *(-cost for cost in self.gap_costs()))
        return GlobalAlignment().map(scores).match.nonzero()


@dataclass(frozen=True)
class Edit(_Gapped):
    """The edit distance of series (EDR): two numbers are equal if all their channels differ by at most `tolerance`.

    It is a count. aeon's `edr_distance` is another number: it is divided by a length, and differs otherwise too.
    """

    tolerance: float = 0.25

    def __post_init__(self) -> None:
        _check_number("Edit", "tolerance", self.tolerance, 0.0)

    def pair_costs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        apart = (x.values.unsqueeze(2) - y.values.unsqueeze(1)).abs().amax(-1)
        return (apart > self.tolerance).to(x.values.dtype)

    def gap_costs(self) -> tuple[float, float]:
        return 1.0, 1.0


@dataclass(frozen=True)
class NeedlemanWunsch(_Gapped):
    """The cheapest alignment of two whole series with affine gaps."""

    gap_open: float = 1.0
    gap_extend: float = 1.0

    def __post_init__(self) -> None:
        _check_number("NeedlemanWunsch", "gap_open", self.gap_open, 0.0)
        _check_number("NeedlemanWunsch", "gap_extend", self.gap_extend, 0.0)

    def gap_costs(self) -> tuple[float, float]:
        return float(self.gap_open), float(self.gap_extend)


@dataclass(frozen=True)
class SmithWaterman(_Gapped):
    """Minus the best score of a stretch of x aligned with a stretch of y: at most 0, and smaller is more alike."""

    bonus: float = 1.0
    gap_open: float = 1.0
    gap_extend: float = 1.0

    def __post_init__(self) -> None:
        _check_number("SmithWaterman", "bonus", self.bonus, 0.0)
        _check_number("SmithWaterman", "gap_open", self.gap_open, 0.0)
        _check_number("SmithWaterman", "gap_extend", self.gap_extend, 0.0)

    def pair_costs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        return squared_costs(x, y) - self.bonus

    def gap_costs(self) -> tuple[float, float]:
        return float(self.gap_open), float(self.gap_extend)

    def _of_pairs(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        known = [torch.arange(each.values.shape[1]) < each.lengths.unsqueeze(1) for each in (x, y)]
        inside = known[0].unsqueeze(2) & known[1].unsqueeze(1)
        costs = torch.where(inside, self.pair_costs(x, y), torch.inf)
        return cells_with_gaps(costs, *self.gap_costs(), local=True).flatten(1).amin(1).clamp(max=0)

    def cost_matrix(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes minus the best score (M + 1, N + 1) of a stretch that ends with i and j numbers."""
        return cells_with_gaps(self.pair_costs(x, y), *self.gap_costs(), local=True)[0]

    def path(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        scores = GappedScores.from_match(-self.pair_costs(x, y)[0], *(-cost for cost in self.gap_costs()))
        return LocalAlignment().map(scores).match.nonzero()


def cells_with_gaps(costs: Tensor, gap_open: float, gap_extend: float, *, local: bool = False) -> Tensor:
    """Computes the least cost up to every corner, (pairs, M + 1, N + 1), of pair costs (pairs, M, N).

    With `local` an alignment may begin anywhere, at cost 0.
    """
    pairs, m, n = costs.shape
    paired, gap_x, gap_y = (costs.new_full((pairs, m + 1, n + 1), math.inf) for _ in range(3))
    best = costs.new_full((pairs, m + 1, n + 1), math.inf)  # of the three
    paired[:, 0, 0] = best[:, 0, 0] = 0
    for t in range(m + n + 1):
        i = torch.arange(max(0, t - n), min(m, t) + 1)
        j = t - i
        down, right, both = i > 0, j > 0, (i > 0) & (j > 0)
        a, b = i[down], j[down]
        gap_x[:, a, b] = torch.minimum(best[:, a - 1, b] + gap_open, gap_x[:, a - 1, b] + gap_extend)
        a, b = i[right], j[right]
        gap_y[:, a, b] = torch.minimum(best[:, a, b - 1] + gap_open, gap_y[:, a, b - 1] + gap_extend)
        a, b = i[both], j[both]
        before = best[:, a - 1, b - 1]
        paired[:, a, b] = costs[:, a - 1, b - 1] + (before.clamp(max=0) if local else before)
        found = torch.minimum(torch.minimum(paired[:, i, j], gap_x[:, i, j]), gap_y[:, i, j])
        best[:, i, j] = found.clamp(max=0) if local else found
    return best


def _check_number(who: str, name: str, number: Any, least: float) -> None:
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise TypeError(f"{who}: {name} must be a number, got {type(number).__name__}; use for example 1.0")
    if not least <= float(number) < math.inf:
        raise ValueError(f"{who}: {name} must be finite and at least {least}, got {number}; use for example 1.0")
