"""What solvers and derivative rules of operators return."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Solution(NamedTuple):
    """What a solver returns: the maximiser, the maximum, and what the derivative needs."""

    weights: Tensor  # (..., *event)
    value: Tensor  # (...)
    certificate: tuple[Tensor, ...]  # weights first; after it only what is locally constant in the scores


class Slope(NamedTuple):
    """How Ω and its gradient move with one parameter, at fixed weights."""

    omega: Tensor  # ∂_φ Ω(p), shape (..., 1 for each event axis)
    gradient: Tensor  # ∂_φ ∇Ω(p), shape (..., *event), up to a constant that J cancels


class Pullback(NamedTuple):
    """What reverse mode takes from the weights."""

    product: Tensor  # J v, shape (..., *event), differentiable
    along_slopes: tuple[Tensor, ...]  # <J v, ∂_φ ∇Ω(p)> for each parameter, shape (..., 1 for each event axis)
