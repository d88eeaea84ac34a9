"""The temperature of a smoothed maximum: one class for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.operators.operator import masked
from omegamax.smoothmax import SmoothMax, ValueAndWeights
from omegamax.wrong_kinds import instead_of, kind_of

_HALVES = (torch.float16, torch.bfloat16)
_SAFE = 1e-6  # scores up to 1e30, divided by this, are finite in float32


@dataclass(frozen=True, eq=False)
class Scaled(SmoothMax):
    """γΩ for γ > 0:  max(θ) = γ max_Ω(θ/γ),  argmax(θ) = argmax_Ω(θ/γ).

    A small γ approaches the hard maximum, a large one the minimiser of Ω. A tensor `gamma` broadcasts against the
    scores with size 1 along the event, and learns.

    Arguments:
        inner: the SmoothMax whose Ω is multiplied
        gamma: the temperature γ
    """

    inner: SmoothMax
    gamma: float | Tensor = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.inner, SmoothMax):
            raise TypeError(
                f"Scaled: inner must be a SmoothMax, got {kind_of(self.inner)}; "
                f"{instead_of(self.inner, 'om.SquaredNorm()')}"
            )
        checks.check_gamma("Scaled", self.gamma)
        object.__setattr__(self, "gamma", checks.plain(self.gamma))

    @property
    def event_ndim(self) -> int:  # type: ignore[override]
        """The number of event axes of the scaled problem."""
        return self.inner.event_ndim

    @property
    def sums_to_one(self) -> bool:  # type: ignore[override]
        """Whether the weights of the scaled problem sum to one."""
        return self.inner.sums_to_one

    @property
    def rows_sum_to_one(self) -> bool:  # type: ignore[override]
        """Whether the rows of the scaled problem sum to one."""
        return self.inner.rows_sum_to_one

    @property
    def always_positive(self) -> bool:  # type: ignore[override]
        """Whether the weights of the scaled problem are always positive."""
        return self.inner.always_positive

    def omega(self, weights: Tensor) -> Tensor:
        """γ Ω(p)."""
        return self._per_problem() * self.inner.omega(weights)

    def max(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """γ max_Ω(θ/γ)."""
        return self.max_and_argmax(scores, mask=mask, lengths=lengths).value

    def argmax(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """argmax_Ω(θ/γ)."""
        rows = self._wide(scores, mask, lengths)
        found = self.inner.argmax(self._divided(self._shifted(rows)[0]))
        return found if rows.dtype is scores.dtype else found.to(scores.dtype)

    def max_and_argmax(
        self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> ValueAndWeights:
        """Computes max and argmax from one solve of the scaled problem."""
        rows, top = self._shifted(self._wide(scores, mask, lengths))
        value, weights = self.inner.max_and_argmax(self._divided(rows))
        value = self._multiplied(value) + top
        return ValueAndWeights(value.to(scores.dtype), weights.to(scores.dtype))

    def _wide(self, scores: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Returns the masked scores, half types as float32: they are rounded once, at the end."""
        scores = masked("Scaled", self.event_ndim, scores, mask, lengths)
        checks.check_row_parameter("Scaled", "gamma", self.gamma, scores)
        return scores.float() if scores.dtype in _HALVES else scores

    def _shifted(self, scores: Tensor) -> tuple[Tensor, Any]:
        """Subtracts the maximum of each row if θ/γ might overflow; returns the scores and what was subtracted."""
        in_range = scores.dtype is torch.float64 or (not isinstance(self.gamma, Tensor) and self.gamma >= _SAFE)
        if in_range or not self.inner.sums_to_one or scores.numel() == 0:
            return scores, 0.0
        event = tuple(range(-self.event_ndim, 0))
        out = scores == -torch.inf
        top = scores.detach().amax(event, keepdim=True)
        top = torch.where(top.isfinite(), top, 0)
        least = torch.finfo(scores.dtype).min * self.gamma  # what is divided by γ stays finite
        below = torch.maximum(scores - top, torch.as_tensor(least, dtype=scores.dtype, device=scores.device).detach())
        return torch.where(out, scores, below), top.flatten(-self.event_ndim).squeeze(-1)

    # −inf is kept out of both products: its derivative with respect to gamma would be NaN.

    def _divided(self, scores: Tensor) -> Tensor:
        if not isinstance(self.gamma, Tensor):
            return scores / self.gamma
        out = scores == -torch.inf
        gamma = torch.where((self.gamma > 0) & (self.gamma < torch.inf), self.gamma, torch.nan).to(scores.dtype)
        return torch.where(out, scores, torch.where(out, 0, scores) / gamma)

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
