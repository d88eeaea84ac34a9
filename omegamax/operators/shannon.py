"""Shannon's negative entropy: log-sum-exp and softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax.kernels.softmax import softmax, softmax_product
from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True)
class Shannon(Regularizer):
    """Ω(p) = Σ p log p. Its max is log-sum-exp, its argmax softmax; weights are positive wherever scores are finite."""

    weights_suffice: ClassVar[bool] = True
    zero_at_corners: ClassVar[bool] = True

    def omega(self, weights: Tensor) -> Tensor:
        """Σ p log p, with 0 log 0 = 0."""
        return torch.xlogy(weights, weights).sum(-1)

    def solve(self, scores: Tensor) -> Solution:
        """Softmax and log-sum-exp in one pass."""
        weights, value = softmax(scores)
        return Solution(weights, value, (weights,))

    def bare_weights(self, scores: Tensor) -> Tensor:
        """Softmax alone."""
        return softmax.weights(scores)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """(diag p − p p') v."""
        return softmax_product(certificate[0], direction)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The PyTorch twin."""
        weights, value = softmax.reference(scores)
        return Solution(weights, value, (weights,))
