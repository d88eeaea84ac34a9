"""Ω = 0: the plain maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax.kernels.hardmax import hardmax
from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True)
class Hard(Regularizer):
    """Ω(p) = 0. Its max is the maximum, its argmax the corner of the simplex with the largest score.

    Ties go to the lowest index. The argmax is piecewise constant: its derivative is zero wherever it exists.
    """

    weights_suffice: ClassVar[bool] = True
    zero_at_corners: ClassVar[bool] = True

    def omega(self, weights: Tensor) -> Tensor:
        """Zero."""
        return torch.zeros_like(weights[..., 0]) if weights.shape[-1] else weights.sum(-1)

    def solve(self, scores: Tensor) -> Solution:
        """One-hot rows."""
        weights, value = hardmax(scores)
        return Solution(weights, value, (weights,))

    def bare_weights(self, scores: Tensor) -> Tensor:
        """One-hot rows."""
        return hardmax.weights(scores)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Zero: the argmax does not move (NaN rows stay NaN)."""
        still = 0 * certificate[0]
        return still if still.shape == direction.shape else still + torch.zeros_like(direction)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The PyTorch twin: it has no loop."""
        weights, value = hardmax.reference(scores)
        return Solution(weights, value, (weights,))
