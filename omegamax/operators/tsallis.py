"""Tsallis entropies of order α: entmax, from softmax (α = 1) over entmax15 to sparsemax (α = 2) and beyond."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.entmax import entmax, entmax_product
from omegamax.kernels.entmax_pull import entmax_pull
from omegamax.kernels.entmax_slope import entmax_slope
from omegamax.operator_table import ENTMAX
from omegamax.operators.regularizer import KernelRegularizer, Pullback, Slope


@dataclass(frozen=True, eq=False)
class Tsallis(KernelRegularizer):
    """Ω(p) = (Σ p^α − 1) / (α (α − 1)), α ≥ 1; at α = 1 Shannon's Σ p log p. Its argmax is α-entmax.

    `alpha` is a number, or a tensor that broadcasts against the scores with size 1 along the row, and then it learns:
    with ε = α − 1 and L = log p,

        Ω(p) = 1/α Σ p L g(εL)        g(y) = (e^y − 1) / y
        ∂_α ∇Ω = L² h(εL) + const     h(y) = g'(y) = (1 + (y − 1) e^y) / y²

    which are smooth through α = 1. Peters, Niculae & Martins, "Sparse sequence-to-sequence models", ACL 2019;
    Correia, Niculae & Martins, "Adaptively sparse transformers", EMNLP 2019.
    """

    facts = ENTMAX
    solver = entmax
    alpha: float | Tensor = ENTMAX.default

    @property
    def always_positive(self) -> bool:  # type: ignore[override]
        """Whether α = 1, where it is Shannon."""
        return bool(torch.as_tensor(self.alpha == 1).all())

    def omega(self, weights: Tensor) -> Tensor:
        """(Σ p^α − 1) / (α (α − 1)), written so that α = 1 is not special."""
        positive = weights > 0
        log = torch.where(positive, weights, 1).log()
        excess = self.alpha - 1
        ratio = _expm1_ratio(excess * log)
        return (weights * log * ratio / self.alpha).sum(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """(diag s − s s' / Σs) v with s = p^(2 − α) on the support."""
        return entmax_product(certificate[0], self.alpha, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Computes the formulas above, on the support."""
        return (Slope(*entmax_slope(certificate[0], self.alpha)),)

    def pull_back(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Pullback:
        """Computes J v and its inner product with the slope from the same logarithms."""
        product, along = entmax_pull(certificate[0], self.alpha, direction)
        return Pullback(product, (along,))


def _expm1_ratio(y: Tensor) -> Tensor:
    """(e^y − 1) / y, 1 at 0, with the right derivatives there (a short series)."""
    small = y.abs() < 1e-3
    safe = torch.where(small, 1, y)
    series = 1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5)))
    return torch.where(small, series, safe.expm1() / safe)
