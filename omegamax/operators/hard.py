"""Ω = 0: the plain maximum."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.hardmax import hardmax
from omegamax.operator_table import HARDMAX
from omegamax.operators.regularizer import KernelRegularizer


@dataclass(frozen=True)
class Hard(KernelRegularizer):
    """Ω(p) = 0. Its max is the maximum, its argmax the corner of the simplex with the largest score.

    Ties go to the lowest index. The argmax is piecewise constant: its derivative is zero wherever it exists.
    """

    facts = HARDMAX
    solver = hardmax

    def omega(self, weights: Tensor) -> Tensor:
        """Ω(p) = 0."""
        return torch.zeros_like(weights[..., 0]) if weights.shape[-1] else weights.sum(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Zero: the argmax does not move (NaN rows stay NaN)."""
        still = 0 * certificate[0]
        return still if still.shape == direction.shape else still + torch.zeros_like(direction)
