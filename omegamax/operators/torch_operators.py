"""The registered operators that stand for a leaf inside compiled and exported graphs.

    omegamax::solve(scores, parameter, leaf, numbers) -> (weights, value, constants)
    omegamax::hessian_product(weights, constants, parameter, direction, leaf, numbers) -> product

A graph holds tensors, numbers and strings, so a leaf is stored as its class name, its plain numbers, and the one tensor
among its hyper-parameters. `constants` is the locally constant part of the certificate, empty where there is none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.operators.evaluation import along_slopes, pull_back
from omegamax.operators.solution import Pullback

LEAVES: dict[str, type] = {}  # filled by RowOperator.__init_subclass__

_LIBRARY = torch.library.Library("omegamax", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(
    "solve(Tensor scores, Tensor? parameter, str leaf, float[] numbers) -> (Tensor, Tensor, Tensor)", tags=_TAGS
)
_LIBRARY.define(
    "hessian_product(Tensor weights, Tensor constants, Tensor? parameter, Tensor direction, str leaf, float[] numbers)"
    " -> Tensor",
    tags=_TAGS,
)


def rebuild(leaf: str, numbers: list[float], parameter: Tensor | None) -> Any:
    """Makes the leaf that `RowOperator.spec` described."""
    return LEAVES[leaf].from_spec(numbers, parameter)  # type: ignore[attr-defined]


def _certificate(weights: Tensor, constants: Tensor) -> tuple[Tensor, ...]:
    return (weights, constants) if constants.numel() or not weights.numel() else (weights,)


def _solve(scores: Tensor, parameter: Tensor | None, leaf: str, numbers: list[float]) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        weights, value, certificate = rebuild(leaf, numbers, parameter).solve(scores)
    constants = certificate[1] if len(certificate) > 1 else scores.new_empty(0, dtype=torch.bool)
    return weights.contiguous(), value, constants


def _solve_fake(scores: Tensor, parameter: Tensor | None, leaf: str, numbers: list[float]) -> tuple[Tensor, ...]:
    dtype = LEAVES[leaf].constants  # type: ignore[attr-defined]
    constants = scores.new_empty(0, dtype=torch.bool) if dtype is None else scores.new_empty(scores.shape, dtype=dtype)
    return scores.new_empty(scores.shape), scores.new_empty(scores.shape[:-1]), constants


def _solve_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, parameter, ctx.leaf, ctx.numbers = inputs
    weights, _, constants = output
    ctx.mark_non_differentiable(constants)
    ctx.save_for_backward(weights, constants, parameter)


def _solve_backward(ctx: Any, grad_weights: Tensor | None, grad_value: Tensor | None, _: Any) -> tuple[Any, ...]:
    weights, constants, parameter = ctx.saved_tensors
    wanted = (parameter,) if parameter is not None and ctx.needs_input_grad[1] else ()
    smooth, certificate = rebuild(ctx.leaf, ctx.numbers, parameter), _certificate(weights, constants)
    pulled = None
    if grad_weights is not None:
        product = torch.ops.omegamax.hessian_product(weights, constants, parameter, grad_weights, ctx.leaf, ctx.numbers)
        pulled = along_slopes(smooth, certificate, product) if wanted else Pullback(product, ())
    grad_scores, *grad_parameters = pull_back(smooth, certificate, wanted, pulled, grad_value)
    return grad_scores, grad_parameters[0] if grad_parameters else None, None, None


def _product(
    weights: Tensor, constants: Tensor, parameter: Tensor | None, direction: Tensor, leaf: str, numbers: list[float]
) -> Tensor:
    smooth = rebuild(leaf, numbers, parameter)
    with torch.no_grad():
        return smooth.hessian_product(_certificate(weights, constants), direction).contiguous()


def _product_fake(weights: Tensor, constants: Tensor, parameter: Any, direction: Tensor, *_: Any) -> Tensor:
    return direction.new_empty(weights.shape)


def _product_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weights, constants, parameter, direction, ctx.leaf, ctx.numbers = inputs
    ctx.save_for_backward(weights, constants, parameter, direction)


def _product_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    weights, constants, parameter, direction = ctx.saved_tensors
    if parameter is not None and ctx.needs_input_grad[2]:
        raise RuntimeError(
            f"{ctx.leaf}: a second derivative with respect to a parameter needs the eager function, got a graph, "
            "which keeps first derivatives only; differentiate the eager function instead"
        )
    smooth = rebuild(ctx.leaf, ctx.numbers, parameter)
    with torch.enable_grad():
        weights, direction = weights.detach().requires_grad_(), direction.detach().requires_grad_()
        product = smooth.hessian_product(_certificate(weights, constants), direction)
        grad_weights, grad_direction = torch.autograd.grad(product, (weights, direction), grad, allow_unused=True)
    return grad_weights, None, None, grad_direction, None, None


_LIBRARY.impl("solve", _solve, "CompositeExplicitAutograd")
_LIBRARY.impl("hessian_product", _product, "CompositeExplicitAutograd")
torch.library.register_fake("omegamax::solve", _solve_fake, lib=_LIBRARY)
torch.library.register_fake("omegamax::hessian_product", _product_fake, lib=_LIBRARY)
torch.library.register_autograd("omegamax::solve", _solve_backward, setup_context=_solve_setup, lib=_LIBRARY)
torch.library.register_autograd(
    "omegamax::hessian_product", _product_backward, setup_context=_product_setup, lib=_LIBRARY
)
