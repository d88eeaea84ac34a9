"""Squared p-norms, 1 < p ≤ 2: sq-pnorm-max."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels.sqpnormmax import sqpnormmax, sqpnormmax_product
from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True)
class SquaredPNorm(Regularizer):
    """Ω(p) = ½(‖p‖_p² − 1), 1 < p ≤ 2; p = 2 is sparsemax. Smoother at the ends than sparsemax, and still sparse.

    Niculae & Blondel, "A regularized framework for sparse and structured neural attention", NIPS 2017, §3.1. The
    optimum is z^(q−1) ‖z‖_q^(2−q) with z = (θ − τ)₊ and 1/p + 1/q = 1: one unknown, solved to machine precision.
    """

    p: float = 1.5

    weights_suffice: ClassVar[bool] = True
    zero_at_corners: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.check_p("SquaredPNorm", self.p)
        object.__setattr__(self, "p", checks.plain(self.p))

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖_p² − 1)."""
        positive = weights > 0
        powers = torch.where(positive, torch.where(positive, weights, 1).pow(self.p), 0)
        return 0.5 * (powers.sum(-1).pow(2 / self.p) - 1)

    def solve(self, scores: Tensor) -> Solution:
        """One root per row."""
        weights, value = sqpnormmax(scores, self.p)
        return Solution(weights, value, (weights,))

    def bare_weights(self, scores: Tensor) -> Tensor:
        """The weights alone."""
        return sqpnormmax.weights(scores, float(self.p))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Proposition 1 of the paper with its diagonal-plus-rank-one Hessian."""
        return sqpnormmax_product(certificate[0], self.p, direction)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The PyTorch twin."""
        weights, value = sqpnormmax.reference(scores, self.p)
        return Solution(weights, value, (weights,))
