"""The derivative rules that all programs share.

    value      ∂ DP_Ω / ∂θ = marginals           one sweep more
    marginals  ∂ E / ∂θ    = ∇² DP_Ω, symmetric   two sweeps more, whatever the size of θ

So the value differentiates twice and the marginals once; a further derivative raises.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State
from omegamax.operators.evaluation import once

_ONCE = (
    "structure: the marginals of a structure differentiate once (and its value twice), got one differentiation more; "
    "take the gradient with create_graph=False"
)


def value_of(program: Program, parts: Parts) -> Tensor:
    """Computes DP_Ω such that autograd, forward mode and transforms can differentiate it."""
    tensors = (*parts, *program.parameters())
    if not _recorded(tensors):
        return program.value(parts)[0]
    return _Value.apply(program, *tensors)[0]


def marginals_of(program: Program, parts: Parts) -> Parts:
    """Computes ∇ DP_Ω such that autograd, forward mode and transforms can differentiate it once."""
    tensors = (*parts, *program.parameters())
    if not _recorded(tensors):
        return program.marginals(parts, program.value_before_marginals(parts)[1]).parts
    return _Marginals.apply(program, 0, *tensors)[: program.n_parts]


def _recorded(tensors: tuple[Tensor, ...]) -> bool:
    return routing.needs_grad(*tensors) or routing.dual_level_active() or routing.transforms_active()


class _Value(torch.autograd.Function):
    """Takes the parts and the parameters. Returns the value, then the state, which has no derivative."""

    @staticmethod
    def forward(program: Program, *tensors: Tensor) -> tuple[Tensor, ...]:
        parts, parameters = _split(program, tensors)
        value, state = program.with_parameters(parameters).value_before_marginals(parts)
        return (value, *state)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.program, *tensors = inputs
        _, *state = output
        _remember(ctx, state, tensors)
        ctx.mark_non_differentiable(*state)
        ctx.dtype = output[0].dtype

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        state, tensors = _recall(ctx)
        if grad_value is None:
            return (None,) * (1 + len(tensors))
        known, parameters = _split(ctx.program, tensors)
        if _recorded(tensors):
            found = _Marginals.apply(ctx.program, len(state), *state, *tensors)
        else:
            result = ctx.program.with_parameters(parameters).marginals(known, state)
            found = (*result.parts, *result.slopes)
        parts = tuple(_times(grad_value, marginal, state) for marginal in found[: ctx.program.n_parts])
        slopes = zip(found[ctx.program.n_parts :], parameters)
        return (None, *parts, *((grad_value * s).sum().reshape(p.shape).to(p.dtype) for s, p in slopes))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _one_by_one(_Value, info, in_dims, inputs)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        with routing.outer_forward_mode():
            state, tensors = _recall_primal(ctx)
            found = _Marginals.apply(ctx.program, len(state), *state, *tensors)
            total: Any = 0
            for tangent, marginal in zip(tangents[: ctx.program.n_parts], found):
                if tangent is not None:
                    total = total + torch.where(marginal == 0, 0, marginal * tangent).flatten(1).sum(1)
            slopes = found[ctx.program.n_parts : ctx.program.n_parts + len(ctx.program.parameters())]
            for tangent, slope in zip(tangents[ctx.program.n_parts :], slopes):
                if tangent is not None:
                    total = total + slope * tangent.reshape(())
        return (total.to(ctx.dtype), *(None for _ in state))


class _Marginals(torch.autograd.Function):
    """Takes the state that the value left, if it is known, then the parts and the parameters.

    Outputs: the marginals, one slope per parameter, and the rest of the state, which has no derivative.
    """

    @staticmethod
    def forward(program: Program, n_state: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        known, tensors = tensors[:n_state], tensors[n_state:]
        parts, parameters = _split(program, tensors)
        program = program.with_parameters(parameters)
        state = known or program.value_before_marginals(parts)[1]
        found = program.marginals(parts, state)
        marginals = (part.clone() if _is_among(part, state) else part for part in found.parts)
        return (*marginals, *found.slopes, *(() if known else state), *found.state)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.program, n_state, *tensors = inputs
        ctx.n_known = n_state
        n_found = ctx.program.n_parts + len(ctx.program.parameters())
        _remember(ctx, (*tensors[:n_state], *output[n_found:]), tensors[n_state:])
        ctx.mark_non_differentiable(*output[n_found:])
        ctx.n_silent = len(output) - n_found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        state, tensors = _recall(ctx)
        parts, parameters = _split(ctx.program, tensors)
        nothing = (None,) * (2 + ctx.n_known)
        if any(grad is not None for grad in grads[ctx.program.n_parts :]):
            raise RuntimeError(_ONCE)
        if all(grad is None for grad in grads):
            return (*nothing, *(None for _ in tensors))
        if any(routing.is_many_gradients(grad) for grad in grads if grad is not None):
            raise RuntimeError(
                "structure: the marginals take one gradient at a time, got several at once (vectorize=True or "
                "is_grads_batched=True); use torch.func.jacrev, or leave the option out"
            )
        direction = tuple(torch.zeros_like(p) if g is None else g for p, g in zip(parts, grads))
        found, slopes = _product(ctx.program, state, tensors, direction)
        slopes = tuple(slope.sum().reshape(p.shape).to(p.dtype) for slope, p in zip(slopes, parameters))
        return (*nothing, *(once(_ONCE, tensor, *grads, *tensors) for tensor in (*found, *slopes)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _one_by_one(_Marginals, info, in_dims, inputs)

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        with routing.outer_forward_mode():
            state, tensors = _recall_primal(ctx)
            moved = _moved(ctx.program, state, tensors, tangents[ctx.n_known :])
        return (*moved, *(None for _ in ctx.program.parameters()), *(None for _ in range(ctx.n_silent)))


def _moved(program: Program, state: State, tensors: tuple[Tensor, ...], along: tuple[Tensor | None, ...]) -> Parts:
    """Returns the tangents of the marginals, which cannot be differentiated again."""
    parts, _ = _split(program, tensors)
    if any(tangent is not None for tangent in along[program.n_parts :]):
        raise RuntimeError(
            "forward-mode derivatives of a structure's marginals are taken along its potentials, got one along a "
            "parameter of Ω (alpha); use reverse mode for it"
        )
    direction = tuple(torch.zeros_like(p) if t is None else t for p, t in zip(parts, along))
    found, _ = _product(program, state, tensors, direction)
    return tuple(once(_ONCE, part, *direction, *tensors) for part in found)


class _Product(torch.autograd.Function):
    """Computes the Hessian product where a transform may pass many directions.

    Outputs: its parts, then its slopes; none has a derivative.
    """

    @staticmethod
    def forward(program: Program, n_state: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        end = len(tensors) - program.n_parts
        parts, parameters = _split(program, tensors[n_state:end])
        result = program.with_parameters(parameters).tangent(parts, tensors[:n_state], tensors[end:])
        return (*result.parts, *result.slopes)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        raise RuntimeError(_ONCE)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        raise RuntimeError(_ONCE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        return _one_by_one(_Product, info, in_dims, inputs)


def _product(
    program: Program, state: State, tensors: tuple[Tensor, ...], direction: Parts
) -> tuple[Parts, tuple[Tensor, ...]]:
    """Returns ∇² DP_Ω · direction, and the derivatives of the slopes, as constants."""
    parts, parameters = _split(program, tensors)
    with torch.no_grad():
        if routing.transforms_active():
            found = _Product.apply(program, len(state), *state, *tensors, *direction)
            return found[: program.n_parts], found[program.n_parts :]
        result = program.with_parameters(parameters).tangent(parts, state, direction)
        return result.parts, result.slopes


def _one_by_one(function: Any, info: Any, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]) -> Any:
    """Implements vmap by one call for each place of its axis; potentials with a batch axis need only one call."""
    found = []
    for place in range(info.batch_size):
        here = (each if dim is None else each.select(dim, place) for each, dim in zip(inputs, in_dims))
        found.append(function.apply(*here))
    stacked = tuple(torch.stack(each) for each in zip(*found))
    return stacked, (0,) * len(stacked)


# PyTorch reads the signature of `forward` in every call, and computing it costs more than a small sweep.
for _function in (_Value, _Marginals):
    _function.forward.__signature__ = inspect.signature(_function.forward)  # type: ignore[union-attr]


def _split(program: Program, tensors: Any) -> tuple[Parts, tuple[Tensor, ...]]:
    return tuple(tensors[: program.n_parts]), tuple(tensors[program.n_parts :])


def _remember(ctx: Any, state: Any, tensors: Any) -> None:
    ctx.n_state = len(state)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*state, *tensors)
    ctx.save_for_forward(*state, *tensors)


def _recall(ctx: Any) -> tuple[State, tuple[Tensor, ...]]:
    saved = ctx.saved_tensors
    return saved[: ctx.n_state], saved[ctx.n_state :]


def _recall_primal(ctx: Any) -> tuple[State, tuple[Tensor, ...]]:
    saved = tuple(map(routing.without_tangent, ctx.saved_tensors))
    return saved[: ctx.n_state], saved[ctx.n_state :]


def _is_among(tensor: Tensor, tensors: Any) -> bool:
    return any(tensor is other for other in tensors)


def _times(per_item: Tensor, part: Tensor, state: State) -> Tensor:
    factor = per_item.to(part.dtype).reshape(-1, *(1,) * (part.dim() - 1))
    shared = routing.transforms_active() or routing.is_many_gradients(per_item) or _is_among(part, state)
    if torch.is_grad_enabled() or shared:
        return factor * part
    return part.mul_(factor)  # no other tensor shares this memory: a large problem is not stored twice
