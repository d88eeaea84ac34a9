"""The squared Euclidean norm: sparsemax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True)
class SquaredNorm(Regularizer):
    """Ω(p) = ½(‖p‖² − 1) on the simplex. Its argmax is sparsemax, the Euclidean projection onto the simplex.

    Martins & Astudillo, "From softmax to sparsemax", ICML 2016.
    """

    weights_suffice: ClassVar[bool] = True
    zero_at_corners: ClassVar[bool] = True

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1)."""
        return 0.5 * (weights.square().sum(-1) - 1)

    def solve(self, scores: Tensor) -> Solution:
        """Projection onto the simplex."""
        weights, value = sparsemax(scores)
        return Solution(weights, value, (weights,))

    def bare_weights(self, scores: Tensor) -> Tensor:
        """The projection alone."""
        return sparsemax.weights(scores)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Centres the direction on the support."""
        return sparsemax_product(certificate[0], direction)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The PyTorch twin, by sorting."""
        weights, value = sparsemax.reference(scores)
        return Solution(weights, value, (weights,))
