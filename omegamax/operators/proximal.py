"""Proximal operators as smoothed maxima without the simplex.

    prox_f(x) = argmin_y ½‖y − x‖² + f(y) = argmax_y <y, x> − (½‖y‖² + f(y)) = argmax_Ω(x),    Ω = ½‖·‖² + f

so they share the contract, its derivatives and every route of `SmoothMax`. Each f here is positively homogeneous, hence
<x − y, y> = f(y) at the optimum and the maximum is simply ½‖y‖². They take no masks: a row with a non-finite entry is
NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax.kernels.isotonic import isotonic
from omegamax.kernels.owl import owl_product, prox_owl
from omegamax.kernels.prox_group import group_norm, prox_group, prox_group_product
from omegamax.kernels.tv1d import prox_tv1d, segment_mean
from omegamax.operators.fused import variation
from omegamax.operators.group_lasso import labels_of
from omegamax.operators.regularizer import RowOperator, Slope, Solution, total


def _solution(solution: Tensor, *constants: Tensor) -> Solution:
    return Solution(solution, 0.5 * solution.square().sum(-1), (solution, *constants))


@dataclass(frozen=True, eq=False)
class TotalVariation(RowOperator):
    """½‖y‖² + strength · Σ |y_{i+1} − y_i|. Its argmax denoises: piecewise constant rows."""

    strength: float | Tensor

    learnable: ClassVar[str | None] = "strength"
    constants: ClassVar[torch.dtype | None] = torch.bool

    def omega(self, weights: Tensor) -> Tensor:
        """½‖y‖² + strength · Σ |y_{i+1} − y_i|."""
        return (0.5 * total(weights.square()) + self.strength * total(weights.diff(dim=-1).abs())).squeeze(-1)

    def solve(self, scores: Tensor) -> Solution:
        return _solution(*prox_tv1d(scores, self.strength))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages over each segment (Niculae & Blondel, 2017, Proposition 3)."""
        solution, joined = certificate
        return segment_mean(joined, direction) + 0 * solution

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Σ |Δy| and D' sign(Dy)."""
        solution, joined = certificate
        return (variation(solution, torch.zeros_like(joined)),)


@dataclass(frozen=True, eq=False)
class OrderedL1(RowOperator):
    """½‖y‖² + Σ_i w_i |y|_(i) with w non-increasing and non-negative (OWL)."""

    weights: Tensor

    learnable: ClassVar[str | None] = "weights"
    constants: ClassVar[torch.dtype | None] = torch.int32

    def omega(self, weights: Tensor) -> Tensor:
        """½‖y‖² + Σ_i w_i |y|_(i)."""
        ordered = weights.abs().sort(dim=-1, descending=True).values
        return (0.5 * weights.square() + self.weights * ordered).sum(-1)

    def solve(self, scores: Tensor) -> Solution:
        """Sorts, subtracts, pools adjacent violators and clips (Zeng & Figueiredo, 2014)."""
        weights = self.weights
        valid = (weights.diff(dim=-1) <= 0).all(-1, keepdim=True) & (weights[..., -1:] >= 0)
        return _solution(*prox_owl(scores, torch.where(valid, weights, torch.nan)))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Signed mean over each cluster (Niculae & Blondel, 2017, Proposition 3)."""
        return owl_product(*certificate, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Raises an error: there would be one slope for each rank."""
        raise RuntimeError(
            "prox_owl: weights must not be differentiated, got a derivative with respect to them; detach them, or use "
            "prox_oscar, whose strength learns"
        )

    def check_fit(self, scores: Tensor) -> None:
        """Checks nothing: `prox_owl` has checked the weights, which run along the row."""


