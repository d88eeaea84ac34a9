"""A regularizer: an Ω on one row, and the smoothed maximum over the simplex that it defines."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import Solver
from omegamax.operators import torch_operators
from omegamax.operators.operator import Operator
from omegamax.operators.solution import Pullback, Slope, Solution
from omegamax.smoothmax import ValueAndWeights

R = TypeVar("R", bound="RowOperator")


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
        """The name of the class, and the fields that are plain numbers in their order."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self).__name__, [float(value) for value in values if not isinstance(value, Tensor)]

    @classmethod
    def from_spec(cls: type[R], numbers: list[float], parameter: Tensor | None) -> R:
        """The inverse of `spec`."""
        rest = iter(numbers)
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


class KernelRegularizer(Regularizer):
    """A regularizer whose `solve` is a kernel: the leaf names the kernel and its arguments."""

    solver: ClassVar[Solver[Any]]
    exports: ClassVar[bool] = False  # the solver's reference has no loop that depends on the data

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.constants = cls.solver.constants

    def hold(self, field: str, value: Any) -> None:
        """Sets the one field, and notes it for the solver unless it is a tensor."""
        object.__setattr__(self, field, value)
        object.__setattr__(self, "numbers", None if isinstance(value, Tensor) else (value,))

    def arguments(self, scores: Tensor) -> tuple[Any, ...]:
        """What the solver takes beside the scores: the fields of the leaf."""
        return self.numbers if self.numbers is not None else (getattr(self, self.learnable or ""),)

    def solve(self, scores: Tensor) -> Solution:
        """The maximiser, the maximum and the certificate."""
        weights, value, *constants = self.solver(scores, *self.arguments(scores))
        return Solution(weights, value, (weights, *constants))

    def solve_weights(self, scores: Tensor) -> Tensor:
        """The weights alone, natively."""
        return self.solver.weights(scores, *self.arguments(scores))

    def solve_value_and_weights(self, scores: Tensor) -> ValueAndWeights:
        """The value and the weights, without constants."""
        weights, value = self.solver.weights_and_value(scores, *self.arguments(scores))
        return ValueAndWeights(value, weights)

    def solve_certificate(self, scores: Tensor) -> tuple[Tensor, ...]:
        """The weights alone, where they are the whole certificate."""
        arguments = self.arguments(scores)
        if self.constants is None and routing.context(scores, *arguments) is routing.Context.NATIVE:
            return (self.solver.weights(scores, *arguments),)
        return self.solve(scores).certificate

    def solve_for_export(self, scores: Tensor) -> Solution:
        """The reference of the solver, where it has no loop that depends on the data."""
        if not self.exports:
            return super().solve_for_export(scores)
        weights, value, *constants = self.solver.reference(scores, *self.arguments(scores))
        return Solution(weights, value, (weights, *constants))


def total(weights: Tensor) -> Tensor:
    """Row sums that keep the axis: the shape of `Slope.omega`."""
    return weights.sum(-1, keepdim=True)


__all__ = ["KernelRegularizer", "Pullback", "Regularizer", "RowOperator", "Slope", "Solution", "total"]
