"""Temperature, in one place for every smoothed maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.smoothmax import SmoothMax, Solution


@dataclass(frozen=True, eq=False)
class Scaled(SmoothMax):
    """γΩ for γ > 0:  max(θ) = γ max_Ω(θ/γ),  argmax(θ) = argmax_Ω(θ/γ).

    A small γ approaches the hard maximum, a large one the minimiser of Ω. A tensor `gamma` broadcasts against the
    scores with size 1 along the event, and learns.
    """

    inner: SmoothMax
    gamma: float | Tensor = 1.0

    def __post_init__(self) -> None:
        checks.check_gamma("Scaled", self.gamma)

    @property
    def event_ndim(self) -> int:  # type: ignore[override]
        """That of the scaled problem."""
        return self.inner.event_ndim

    def omega(self, weights: Tensor) -> Tensor:
        """γ Ω(p)."""
        return self._per_problem() * self.inner.omega(weights)

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """γ Ω(p) on what is left."""
        return self._per_problem() * self.inner.omega_without(weights, removed)

    def solve(self, scores: Tensor) -> Solution:
        """The inner solution at θ/γ."""
        weights, value, certificate = self.inner.solve(self._divided(scores))
        return Solution(weights, self._multiplied(value), certificate)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """J v / γ."""
        return self.inner.hessian_product(certificate, direction) / self.gamma

    def bare_weights(self, scores: Tensor) -> Tensor:
        """The inner weights at θ/γ, which is bare too unless γ learns."""
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        return self.inner.argmax(self._divided(scores))

    def _evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        weights, value = self.inner._evaluate(self._divided(scores))
        return weights, self._multiplied(value)

    def _evaluate_weights(self, scores: Tensor) -> Tensor:
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        return self.inner._evaluate_weights(self._divided(scores))

    # −inf is kept out of both products: its derivative with respect to gamma would be NaN.

    def _divided(self, scores: Tensor) -> Tensor:
        if not isinstance(self.gamma, Tensor):
            return scores / self.gamma
        masked = scores == -torch.inf
        return torch.where(masked, scores, torch.where(masked, 0, scores) / self.gamma.to(scores.dtype))

    def _multiplied(self, value: Tensor) -> Tensor:
        if not isinstance(self.gamma, Tensor):
            return value * self.gamma
        empty = value == -torch.inf
        return torch.where(empty, value, torch.where(empty, 0, value) * self._per_problem().to(value.dtype))

    def _per_problem(self) -> Any:
        """γ without the event's axes."""
        if not isinstance(self.gamma, Tensor):
            return self.gamma
        return self.gamma.reshape(self.gamma.shape[: -self.event_ndim]) if self.gamma.dim() else self.gamma
