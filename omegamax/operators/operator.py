"""Smoothed maxima of one tensor: a class writes Ω, a solver and a Hessian product, and everything else follows.

    ∂ max_Ω / ∂θ = p          ∂ max_Ω / ∂φ = −∂_φ Ω(p)
    ∂ p / ∂θ     = J          ∂ p / ∂φ     = −J ∂_φ ∇Ω(p)           for a parameter φ of Ω (α, strength)

J is symmetric, so one product serves forward mode, reverse mode and both second derivatives.
"""

from __future__ import annotations

import abc
import copy
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from omegamax import checks
from omegamax.operators import evaluation
from omegamax.operators.solution import Pullback, Slope, Solution
from omegamax.smoothmax import SmoothMax, ValueAndWeights

O = TypeVar("O", bound="Operator")  # noqa: E741


class Operator(SmoothMax):
    """A smoothed maximum of one tensor. Leaves write `omega`, `solve` and `hessian_product`, and no autograd.

    A leaf is a frozen dataclass. At most one of its fields, named by `learnable`, may be a tensor that learns; a leaf
    with such a field writes `slopes` too.

    Common arguments: `certificate` (what `solve` kept for the derivative); `direction` (v of J v, shaped as the
    scores); `removed` (boolean, entries that are out of their row); `parameters` (the tensors that learn); `field` and
    `value` (what a leaf holds).
    """

    in_graphs: ClassVar[bool] = False  # `torch_operators` can rebuild it, so it can be a node of a graph
    learnable: ClassVar[str | None] = None  # the field that may be a tensor
    native_numbers: Any = None  # the arguments of its native solver beside the scores, if all of them are numbers

    @abc.abstractmethod
    def solve(self, scores: Tensor) -> Solution:
        """Returns the maximiser, the maximum and the certificate, without a gradient; −inf gets no weight."""

    @abc.abstractmethod
    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """J v, a differentiable function of the certificate's weights and of the direction."""

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Returns one `Slope` per entry of `parameters()`."""
        return ()

    # What an operator may override where it has something cheaper.

    def pull_back(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Pullback:
        """Computes J v and its inner products with the slopes."""
        return evaluation.along_slopes(self, certificate, self.hessian_product(certificate, direction))

    def solve_weights(self, scores: Tensor) -> Tensor:
        """Computes the weights of `solve`, for calls that are not differentiated."""
        return self.solve(scores).weights

    def solve_value_and_weights(self, scores: Tensor) -> ValueAndWeights:
        """Computes the value and the weights of `solve`, for calls that are not differentiated."""
        weights, value, _ = self.solve(scores)
        return ValueAndWeights(value, weights)

    def solve_certificate(self, scores: Tensor) -> tuple[Tensor, ...]:
        """Computes the certificate of `solve`, for calls that do not need the value."""
        return self.solve(scores).certificate

    def solve_for_export(self, scores: Tensor) -> Solution:
        """Solves in operations that ONNX and `torch.jit.trace` can record."""
        who = type(self).__name__
        raise RuntimeError(
            f"{who}: ONNX export and torch.jit.trace need a solver without loops that depend on the data, got one with "
            "them; export softmax, sparsemax, entmax or oscarmax instead"
        )

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """Computes Ω(p) on the row without the removed positions, whose weight is zero: a mask removes them so."""
        return self.omega(weights)

    def check_fit(self, scores: Tensor) -> None:
        """Raises an error where the parameters do not fit the shape of the scores."""
        for parameter in self.parameters():
            checks.check_row_parameter(type(self).__name__, self.learnable or "", parameter, scores)

    def hold(self, field: str, value: Any) -> None:
        """Sets a field of a leaf that is being made: a frozen dataclass refuses later changes."""
        object.__setattr__(self, field, value)

    # The rest is the same for every operator; no leaf overrides it.

    def parameters(self) -> tuple[Tensor, ...]:
        """Returns the learnable field if it is a tensor: it is an input of the autograd Function."""
        if self.learnable is None:
            return ()
        value = getattr(self, self.learnable)
        return (value,) if type(value) is not float and isinstance(value, Tensor) else ()

    def with_parameters(self: O, parameters: tuple[Tensor, ...]) -> O:
        """Returns a copy that holds these tensors; they are not checked again."""
        if not parameters:
            return self
        twin = copy.copy(self)
        twin.hold(self.learnable or "", parameters[0])
        return twin

    def max(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """max_Ω of the scores, one number per problem. Its gradient is `argmax`."""
        return self.max_and_argmax(scores, mask=mask, lengths=lengths).value

    def argmax(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """argmax_Ω of the scores: weights with the shape of scores. Its Jacobian is the Hessian of `max`."""
        if mask is not None or lengths is not None:
            scores = self.masked(scores, mask, lengths)
        return evaluation.weights(self, scores)

    def max_and_argmax(
        self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> ValueAndWeights:
        """Computes max_Ω and argmax_Ω from one solve."""
        scores = self.masked(scores, mask, lengths)
        self.check_fit(scores)
        return evaluation.value_and_weights(self, scores)

    def masked(self, scores: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Checks the scores and writes −inf where the mask or the lengths leave a position out."""
        return masked(type(self).__name__, self.event_ndim, scores, mask, lengths)


def masked(who: str, event_ndim: int, scores: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
    """Checks scores, mask and lengths, and writes −inf where a position is left out."""
    checks.check_scores(who, scores)
    if mask is not None:
        checks.check_mask(who, scores, mask)
        scores = torch.where(mask, scores, -torch.inf)
    if lengths is not None:
        batch_shape = tuple(scores.shape[: scores.dim() - event_ndim])
        lengths = checks.check_lengths(who, batch_shape, lengths)
        checks.check_counts(who, "lengths", lengths, scores.shape[-1], "count the scores of each row")
        lengths = lengths.to(scores.device).reshape(lengths.shape + (1,) * (scores.dim() - lengths.dim()))
        inside = torch.arange(scores.shape[-1], device=scores.device) < lengths
        scores = torch.where(inside, scores, -torch.inf)
    return scores
