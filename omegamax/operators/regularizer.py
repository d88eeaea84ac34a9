"""A regularizer: an Ω on one row, and the smoothed maximum over the simplex that it defines."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.kernels.kernel import Solver
from omegamax.operator_table import OperatorFacts
from omegamax.operators import torch_operators
from omegamax.operators.operator import Operator
from omegamax.operators.solution import Pullback, Slope, Solution
from omegamax.smoothmax import ValueAndWeights

R = TypeVar("R", bound="RowOperator")
K = TypeVar("K", bound="KernelRegularizer")


class RowOperator(Operator):
    """An operator on the last axis: a frozen dataclass of numbers and at most one learnable tensor, its `parameter`.

    A compiled graph holds such a leaf as the name of its class and its `numbers`.
    """

    event_ndim = 1
    in_graphs = True
    constants: ClassVar[torch.dtype | None] = None  # the type of the certificate's second entry, shaped as the row

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        torch_operators.LEAVES[cls.__name__] = cls

    def spec(self) -> tuple[str, list[float]]:
        """Returns the name of the class, and the fields that are plain numbers in their order; None becomes NaN."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        numbers = [math.nan if value is None else value for value in values if not isinstance(value, Tensor)]
        return type(self).__name__, [float(number) for number in numbers]

    @classmethod
    def from_spec(cls: type[R], numbers: list[float], parameter: Tensor | None) -> R:
        """Makes the leaf that `spec` described."""
        rest = (None if math.isnan(number) else number for number in numbers)
        leaf = object.__new__(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            value = parameter if parameter is not None and field.name == cls.learnable else next(rest)
            leaf.hold(field.name, value)
        return leaf


class Regularizer(RowOperator):
    """A smoothed maximum over the simplex. A leaf writes `omega`, `solve` and `hessian_product`."""

    rows_sum_to_one = True
    sums_to_one = True
    symmetric: ClassVar[bool] = True  # Ω does not depend on the order of the row
    zero_stays_zero: ClassVar[bool] = False  # adding lower scores to a row gives no weight to an entry that had none


class KernelRegularizer(Regularizer):
    """A regularizer of the table of operators. A leaf names its row, the kernel that solves it, and its field.

    The traits, the default of the field and its check are those of the row.
    """

    facts: ClassVar[OperatorFacts]
    solver: ClassVar[Solver[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        facts = cls.facts
        cls.constants = cls.solver.constants
        cls.symmetric, cls.zero_stays_zero = facts.symmetric, facts.zero_stays_zero
        cls.zero_at_corners = facts.zero_at_corners
        if facts.parameter is None:
            cls.native_numbers = ()
        elif facts.parameter.may_be_tensor:
            cls.learnable = facts.parameter.name

    def __post_init__(self) -> None:
        if self.facts.parameter is not None:
            self._check_and_hold(type(self).__name__, getattr(self, self.facts.parameter.name))

    @classmethod
    def for_caller(cls: type[K], who: str, value: float | Tensor | None = None) -> K:
        """Makes the leaf with this parameter (None if it has none), checked once; errors name `who`, the caller."""
        leaf = object.__new__(cls)
        if cls.facts.parameter is not None:
            leaf._check_and_hold(who, value)
        return leaf

    def _check_and_hold(self, who: str, value: float | Tensor | None) -> None:
        assert self.facts.parameter is not None
        checks.check_parameter(who, self.facts.parameter, value)
        self.hold(self.facts.parameter.name, checks.plain(value))

    @property
    def always_positive(self) -> bool:  # type: ignore[override]
        """Whether the weights of finite scores are positive: a zero among them was rounded."""
        return not self.facts.sparse

    def hold(self, field: str, value: Any) -> None:
        """Sets the one field, and notes what the native solver takes unless that is a tensor or part of a graph."""
        object.__setattr__(self, field, value)
        is_number = not isinstance(value, Tensor) and not routing.is_compiling()
        object.__setattr__(self, "native_numbers", self.solver.native_numbers((value,)) if is_number else None)

    def arguments(self, scores: Tensor) -> tuple[Any, ...]:
        """Returns the arguments of the solver beside the scores: the field of the leaf."""
        return () if self.facts.parameter is None else (getattr(self, self.facts.parameter.name),)

    def solve(self, scores: Tensor) -> Solution:
        """Returns the maximiser, the maximum and the certificate."""
        weights, value, *constants = self.solver(scores, *self.arguments(scores))
        return Solution(weights, value, (weights, *constants))

    def solve_weights(self, scores: Tensor) -> Tensor:
        """Computes the weights only, by the native kernel."""
        return self.solver.weights(scores, *self.arguments(scores))

    def solve_value_and_weights(self, scores: Tensor) -> ValueAndWeights:
        """Computes the value and the weights, without constants."""
        weights, value = self.solver.weights_and_value(scores, *self.arguments(scores))
        return ValueAndWeights(value, weights)

    def solve_certificate(self, scores: Tensor) -> tuple[Tensor, ...]:
        """Computes the weights only, if they are the whole certificate."""
        if self.constants is None:
            if self.native_numbers is not None and routing.context(scores) is routing.Context.NATIVE:
                return (self.solver.weights_by_numbers(scores, self.native_numbers),)
            arguments = self.arguments(scores)
            if routing.context(scores, *arguments) is routing.Context.NATIVE:
                return (self.solver.weights(scores, *arguments),)
        return self.solve(scores).certificate

    def solve_for_export(self, scores: Tensor) -> Solution:
        """Runs the reference of the solver, if it has no loop that depends on the data."""
        if not self.facts.exports:
            return super().solve_for_export(scores)
        weights, value, *constants = self.solver.reference(scores, *self.arguments(scores))
        return Solution(weights, value, (weights, *constants))


def total(weights: Tensor) -> Tensor:
    """Sums rows and keeps the axis, as `Slope.omega` needs it."""
    return weights.sum(-1, keepdim=True)


__all__ = ["KernelRegularizer", "Pullback", "Regularizer", "RowOperator", "Slope", "Solution", "total"]
