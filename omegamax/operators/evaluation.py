"""How an operator is evaluated in every context, and its derivative rules: the autograd Functions of row operators."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.operators.solution import Pullback
from omegamax.routing import Context
from omegamax.smoothmax import ValueAndWeights

if TYPE_CHECKING:
    from omegamax.operators.operator import Operator

_HALVES = (torch.float16, torch.bfloat16)
_DTYPES = (torch.float32, torch.float64)
_NATIVE, _PLAIN, _AUTOGRAD = Context.NATIVE, Context.PLAIN, Context.AUTOGRAD
_NATIVE_OR_AUTOGRAD = (_NATIVE, _AUTOGRAD)
_ONCE = (
    "SmoothMax: the gradient with respect to a parameter of Ω (alpha, strength) can be taken once, got a second "
    "differentiation; detach the parameter, or differentiate with respect to the scores only"
)


def weights(operator: Operator, scores: Tensor, who: str | None = None) -> Tensor:
    """Computes argmax_Ω of masked scores; errors name `who`. Under plain autograd the value is never computed."""
    numbers = operator.native_numbers
    if numbers is not None:  # the usual case, quickly: only the scores may need a gradient
        context = routing.context(scores)
        if context in _NATIVE_OR_AUTOGRAD and scores.dtype in _DTYPES and scores.ndim:
            if context is _NATIVE:
                return operator.solver.weights_by_numbers(scores, numbers)  # type: ignore[attr-defined]
            return _solve_weights(operator, routing.unwrap_dead(scores))
    checks.check_scores(who or type(operator).__name__, scores)
    operator.check_fit(scores)
    if scores.dtype in _HALVES:  # computed in float32, rounded once
        return weights(operator, scores.float()).to(scores.dtype)
    parameters = operator.parameters()
    context = routing.context(scores, *parameters)
    if context is _NATIVE:
        return operator.solve_weights(scores)
    if context is _AUTOGRAD:
        return _solve_weights(operator, *map(routing.unwrap_dead, (scores, *parameters)))
    return _evaluate(context, operator, scores, parameters).weights


def value_and_weights(operator: Operator, scores: Tensor) -> ValueAndWeights:
    """max_Ω and argmax_Ω of masked and checked scores, both differentiable, from one solve."""
    if scores.dtype in _HALVES:
        value, found = value_and_weights(operator, scores.float())
        return ValueAndWeights(value.to(scores.dtype), found.to(scores.dtype))
    parameters = operator.parameters()
    return _evaluate(routing.context(scores, *parameters), operator, scores, parameters)


def _evaluate(context: Context, operator: Operator, scores: Tensor, parameters: tuple[Tensor, ...]) -> ValueAndWeights:
    """Solves by the route that fits the context."""
    if context is _NATIVE or context is _PLAIN:
        return operator.solve_value_and_weights(scores)
    if context is _AUTOGRAD:
        found, value = _solve(operator, *map(routing.unwrap_dead, (scores, *parameters)))
    elif context is Context.EXPORT:
        found, value, _ = operator.solve_for_export(scores)
    elif not operator.in_graphs and routing.may_break_graph():
        return _value_and_weights_outside_graphs(operator, scores)
    elif context is Context.GRAPH or (context is Context.WATCHED and operator.in_graphs):
        found, value = _solve_in_graph(operator, scores, parameters)
    elif context is Context.TRANSFORM:
        found, value = _TransformableSolve.apply(operator, scores, *parameters)[:2]
    else:
        found, value = _Solve.apply(operator, scores, *parameters)
    return ValueAndWeights(value, found)


@routing.outside_graphs
def _value_and_weights_outside_graphs(operator: Operator, scores: Tensor) -> ValueAndWeights:
    """Does the same for an operator that a graph cannot hold: torch.compile breaks its graph here."""
    return value_and_weights(operator, scores)


def _solve_in_graph(operator: Operator, scores: Tensor, parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    who = type(operator).__name__
    if routing.transforms_active():
        raise RuntimeError(
            f"{who}: torch.func inside torch.compile would lose this operator's derivative; "
            "leave the transformed function out of the graph with torch.compiler.disable"
        )
    if not operator.in_graphs:
        raise RuntimeError(
            f"{who}: torch.compile and torch.export need an operator that a graph can hold, got {who}; "
            "leave this call out of the graph with torch.compiler.disable"
        )
    leaf, numbers = operator.spec()  # type: ignore[attr-defined]
    found, value, _ = torch.ops.omegamax.solve(scores, parameters[0] if parameters else None, leaf, numbers)
    return found, value


class _Solve(torch.autograd.Function):
    """Computes weights and value, and holds their derivative rules."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, scores: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, value, certificate = operator.solve(scores)
        _remember(ctx, operator, (weights, *certificate[1:]), parameters, forward_mode=routing.dual_level_active())
        return weights, value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        operator, certificate, parameters = _recall(ctx)
        grad_weights, grad_value, *_ = grads
        if grad_weights is None and grad_value is None:
            return (None,) * (2 + len(parameters))
        wanted = parameters if any(ctx.needs_input_grad[2:]) else ()
        pulled = None
        if grad_weights is not None and wanted:
            pulled = operator.pull_back(certificate, grad_weights)
        elif grad_weights is not None:
            pulled = Pullback(operator.hessian_product(certificate, grad_weights), ())
        unwanted = (None,) * (len(parameters) - len(wanted))
        return (None, *pull_back(operator, certificate, wanted, pulled, grad_value), *unwanted)

    @staticmethod
    def jvp(ctx: Any, _: None, scores: Tensor | None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        operator, certificate, _parameters = _recall(ctx)
        return push_forward(operator, certificate, scores, tangents)


def push_forward(
    operator: Operator, certificate: tuple[Tensor, ...], scores: Tensor | None, tangents: tuple[Tensor | None, ...]
) -> tuple[Tensor, Tensor]:
    """Computes the tangents of weights and value from those of the scores and of the parameters."""
    event = tuple(range(-operator.event_ndim, 0))
    direction: Any = scores
    along_value: Any = None if scores is None else (certificate[0] * scores).sum(event)
    if any(tangent is not None for tangent in tangents):
        for tangent, slope in zip(tangents, operator.slopes(certificate), strict=True):
            if tangent is not None:
                direction = _plus(direction, -slope.gradient * tangent)
                along_value = _plus(along_value, -(slope.omega * tangent).sum(event))
    return operator.hessian_product(certificate, direction), along_value


_solve = routing.apply_without_functorch(_Solve)


class _SolveWeights(_Solve):
    """Computes the weights only, for reverse mode only. An unused value would take memory, and time to attach."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, scores: Tensor, *parameters: Tensor) -> Tensor:  # type: ignore[override]
        certificate = operator.solve_certificate(scores)
        _remember(ctx, operator, certificate, parameters, forward_mode=False)
        return certificate[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        if len(saved) == ctx.n_certificate and grads[0] is not None:  # only the scores need a gradient: a quick way
            return None, ctx.operator.hessian_product(saved, grads[0])
        return _Solve.backward(ctx, *grads, None)


_solve_weights = routing.apply_without_functorch(_SolveWeights)


def along_slopes(operator: Operator, certificate: tuple[Tensor, ...], product: Tensor) -> Pullback:
    """Computes the inner products of J v with the slopes of every parameter."""
    event, fixed = tuple(range(-operator.event_ndim, 0)), routing.detached(product)
    slopes = operator.slopes(_detached(certificate))
    return Pullback(product, tuple((fixed * slope.gradient).sum(event, keepdim=True) for slope in slopes))


def pull_back(
    operator: Operator,
    certificate: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
    pulled: Pullback | None,
    grad_value: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Computes the gradients of scores and parameters.

    `pulled` is J times the gradient of the weights, `grad_value` is the gradient of the value.
    """
    weights = certificate[0]
    product = None if pulled is None else pulled.product
    from_weights = () if pulled is None else pulled.along_slopes
    from_value: tuple[Tensor, ...] = ()
    if grad_value is not None:
        grad_value = _over_event(operator, grad_value)
        if parameters:
            fixed = routing.detached(grad_value)
            from_value = tuple(fixed * slope.omega for slope in operator.slopes(_detached(certificate)))
    gradients = [_plus(product, None if grad_value is None else grad_value * weights)]
    for parameter, along, over in zip_longest(parameters, from_weights, from_value):
        total = -_plus(_sum_to(along, parameter), _sum_to(over, parameter))
        gradients.append(once(_ONCE, total, product, grad_value, weights, parameter))
    return tuple(gradients)


class _TransformableSolve(_Solve):
    """Has the same rules in the form that `torch.func` can transform: the rest of the certificate must be an output."""

    @staticmethod
    def forward(  # type: ignore[override]
        operator: Operator, scores: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        weights, value, certificate = operator.with_parameters(parameters).solve(scores)
        return (weights, value, *certificate[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        operator, _, *parameters = inputs
        weights, _, *constants = output
        ctx.mark_non_differentiable(*constants)
        _remember(ctx, operator, (weights, *constants), tuple(parameters), forward_mode=True)

    @staticmethod
    def jvp(ctx: Any, _: None, scores: Tensor | None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        with routing.outer_forward_mode():
            operator, certificate, _parameters = _recall(ctx, tuple(map(routing.without_tangent, ctx.saved_tensors)))
            along = push_forward(operator, certificate, scores, tangents)
        return (*along, *(None,) * (ctx.n_certificate - 1))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], operator: Operator, scores: Tensor, *parameters: Tensor) -> Any:
        rank = scores.dim() - (in_dims[1] is not None)
        scores = _batch_first(scores, in_dims[1], info.batch_size)
        moved = []
        for parameter, dim in zip(parameters, in_dims[2:]):
            if dim is not None:  # align the parameter's own axes with the scores' trailing ones
                parameter = parameter.movedim(dim, 0)
                shape = parameter.shape
                parameter = parameter.reshape(shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:])
            moved.append(parameter)
        outputs = _TransformableSolve.apply(operator, scores, *moved)
        return outputs, (0,) * len(outputs)


def _remember(
    ctx: Any,
    operator: Operator,
    certificate: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
    *,
    forward_mode: bool,
) -> None:
    ctx.operator, ctx.n_certificate = operator, len(certificate)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*certificate, *parameters)
    if forward_mode:
        ctx.save_for_forward(*certificate, *parameters)


def _recall(
    ctx: Any, saved: tuple[Tensor, ...] | None = None
) -> tuple[Operator, tuple[Tensor, ...], tuple[Tensor, ...]]:
    saved = ctx.saved_tensors if saved is None else saved
    certificate, parameters = saved[: ctx.n_certificate], saved[ctx.n_certificate :]
    return ctx.operator.with_parameters(parameters) if parameters else ctx.operator, certificate, parameters


class _Once(torch.autograd.Function):
    """Is the identity, attached to the graph of the tensors it was computed from; differentiating it raises."""

    generate_vmap_rule = True

    @staticmethod
    def forward(message: str, tensor: Tensor, *origins: Tensor | None) -> Tensor:
        return tensor.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        raise RuntimeError(ctx.message)

    jvp = backward


def once(message: str, tensor: Tensor, *origins: Tensor | None) -> Tensor:
    """Returns the tensor, which raises the message if it is differentiated with respect to its origins."""
    if routing.needs_grad(*origins) or routing.transforms_active() or any(map(routing.has_tangent, origins)):
        return _Once.apply(message, tensor.detach(), *origins)
    return tensor


def _detached(certificate: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.detach() for tensor in certificate)


def _over_event(operator: Operator, per_problem: Tensor) -> Tensor:
    return per_problem.reshape(per_problem.shape + (1,) * operator.event_ndim)


def _plus(a: Tensor | None, b: Tensor | None) -> Any:
    return b if a is None else a if b is None else a + b


def _sum_to(tensor: Tensor | None, like: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.sum_to_size(like.shape).to(like.dtype)


def _batch_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
