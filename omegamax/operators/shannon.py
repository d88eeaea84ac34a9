"""Shannon's negative entropy: log-sum-exp and softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.softmax import softmax, softmax_product
from omegamax.operator_table import SOFTMAX
from omegamax.operators.regularizer import KernelRegularizer


@dataclass(frozen=True)
class Shannon(KernelRegularizer):
    """Ω(p) = Σ p log p. Its max is log-sum-exp, its argmax softmax; weights are positive wherever scores are finite."""

    facts = SOFTMAX
    solver = softmax

    def omega(self, weights: Tensor) -> Tensor:
        """Σ p log p, with 0 log 0 = 0."""
        return torch.xlogy(weights, weights).sum(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """(diag p − p p') v."""
        return softmax_product(certificate[0], direction)
