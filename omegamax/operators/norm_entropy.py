"""The norm of the weights, of any order α > 1: normmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.normmax import normmax, normmax_product, normmax_slope
from omegamax.operator_table import NORMMAX
from omegamax.operators.regularizer import KernelRegularizer, Slope, total


@dataclass(frozen=True, eq=False)
class NormEntropy(KernelRegularizer):
    """Ω(p) = ‖p‖_α − 1, 1 < α < ∞. Its argmax is normmax: sparse, and nearly equal weights from moderate orders on.

    A norm is linear along rays from the origin, but a ray meets the simplex in one point, and elsewhere the α-norm is
    strictly convex: the argmax is unique. As α falls to 1, Ω vanishes and normmax becomes hardmax. As α grows it
    approaches equal weights on the support of sparsemax, which have no derivative: α = ∞ is refused.

    With z = (θ − τ)₊ the weights are z^(1/(α − 1)) divided by their sum, Σ z^(α/(α − 1)) = 1 and max_Ω(θ) = τ + 1: one
    unknown, solved to machine precision. Blondel, Martins & Niculae, "Learning with Fenchel-Young losses", JMLR 2020.

    Arguments:
        alpha: the order of the norm, above 1 and finite; a tensor, one for each row, may learn
    """

    facts = NORMMAX
    solver = normmax
    alpha: float | Tensor = NORMMAX.default

    def omega(self, weights: Tensor) -> Tensor:
        """‖p‖_α − 1."""
        if weights.shape[-1] == 0:
            return weights.sum(-1) - 1
        top = weights.amax(-1, keepdim=True).detach()  # factored out, because its power may underflow
        support, scale = weights != 0, torch.where(top == 0, 1, top)
        powers = torch.where(support, torch.where(support, weights / scale, 1).pow(self.alpha), 0)
        sums = total(powers)
        norm = torch.where(sums == 0, 0, torch.where(sums == 0, 1, sums).pow(1 / self.alpha))
        return (scale * norm).squeeze(-1) - 1

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """M v' − p <m, v'> with v' = v − <p, v>; see `normmax_product`."""
        return normmax_product(certificate[0], self.alpha, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Computes how the norm and its gradient change with α; see `normmax_slope`."""
        return (Slope(*normmax_slope(certificate[0], self.alpha)),)
