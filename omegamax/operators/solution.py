"""The results of solvers and of derivative rules."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Solution(NamedTuple):
    """The result of a solver: the maximiser, the maximum, and what the derivative needs."""

    weights: Tensor  # (..., *event)
    value: Tensor  # (...)
    certificate: tuple[Tensor, ...]  # weights first; after it only what is locally constant in the scores


class Slope(NamedTuple):
    """The derivatives of Ω and of its gradient with respect to one parameter, at fixed weights."""

    omega: Tensor  # ∂_φ Ω(p), shape (..., 1 for each event axis)
    gradient: Tensor  # ∂_φ ∇Ω(p), shape (..., *event), up to a constant that J cancels


class Pullback(NamedTuple):
    """The products with J that reverse mode needs."""

    product: Tensor  # J v, shape (..., *event), differentiable
    along_slopes: tuple[Tensor, ...]  # <J v, ∂_φ ∇Ω(p)> for each parameter, shape (..., 1 for each event axis)
