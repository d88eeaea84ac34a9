"""Shannon's negative entropy: log-sum-exp and softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax.kernels.kernel import Solver
from omegamax.kernels.softmax import softmax, softmax_product
from omegamax.operators.regularizer import KernelRegularizer


@dataclass(frozen=True)
class Shannon(KernelRegularizer):
    """Ω(p) = Σ p log p. Its max is log-sum-exp, its argmax softmax; weights are positive wherever scores are finite."""

    solver: ClassVar[Solver[Any]] = softmax
    exports: ClassVar[bool] = True
    numbers = ()
    zero_at_corners: ClassVar[bool] = True
    always_positive: ClassVar[bool] = True

    def omega(self, weights: Tensor) -> Tensor:
        """Σ p log p, with 0 log 0 = 0."""
        return torch.xlogy(weights, weights).sum(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """(diag p − p p') v."""
        return softmax_product(certificate[0], direction)
