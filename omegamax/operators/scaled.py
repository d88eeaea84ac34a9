"""Temperature, in one place for every smoothed maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.smoothmax import SmoothMax, Solution

_SAFE = 1e-6  # scores up to 1e30, divided by this, are finite in float32


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
        object.__setattr__(self, "gamma", checks.plain(self.gamma))

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
        scores, top = self._shifted(scores)
        weights, value, certificate = self.inner.solve(self._divided(scores))
        return Solution(weights, self._multiplied(value) + top, certificate)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """J v / γ."""
        return self.inner.hessian_product(certificate, direction) / self.gamma

    def bare_weights(self, scores: Tensor) -> Tensor:
        """The inner weights at θ/γ, which is bare too unless γ learns."""
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        return self.inner.argmax(self._divided(self._shifted(scores)[0]))

    def _evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        scores, top = self._shifted(scores)
        weights, value = self.inner._evaluate(self._divided(scores))
        return weights, self._multiplied(value) + top

    def _shifted(self, scores: Tensor) -> tuple[Tensor, Any]:
        """Rows below their maximum, and that maximum, where θ/γ might exceed the largest number; else as they are."""
        in_range = scores.dtype is torch.float64 or (not isinstance(self.gamma, Tensor) and self.gamma >= _SAFE)
        if in_range or not self.inner.on_simplex or scores.shape[-1] == 0:
            return scores, 0.0
        masked = scores == -torch.inf
        top = scores.detach().amax(-1, keepdim=True)
        top = torch.where(top.isfinite(), top, 0)
        least = torch.finfo(scores.dtype).min * self.gamma  # what is divided by γ stays finite
        below = torch.maximum(scores - top, torch.as_tensor(least, dtype=scores.dtype, device=scores.device).detach())
        return torch.where(masked, scores, below), top.squeeze(-1)

    def _evaluate_weights(self, scores: Tensor) -> Tensor:
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        return self.inner._evaluate_weights(self._divided(self._shifted(scores)[0]))

    # −inf is kept out of both products: its derivative with respect to gamma would be NaN.

    def _divided(self, scores: Tensor) -> Tensor:
        if not isinstance(self.gamma, Tensor):
            return scores / self.gamma
        masked = scores == -torch.inf
        gamma = torch.where((self.gamma > 0) & (self.gamma < torch.inf), self.gamma, torch.nan).to(scores.dtype)
        return torch.where(masked, scores, torch.where(masked, 0, scores) / gamma)

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
