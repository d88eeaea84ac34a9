"""The contract: the methods of any smoothed maximum that losses, attention and plots use.

    max_Ω(θ)    = max over p in the domain of  <p, θ> − Ω(p)       a number
    argmax_Ω(θ) = the p that attains it = ∇ max_Ω(θ)               weights

Row operators implement it in `omegamax.operators`, structures in `omegamax.structures`.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

from torch import Tensor


class ValueAndWeights(NamedTuple):
    """max_Ω and argmax_Ω of the same scores, from one solve."""

    value: Tensor  # (...)
    weights: Any  # as the scores: (..., *event)


class SmoothMax(abc.ABC):
    """A smoothed maximum: over the simplex, a polytope of structures, or another convex set.

    Common arguments: `scores` θ and `weights` p (..., *event); `mask` (boolean, broadcasts to the scores, True means
    "may receive weight"); `lengths` (integers (...): entries beyond them are out).
    """

    event_ndim: ClassVar[int] = 1  # trailing axes that form one problem
    sums_to_one: ClassVar[bool] = False  # the weights of a problem sum to one, so max(θ + c) = max(θ) + c
    rows_sum_to_one: ClassVar[bool] = False  # the weights along the last axis sum to one, whatever the event
    zero_at_corners: ClassVar[bool] = False  # Ω vanishes at every corner of the simplex
    always_positive: ClassVar[bool] = False  # weights of finite scores are positive: a zero among them was rounded

    @abc.abstractmethod
    def omega(self, weights: Any) -> Tensor:
        """Ω(p), one number per problem."""

    @abc.abstractmethod
    def max(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> Tensor:
        """max_Ω of the scores, one number per problem. Its gradient is `argmax`."""

    @abc.abstractmethod
    def argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> Any:
        """argmax_Ω of the scores: weights with the shape of scores. Its Jacobian is the Hessian of `max`."""

    @abc.abstractmethod
    def max_and_argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None) -> ValueAndWeights:
        """Computes max_Ω and argmax_Ω from one solve."""
