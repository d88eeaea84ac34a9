"""The contract: a smoothed maximum, its gradient, and the only autograd Functions of the library.

    max_Ω(θ)    = max over p in the domain of  <p, θ> − Ω(p)       a number
    argmax_Ω(θ) = the p that attains it = ∇ max_Ω(θ)               weights

A leaf solves the problem once and keeps a certificate from which every derivative follows:

    ∂ max_Ω / ∂θ = p          ∂ max_Ω / ∂φ = −∂_φ Ω(p)
    ∂ p / ∂θ     = J          ∂ p / ∂φ     = −J ∂_φ ∇Ω(p)           for a parameter φ of Ω (α, strength)

J is symmetric, so one product serves forward mode, reverse mode and both second derivatives.
"""

from __future__ import annotations

import abc
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from omegamax import checks, routing

_HALVES = (torch.float16, torch.bfloat16)
_ONCE = (
    "SmoothMax: the gradient with respect to a parameter of Ω (alpha, strength) can be taken once, got a second "
    "differentiation; detach the parameter, or differentiate with respect to the scores only"
)


class Solution(NamedTuple):
    """What a solver returns: the maximiser, the maximum, and what the derivative needs."""

    weights: Tensor  # (..., *event)
    value: Tensor  # (...)
    certificate: tuple[Tensor, ...]  # weights first; after it only what is locally constant in the scores


class Weighed(NamedTuple):
    """Weights and value, attached to whatever is differentiating."""

    weights: Tensor  # (..., *event)
    value: Tensor  # (...)


class Slope(NamedTuple):
    """How Ω and its gradient move with one parameter, at fixed weights."""

    omega: Tensor  # ∂_φ Ω(p), shape (..., 1 for each event axis)
    gradient: Tensor  # ∂_φ ∇Ω(p), shape (..., *event), up to a constant that J cancels


class Pulled(NamedTuple):
    """What reverse mode takes from the weights."""

    product: Tensor  # J v, shape (..., *event), differentiable
    along: tuple[Tensor, ...]  # <J v, ∂_φ ∇Ω(p)> for each parameter, shape (..., 1 for each event axis)


