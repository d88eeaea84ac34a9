"""The derivatives of the Tsallis entropy and of its gradient with respect to α, at fixed weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.per_row import native_parameter


@kernel
def entmax_slope(weights: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """Computes ∂_α Ω(p), shape (..., 1), and ∂_α ∇Ω(p) up to a constant, shaped as weights and zero off the support.

    With ε = α − 1 and L = log p:

        Ω = 1/α Σ p L g(εL)           g(y) = (e^y − 1)/y
        ∂_α Ω = 1/α Σ p L² h(εL) − Ω/α          ∂_α ∇Ω = L² h(εL)          h(y) = g'(y) = (1 + (y − 1) e^y)/y²

    Both are smooth through α = 1, where h = 1/2; the reference is differentiable in weights and α.
    """
    positive = weights > 0
    log = torch.where(positive, weights, 1).log()
    if isinstance(alpha, Tensor):
        alpha = alpha.to(weights.dtype)
    y = (alpha - 1) * log
    gradient = torch.where(positive, log.square() * _h(y), 0)
    omega = (weights * log * _g(y)).sum(-1, keepdim=True) / alpha
    return ((weights * gradient).sum(-1, keepdim=True) - omega) / alpha, gradient


def _g(y: Tensor) -> Tensor:
    """Computes g by the first terms of its series near zero, so that autograd finds the derivative there."""
    near = y.abs() < 1e-5
    small, large = torch.where(near, y, 0), torch.where(near, 1, y)
    return torch.where(near, 1 + small / 2 * (1 + small / 3), large.expm1() / large)


_SERIES = [(k + 1) / math.factorial(k + 2) for k in range(18)]


def _h(y: Tensor) -> Tensor:
    """Computes h by its series near zero, where the closed form loses ε/y² to cancellation."""
    near = y.abs() < 1
    small, large = torch.where(near, y, 0), torch.where(near, 1, y)
    series = torch.full_like(y, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series = series * small + coefficient
    return torch.where(near, series, (1 + (large - 1) * large.exp()) / large.square())


@entmax_slope.twin
def _(weights: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    weights = weights.contiguous()
    slope, gradient = weights.new_empty(*weights.shape[:-1], 1), torch.empty_like(weights)
    if weights.shape[-1] == 0:
        return slope.zero_(), gradient
    launch("entmax_slope", weights, weights, *native_parameter(alpha, weights), slope, gradient)
    return slope, gradient
