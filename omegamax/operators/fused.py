"""The squared norm with a total-variation penalty: fusedmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.fusedmax import fusedmax, fusedmax_product
from omegamax.kernels.oscarmax import cluster_mean
from omegamax.operator_table import FUSEDMAX
from omegamax.operators.regularizer import KernelRegularizer, Slope, total


@dataclass(frozen=True, eq=False)
class Fused(KernelRegularizer):
    """Ω(p) = ½(‖p‖² − 1) + strength · Σ |p_{i+1} − p_i|. Its argmax, fusedmax, gives equal weight to whole segments.

    A masked position is taken out of the row: its neighbours become adjacent. `strength` may be a tensor, one per row.
    Niculae & Blondel, NIPS 2017: fusedmax(θ) = sparsemax(prox_TV(θ)).
    """

    facts = FUSEDMAX
    solver = fusedmax
    strength: float | Tensor = FUSEDMAX.default

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1) + strength · Σ |p_{i+1} − p_i|."""
        variation = total(weights.diff(dim=-1).abs())
        return (0.5 * (total(weights.square()) - 1) + self.strength * variation).squeeze(-1)

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """Computes Ω(p) where the neighbours of a removed position are adjacent."""
        jumps = variation(weights, removed).omega
        return (0.5 * (total(weights.square()) - 1) + self.strength * jumps).squeeze(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages the direction over each segment of the support, then centres it on the support."""
        weights, joined = certificate
        return fusedmax_product(weights, joined, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Computes Σ |Δp| and its subgradient, along the row without its masked positions."""
        weights, joined = certificate
        return (variation(weights, joined & (weights == 0)),)  # the solver marks masked positions so


def variation(weights: Tensor, removed: Tensor) -> Slope:
    """Computes the total variation of what is left after removing positions, and its subgradient D' sign(D p)."""
    position = torch.arange(1, weights.shape[-1] + 1, device=weights.device).expand(weights.shape)
    latest = torch.where(removed, 0, position).cummax(-1).values  # 1 + last kept position up to here
    before = torch.nn.functional.pad(latest, (1, 0))[..., :-1]  # the same, strictly before; 0 means none
    jump = weights - weights.gather(-1, (before - 1).clamp(min=0))
    jump = torch.where(removed | (before == 0), 0, jump)
    sign = jump.sign()
    target = torch.where(before == 0, position, before) - 1  # a sign of 0 may land anywhere
    gradient = sign - torch.zeros_like(sign).scatter_add(-1, target, sign)
    # Neighbours of equal weight move together with the strength, also where the solver counts them as two segments (the
    # string is at its bound between them). The sign between these is not 0 but unknown; the mean does not depend on it.
    run = torch.where(removed, -1, (jump != 0).cumsum(-1)).to(torch.int32)
    return Slope(total(jump.abs()), torch.where(removed, 0, cluster_mean(run, gradient)))