@dataclass(frozen=True, eq=False)
class OscarNorm(RowOperator):
    """½‖y‖² + strength · Σ_{i<j} max(|y_i|, |y_j|): OWL with w_i = strength · (n − i)."""

    strength: float | Tensor

    learnable: ClassVar[str | None] = "strength"
    constants: ClassVar[torch.dtype | None] = torch.int32

    def omega(self, weights: Tensor) -> Tensor:
        """½‖y‖² + strength · Σ_i (n − i) |y|_(i)."""
        ordered = weights.abs().sort(dim=-1, descending=True).values
        return (0.5 * total(weights.square()) + self.strength * total(_pairs(weights) * ordered)).squeeze(-1)

    def solve(self, scores: Tensor) -> Solution:
        strength = self.strength
        if isinstance(strength, Tensor):
            strength = torch.where(strength >= 0, strength, torch.nan)
        return _solution(*prox_owl(scores, strength * _pairs(scores)))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Signed mean over each cluster."""
        return owl_product(*certificate, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """(n − rank) sign(y)."""
        solution, _ = certificate
        rank = solution.abs().argsort(dim=-1, descending=True).argsort(dim=-1)
        pairs = _pairs(solution).expand_as(solution).gather(-1, rank)
        return (Slope(total(pairs * solution.abs()), pairs * solution.sign()),)


def _pairs(like: Tensor) -> Tensor:
    return torch.arange(like.shape[-1] - 1, -1, -1, dtype=like.dtype, device=like.device)


@dataclass(frozen=True, eq=False)
class GroupNorm(RowOperator):
    """½‖y‖² + strength · Σ_g ‖y_g‖₂: the group lasso's prox, which shrinks or drops whole groups."""

    groups: Sequence[int]
    strength: float | Tensor

    learnable: ClassVar[str | None] = "strength"

    def spec(self) -> tuple[str, list[float]]:
        """Returns the strength, if it is a number, then the group of every position."""
        strength = [] if isinstance(self.strength, Tensor) else [float(self.strength)]
        return "GroupNorm", strength + [float(g) for g in self.groups]

    @classmethod
    def from_spec(cls, numbers: list[float], parameter: Tensor | None) -> GroupNorm:
        """Makes the leaf that `spec` described."""
        strength = numbers[0] if parameter is None else parameter
        return cls(tuple(int(g) for g in (numbers[1:] if parameter is None else numbers)), strength)

    def omega(self, weights: Tensor) -> Tensor:
        """½‖y‖² + strength · Σ_g ‖y_g‖."""
        return (0.5 * total(weights.square()) + self.strength * self._norm_sum(weights)).squeeze(-1)

    def solve(self, scores: Tensor) -> Solution:
        return _solution(prox_group(scores, self._labels(scores), self.strength))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Multiplies by a multiple of the identity plus rank one in each group that is left."""
        (solution,) = certificate
        labels = self._labels(solution)
        norm = group_norm(solution, labels)
        positive = norm > 0
        strength = self.strength
        rows = torch.where(positive, solution * (1 + strength / torch.where(positive, norm, 1)), 0)
        return prox_group_product(rows + 0 * solution, labels, strength, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Σ_g ‖y_g‖ and y_g / ‖y_g‖."""
        (solution,) = certificate
        norm = group_norm(solution, self._labels(solution))
        return (Slope(self._norm_sum(solution), solution / torch.where(norm > 0, norm, 1)),)

    def _labels(self, like: Tensor) -> Tensor:
        return labels_of(self, like)

    def _norm_sum(self, weights: Tensor) -> Tensor:
        labels = self._labels(weights)
        sizes = torch.bincount(labels, minlength=1)[labels]
        return total(group_norm(weights, labels) / sizes)


@dataclass(frozen=True)
class Monotone(RowOperator):
    """½‖y‖² over non-decreasing rows. Its argmax is isotonic regression."""

    constants: ClassVar[torch.dtype | None] = torch.bool

    def omega(self, weights: Tensor) -> Tensor:
        """½‖y‖²."""
        return 0.5 * weights.square().sum(-1)

    def solve(self, scores: Tensor) -> Solution:
        return _solution(*isotonic(scores))

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages over each block."""
        solution, joined = certificate
        return segment_mean(joined, direction) + 0 * solution
