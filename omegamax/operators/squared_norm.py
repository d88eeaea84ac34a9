"""The squared Euclidean norm: sparsemax."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.operator_table import SPARSEMAX
from omegamax.operators.regularizer import KernelRegularizer


@dataclass(frozen=True)
class SquaredNorm(KernelRegularizer):
    """Ω(p) = ½(‖p‖² − 1) on the simplex. Its argmax is sparsemax, the Euclidean projection onto the simplex.

    Martins & Astudillo, "From softmax to sparsemax", ICML 2016.
    """

    facts = SPARSEMAX
    solver = sparsemax

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1)."""
        return 0.5 * (weights.square().sum(-1) - 1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Centres the direction on the support."""
        return sparsemax_product(certificate[0], direction)