class SmoothMax(abc.ABC):
    """A smoothed maximum. Leaves write `omega`, `solve` and `hessian_product`, and no autograd."""

    event_ndim: ClassVar[int] = 1  # trailing axes that form one problem
    on_simplex: ClassVar[bool] = False  # weights sum to one: a constant added to the scores is added to the value
    zero_at_corners: ClassVar[bool] = False  # Ω vanishes at every corner of the simplex
    in_graphs: ClassVar[bool] = False  # `spec` says all of it, so it can be a node of a graph

    @abc.abstractmethod
    def omega(self, weights: Tensor) -> Tensor:
        """Ω(p), one number per problem."""

    @abc.abstractmethod
    def solve(self, scores: Tensor) -> Solution:
        """The maximiser, the maximum and the certificate; records no gradient and honours −inf."""

    @abc.abstractmethod
    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """J v, a differentiable function of the certificate's weights and of the direction."""

    def answer(self, scores: Tensor) -> Weighed:
        """`solve` where nothing will be differentiated; a leaf may write it where a certificate costs."""
        weights, value, _ = self.solve(scores)
        return Weighed(weights, value)

    def certify(self, scores: Tensor) -> tuple[Tensor, ...]:
        """The certificate of `solve` where nobody asks for the value; a leaf may write it where that is cheaper."""
        return self.solve(scores).certificate

    def bare_weights(self, scores: Tensor) -> Tensor:
        """`argmax` of bare scores (see `routing.is_bare`); a leaf may write it where the value can be left out."""
        return self.weigh(self._prepare(scores, None, None)).weights

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """Ω(p) on the row without the positions that are removed, as a mask removes them; their weight is zero."""
        return self.omega(weights)

    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors among the hyper-parameters: inputs of the Function, so that they can learn."""
        return ()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> SmoothMax:
        """The same leaf with other parameter tensors, in the order of `parameters()`."""
        return self

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """One `Slope` per entry of `parameters()`."""
        return ()

    def pull(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Pulled:
        """J v with its inner products; a leaf may write it where both come cheaper together."""
        return along_slopes(self, certificate, self.hessian_product(certificate, direction))

    def spec(self) -> tuple[str, list[float]]:
        """The leaf as a name and numbers, for compiled and exported graphs; see `omegamax.graph`."""
        who = type(self).__name__
        raise RuntimeError(
            f"{who}: torch.compile and torch.export need an operator known to omegamax.graph, got {who}; "
            "leave this call out of the graph with torch.compiler.disable"
        )

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """`solve` in operations that ONNX (and `torch.jit.trace`) can record."""
        who = type(self).__name__
        raise RuntimeError(
            f"{who}: ONNX export and torch.jit.trace need a solver without loops that depend on the data, got one with "
            "them; export softmax, sparsemax, entmax or oscarmax instead"
        )

    # Final from here on.

    def max(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """max_Ω of the scores, one number per problem. Its gradient is `argmax`."""
        return self.weigh(self._prepare(scores, mask, lengths)).value

    def argmax(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """argmax_Ω of the scores: weights with the shape of scores. Its Jacobian is the Hessian of `max`."""
        if mask is not None or lengths is not None:
            scores = self._prepare(scores, mask, lengths)
        if routing.is_bare(scores):
            return self.bare_weights(scores)
        return self.weights_of(self._prepare(scores, None, None))

    def weights_of(self, scores: Tensor) -> Tensor:
        """The weights of `weigh`; cheaper where the value need not be found."""
        if scores.dtype in _HALVES:
            return self._evaluate_weights(scores.float()).to(scores.dtype)
        return self._evaluate_weights(scores)

    def weigh(self, scores: Tensor) -> Weighed:
        """Weights and value of scores that are already checked and masked, both differentiable, from one solve."""
        if scores.dtype in _HALVES:  # computed in float32, rounded once
            weights, value = self._evaluate(scores.float())
            return Weighed(weights.to(scores.dtype), value.to(scores.dtype))
        return Weighed(*self._evaluate(scores))

    def _prepare(self, scores: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        who = type(self).__name__
        checks.check_scores(who, scores)
        if mask is not None:
            checks.check_mask(who, scores, mask)
            scores = torch.where(mask, scores, -torch.inf)
        if lengths is not None:
            scores = torch.where(self._within(scores, lengths), scores, -torch.inf)
        return scores

    def _within(self, scores: Tensor, lengths: Tensor) -> Tensor:
        batch_shape = tuple(scores.shape[: scores.dim() - self.event_ndim])
        checks.check_lengths(type(self).__name__, batch_shape, lengths)
        checks.check_counts(type(self).__name__, "lengths", lengths, scores.shape[-1], "count the scores of each row")
        lengths = lengths.to(scores.device).reshape(lengths.shape + (1,) * (scores.dim() - lengths.dim()))
        return torch.arange(scores.shape[-1], device=scores.device) < lengths

    def _evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and value of float32 or float64 scores, recorded by whatever is differentiating."""
        return evaluate(self, scores, self.parameters())

    def _evaluate_weights(self, scores: Tensor) -> Tensor:
        return self.weigh(scores).weights


