"""The squared norm with the OSCAR penalty: oscarmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.oscarmax import default_strength, oscarmax, oscarmax_product
from omegamax.operator_table import OSCARMAX
from omegamax.operators.regularizer import KernelRegularizer, Slope, total


@dataclass(frozen=True, eq=False)
class Oscar(KernelRegularizer):
    """Ω(p) = ½(‖p‖² − 1) + strength · Σ_{i<j} max(p_i, p_j). Its argmax, oscarmax, gives equal weight to clusters.

    It is solved exactly, for scores of any sign: sort, subtract strength·(d − rank), pool adjacent
    violators, project. The composition in the paper (Niculae & Blondel, NIPS 2017, Proposition 2) ranks by |θ| and
    clips at zero before it projects, which is not optimal in general, e.g. for [0.5, −0.5, 0]. `strength` may be a
    tensor, one per row. By default (None) it is min(0.01, 1/d) for the d positions of a row that are not masked: the
    paper's 0.01 up to 100 positions, and beyond them less, so that long rows do not collapse to equal weights.
    """

    facts = OSCARMAX
    solver = oscarmax
    strength: float | Tensor | None = OSCARMAX.default

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1) + strength · Σ (d − rank) p, rank 1 the largest."""
        return self._omega(weights, 0, self._strength_of(weights.shape[-1]))

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """Computes Ω(p) where a removed position is in no pair."""
        n_removed = total(removed.to(weights.dtype))
        return self._omega(weights, n_removed, self._strength_of(weights.shape[-1] - n_removed))

    def _omega(self, weights: Tensor, n_removed: float | Tensor, strength: float | Tensor) -> Tensor:
        columns = weights.shape[-1]
        ordered = weights.sort(dim=-1, descending=True).values
        pairs = torch.arange(columns - 1, -1, -1, dtype=weights.dtype, device=weights.device)
        maxima = total(pairs * ordered) - n_removed * total(weights)
        return (0.5 * (total(weights.square()) - 1) + strength * maxima).squeeze(-1)

    def _strength_of(self, n_positions: int | Tensor) -> float | Tensor:
        """Returns the strength of rows with this many positions that are not masked."""
        return default_strength(n_positions) if self.strength is None else self.strength

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages the direction over each cluster of the support, then centres it on the support."""
        weights, labels = certificate
        return oscarmax_product(weights, labels, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """(d − rank), d the number of positions that are not masked (label −2)."""
        weights, labels = certificate
        rank = 1 + weights.argsort(dim=-1, descending=True).argsort(dim=-1)
        pairs = (total((labels != -2).to(weights.dtype)) - rank).to(weights.dtype)
        return (Slope(total(pairs * weights), pairs),)
