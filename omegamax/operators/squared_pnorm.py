"""Squared p-norms, 1 < p ≤ 2: sq-pnorm-max."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.sqpnormmax import sqpnormmax, sqpnormmax_product
from omegamax.operator_table import SQPNORMMAX
from omegamax.operators.regularizer import KernelRegularizer


@dataclass(frozen=True)
class SquaredPNorm(KernelRegularizer):
    """Ω(p) = ½(‖p‖_p² − 1), 1 < p ≤ 2; p = 2 is sparsemax. Smoother at the ends than sparsemax, and still sparse.

    Niculae & Blondel, "A regularized framework for sparse and structured neural attention", NIPS 2017, §3.1. The
    optimum is z^(q−1) ‖z‖_q^(2−q) with z = (θ − τ)₊ and 1/p + 1/q = 1: one unknown, solved to machine precision.

    Arguments:
        p: of the norm, 1 < p ≤ 2
    """

    facts = SQPNORMMAX
    solver = sqpnormmax
    p: float = SQPNORMMAX.default

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖_p² − 1)."""
        positive = weights > 0
        powers = torch.where(positive, torch.where(positive, weights, 1).pow(self.p), 0)
        return 0.5 * (powers.sum(-1).pow(2 / self.p) - 1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Proposition 1 of the paper with its diagonal-plus-rank-one Hessian."""
        return sqpnormmax_product(certificate[0], self.p, direction)