def evaluate(smooth: SmoothMax, scores: Tensor, parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Solves, by the route that the context asks for (see `omegamax.routing`)."""
    if routing.is_compiling() or routing.is_tracing() or not routing.is_concrete(scores):
        return _evaluate_in_graph(smooth, scores, parameters)
    if routing.transforms_active():
        return _TransformableSolve.apply(smooth, scores, *parameters)[:2]
    if routing.dual_level_active():
        return _Solve.apply(smooth, scores, *parameters)
    if routing.watching_modes() and smooth.in_graphs:
        return _evaluate_in_graph(smooth, scores, parameters)
    if routing.needs_grad(scores, *parameters):
        return _Solve.apply(smooth, scores, *parameters)
    return smooth.answer(scores)


def evaluate_weights(smooth: SmoothMax, scores: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    """The weights of `evaluate`; plain autograd, the usual case, then never hears of the value."""
    if routing.records_plainly(scores, *parameters):
        return _solve_weights(smooth, *map(routing.alive, (scores, *parameters)))
    return evaluate(smooth, scores, parameters)[0]


def _evaluate_in_graph(smooth: SmoothMax, scores: Tensor, parameters: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    if routing.exporting_to_onnx() or routing.is_tracing():
        solution = smooth.solve_for_onnx(scores)
        return solution.weights, solution.value
    if routing.transforms_active():
        raise RuntimeError(
            f"{type(smooth).__name__}: torch.func inside torch.compile would lose this operator's derivative; "
            "leave the transformed function out of the graph with torch.compiler.disable"
        )
    leaf, numbers = smooth.spec()
    weights, value, _ = torch.ops.omegamax.solve(scores, parameters[0] if parameters else None, leaf, numbers)
    return weights, value


class _Solve(torch.autograd.Function):
    """Weights and value, with their derivative rules."""

    @staticmethod
    def forward(ctx: Any, smooth: SmoothMax, scores: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, value, certificate = smooth.solve(scores)
        _remember(ctx, smooth, (weights, *certificate[1:]), parameters, forward_mode=routing.dual_level_active())
        return weights, value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        smooth, certificate, parameters = _recall(ctx)
        grad_weights, grad_value, *_ = grads
        if grad_weights is None and grad_value is None:
            return (None,) * (2 + len(parameters))
        wanted = parameters if any(ctx.needs_input_grad[2:]) else ()
        pulled = None
        if grad_weights is not None and wanted:
            pulled = smooth.pull(certificate, grad_weights)
        elif grad_weights is not None:
            pulled = Pulled(smooth.hessian_product(certificate, grad_weights), ())
        unwanted = (None,) * (len(parameters) - len(wanted))
        return (None, *pull_back(smooth, certificate, wanted, pulled, grad_value), *unwanted)

    @staticmethod
    def jvp(ctx: Any, _: None, scores: Tensor | None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        smooth, certificate, _parameters = _recall(ctx)
        return push_forward(smooth, certificate, scores, tangents)


def push_forward(
    smooth: SmoothMax, certificate: tuple[Tensor, ...], scores: Tensor | None, tangents: tuple[Tensor | None, ...]
) -> tuple[Tensor, Tensor]:
    """Tangents of weights and value, given those of the scores and of the parameters."""
    event = tuple(range(-smooth.event_ndim, 0))
    direction: Any = scores
    along_value: Any = None if scores is None else (certificate[0] * scores).sum(event)
    if any(tangent is not None for tangent in tangents):
        for tangent, slope in zip(tangents, smooth.slopes(certificate), strict=True):
            if tangent is not None:
                direction = _plus(direction, -slope.gradient * tangent)
                along_value = _plus(along_value, -(slope.omega * tangent).sum(event))
    return smooth.hessian_product(certificate, direction), along_value


class _SolveWeights(_Solve):
    """The weights alone, for reverse mode alone. A value that nobody wants takes memory, and time to attach."""

    @staticmethod
    def forward(ctx: Any, smooth: SmoothMax, scores: Tensor, *parameters: Tensor) -> Tensor:  # type: ignore[override]
        certificate = smooth.certify(scores)
        _remember(ctx, smooth, certificate, parameters, forward_mode=False)
        return certificate[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        if len(saved) == ctx.n_certificate and grads[0] is not None:  # nothing learns but the scores: quickly
            return None, ctx.smooth.hessian_product(saved, grads[0])
        return _Solve.backward(ctx, *grads, None)


_solve_weights = routing.plain_apply(_SolveWeights)


def along_slopes(smooth: SmoothMax, certificate: tuple[Tensor, ...], product: Tensor) -> Pulled:
    """The inner products of J v with the slopes of every parameter."""
    event, fixed = tuple(range(-smooth.event_ndim, 0)), routing.detached(product)
    slopes = smooth.slopes(_detached(certificate))
    return Pulled(product, tuple((fixed * slope.gradient).sum(event, keepdim=True) for slope in slopes))


def pull_back(
    smooth: SmoothMax,
    certificate: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
    pulled: Pulled | None,
    grad_value: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of scores and parameters, given what the gradient of the weights pulls, and that of the value."""
    weights = certificate[0]
    product = None if pulled is None else pulled.product
    from_weights = () if pulled is None else pulled.along
    from_value: tuple[Tensor, ...] = ()
    if grad_value is not None:
        grad_value = _over_event(smooth, grad_value)
        if parameters:
            fixed = routing.detached(grad_value)
            from_value = tuple(fixed * slope.omega for slope in smooth.slopes(_detached(certificate)))
    gradients = [_plus(product, None if grad_value is None else grad_value * weights)]
    for parameter, along, over in zip_longest(parameters, from_weights, from_value):
        total = -_plus(_sum_to(along, parameter), _sum_to(over, parameter))
        gradients.append(once(_ONCE, total, product, grad_value, weights, parameter))
    return tuple(gradients)


class _TransformableSolve(_Solve):
    """The same rules in the form that `torch.func` can transform; the rest of the certificate has to be an output."""

    @staticmethod
    def forward(  # type: ignore[override]
        smooth: SmoothMax, scores: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        weights, value, certificate = smooth.with_parameters(parameters).solve(scores)
        return (weights, value, *certificate[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        smooth, _, *parameters = inputs
        weights, _, *constants = output
        ctx.mark_non_differentiable(*constants)
        _remember(ctx, smooth, (weights, *constants), tuple(parameters), forward_mode=True)

    @staticmethod
    def jvp(ctx: Any, _: None, scores: Tensor | None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        with routing.outer_forward_mode():
            smooth, certificate, _parameters = _recall(ctx, tuple(map(routing.without_tangent, ctx.saved_tensors)))
            along = push_forward(smooth, certificate, scores, tangents)
        return (*along, *(None,) * (ctx.n_certificate - 1))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], smooth: SmoothMax, scores: Tensor, *parameters: Tensor) -> Any:
        rank = scores.dim() - (in_dims[1] is not None)
        scores = _batch_first(scores, in_dims[1], info.batch_size)
        moved = []
        for parameter, dim in zip(parameters, in_dims[2:]):
            if dim is not None:  # align the parameter's own axes with the scores' trailing ones
                parameter = parameter.movedim(dim, 0)
                shape = parameter.shape
                parameter = parameter.reshape(shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:])
            moved.append(parameter)
        outputs = _TransformableSolve.apply(smooth, scores, *moved)
        return outputs, (0,) * len(outputs)


def _remember(
    ctx: Any,
    smooth: SmoothMax,
    certificate: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
    *,
    forward_mode: bool,
) -> None:
    ctx.smooth, ctx.n_certificate = smooth, len(certificate)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*certificate, *parameters)
    if forward_mode:
        ctx.save_for_forward(*certificate, *parameters)


def _recall(
    ctx: Any, saved: tuple[Tensor, ...] | None = None
) -> tuple[SmoothMax, tuple[Tensor, ...], tuple[Tensor, ...]]:
    saved = ctx.saved_tensors if saved is None else saved
    certificate, parameters = saved[: ctx.n_certificate], saved[ctx.n_certificate :]
    return ctx.smooth.with_parameters(parameters) if parameters else ctx.smooth, certificate, parameters


class _Once(torch.autograd.Function):
    """The identity, attached to the graph of what it was computed from; differentiating it raises."""

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
    """The tensor, which raises the message where it is differentiated with respect to its origins."""
    if routing.needs_grad(*origins) or routing.transforms_active() or any(map(routing.has_tangent, origins)):
        return _Once.apply(message, tensor.detach(), *origins)
    return tensor


def _detached(certificate: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.detach() for tensor in certificate)


def _over_event(smooth: SmoothMax, per_problem: Tensor) -> Tensor:
    return per_problem.reshape(per_problem.shape + (1,) * smooth.event_ndim)


def _plus(a: Tensor | None, b: Tensor | None) -> Any:
    return b if a is None else a if b is None else a + b


def _sum_to(tensor: Tensor | None, like: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.sum_to_size(like.shape).to(like.dtype)


def _batch_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
