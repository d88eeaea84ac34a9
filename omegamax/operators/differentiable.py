"""Any differentiable Ω that a user writes as a PyTorch function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.operators.interior_point import certified_gap, maximize, solve_on_face
from omegamax.operators.regularizer import Regularizer, Solution


@dataclass(frozen=True, eq=False)
class Differentiable(Regularizer):
    """Ω(p) = fn(p) for a strongly convex, twice differentiable fn of the last axis: (..., n) to (...).

    The maximum over the simplex is found by an interior-point method that stops at a certified duality gap

        max_i g_i − <g, p>,    g = θ − ∇Ω(p)

    relative to the scale of g, and warns if `max_iter` comes first. Derivatives follow Proposition 1 of Niculae &
    Blondel (NIPS 2017): on the support, H y = v − ν with Σ y = 0, by conjugate gradients on Hessian-vector products, so
    that no d × d matrix is formed.

    Arguments:
        fn: from weights (..., n) to numbers (...), written with PyTorch's functions
        rtol: the gap to stop at, relative to the scale of g; None is eps^(2/3) of the scores' type
        max_iter: how many steps are taken at most

    >>> ridge = Differentiable(lambda p: 0.5 * p.square().sum(-1))
    >>> ridge.argmax(torch.tensor([1.0, 0.9, -1.0]))
    tensor([0.5500, 0.4500, 0.0000])
    """

    fn: Callable[[Tensor], Tensor]
    rtol: float | None = None  # default: eps^(2/3) of the scores' type
    max_iter: int = 200

    symmetric: ClassVar[bool] = False
    in_graphs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(
                f"Differentiable: fn must be a function of the weights, got {type(self.fn).__name__}; "
                "write it in PyTorch, as in lambda p: 0.5 * p.square().sum(-1)"
            )
        checks.check_count("Differentiable", "max_iter", self.max_iter)
        if self.rtol is not None:
            checks.check_tolerance("Differentiable", "rtol", self.rtol)

    def omega(self, weights: Tensor) -> Tensor:
        """Ω(p) = fn(p)."""
        value = self.fn(weights)
        if not isinstance(value, Tensor) or value.shape != weights.shape[:-1]:
            came = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"Differentiable: fn must map weights {tuple(weights.shape)} to {tuple(weights.shape[:-1])}, "
                f"got {came}; sum over the last axis only, as in 0.5 * p.square().sum(-1)"
            )
        return value

    def solve(self, scores: Tensor) -> Solution:
        """Solves all rows side by side by an interior-point method."""
        rtol = torch.finfo(scores.dtype).eps ** (2 / 3) if self.rtol is None else self.rtol
        solve = _uncompiled(maximize)
        weights, value, gap, tolerance = solve(self.omega, scores.detach(), rtol=rtol, max_iter=self.max_iter)
        late = gap > tolerance
        if bool(late.any()):
            worst = (gap - tolerance).nan_to_num(-torch.inf).argmax()
            checks.warn(
                f"Differentiable: {int(late.sum())} of {late.numel()} rows stopped after {self.max_iter} iterations "
                f"with a duality gap of {gap.flatten()[worst].item():.2e} "
                f"(tolerance {tolerance.flatten()[worst].item():.2e}); "
                "raise max_iter or rtol, or check that fn is strongly convex",
            )
        return Solution(weights, value, (weights,))

    def gap(self, scores: Tensor, weights: Tensor) -> Tensor:
        """Computes the duality gap of weights: an upper bound on how far they are from max_Ω(scores)."""
        return certified_gap(self.omega, scores, weights)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Solves H y + ν = v, Σ y = 0 on the support."""
        (weights,) = certificate
        point = weights.detach()
        product = _Face.apply(self.omega, point, direction.detach())
        if not (routing.needs_grad(weights, direction) or routing.transforms_active() or routing.dual_level_active()):
            return product
        # The same number, written so that autograd sees how it depends on v and, through H, on the weights:
        # y + J (v − H(p) y), whose second term vanishes at the solution.
        residual = direction - _hessian_vector(self.omega, weights, product.detach())
        return product.detach() + _Face.apply(self.omega, point, residual)

    def solve_weights(self, scores: Tensor) -> Tensor:
        """Computes the weights only, after the check of the function, which this route would skip."""
        self.check_fit(scores)
        return super().solve_weights(scores)

    def check_fit(self, scores: Tensor) -> None:
        """Checks that the function holds no tensor that requires a gradient."""
        if torch.is_grad_enabled() and scores.shape[-1] and self.omega(torch.full_like(scores, 0.5)).requires_grad:
            raise RuntimeError(
                "Differentiable: fn must not hold tensors that learn, got one that requires a gradient, which it would "
                "not get; detach it, or write a Regularizer with a learnable field"
            )


def _uncompiled(solver: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps the solver out of torch.compile by a graph break: it differentiates twice, which compiled code cannot."""
    return torch.compiler.disable(solver) if "torch._dynamo" in sys.modules else solver


def _hessian_vector(omega: Callable[[Tensor], Tensor], weights: Tensor, vector: Tensor) -> Tensor:
    """H v, zero outside the support; finite also where the Hessian is infinite at zero weights."""
    support = weights > 0
    point = torch.where(support, weights, torch.finfo(weights.dtype).tiny)

    def total(p: Tensor) -> Tensor:
        return omega(p).sum()

    gradient: Any = torch.func.grad(total)
    pull_back: Any = torch.func.vjp(gradient, point)[1]  # H is symmetric
    return torch.where(support, pull_back(vector)[0], 0)


class _Face(torch.autograd.Function):
    """Computes v → J v, which is linear and symmetric at a fixed point of the simplex: its derivative is itself."""

    @staticmethod
    def forward(omega: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> Tensor:
        return _uncompiled(solve_on_face)(omega, point, direction)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.omega, point, _ = inputs
        ctx.save_for_backward(point)
        ctx.save_for_forward(point)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        (point,) = ctx.saved_tensors
        return None, None, _Face.apply(ctx.omega, point, grad)

    @staticmethod
    def jvp(ctx: Any, _: None, __: Any, direction: Tensor) -> Tensor:
        with routing.outer_forward_mode():
            (point,) = map(routing.without_tangent, ctx.saved_tensors)
            return _Face.apply(ctx.omega, point, direction)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], omega: Any, point: Tensor, direction: Tensor) -> Any:
        def first(tensor: Tensor, dim: int | None) -> Tensor:
            return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

        return _Face.apply(omega, first(point, in_dims[1]), first(direction, in_dims[2])), 0
