"""A regularizer: an Ω on one row, and the smoothed maximum over the simplex that it defines."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from omegamax import checks, graph, routing
from omegamax.smoothmax import Pulled, Slope, SmoothMax, Solution, Weighed, evaluate, evaluate_weights

R = TypeVar("R", bound="Regularizer")


class Regularizer(SmoothMax):
    """A SmoothMax on the last axis, as a frozen dataclass of numbers and at most one learnable tensor."""

    event_ndim = 1
    on_simplex = True
    in_graphs = True
    symmetric: ClassVar[bool] = True  # Ω does not depend on the order of the row
    learnable: ClassVar[str | None] = None  # the field that may be a tensor
    weights_suffice: ClassVar[bool] = False  # the certificate is the weights and nothing else
    constants: ClassVar[torch.dtype | None] = None  # the type of the certificate's second entry, shaped as the row

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        graph.LEAVES[cls.__name__] = cls

    def parameters(self) -> tuple[Tensor, ...]:
        """The learnable field, where it is a tensor."""
        if self.learnable is None:
            return ()
        value = getattr(self, self.learnable)
        return (value,) if type(value) is not float and isinstance(value, Tensor) else ()

    def with_parameters(self: R, parameters: tuple[Tensor, ...]) -> R:
        """A copy that holds these tensors; checks were made when the original was built."""
        if not parameters:
            return self
        twin = copy.copy(self)
        object.__setattr__(twin, self.learnable or "", parameters[0])
        return twin

    def spec(self) -> tuple[str, list[float]]:
        """Class name, and the fields that are plain numbers in their order."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return type(self).__name__, [float(value) for value in values if not isinstance(value, Tensor)]

    @classmethod
    def from_spec(cls: type[R], numbers: list[float], parameter: Tensor | None) -> R:
        """The inverse of `spec`."""
        rest = iter(numbers)
        leaf = object.__new__(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            value = parameter if parameter is not None and field.name == cls.learnable else next(rest)
            object.__setattr__(leaf, field.name, value)
        return leaf

    def certify(self, scores: Tensor) -> tuple[Tensor, ...]:
        """The weights alone, where they suffice."""
        if self.weights_suffice and routing.holds_rows(scores):
            return (self.bare_weights(scores),)
        return super().certify(scores)

    def _checked_parameters(self, scores: Tensor) -> tuple[Tensor, ...]:
        """`parameters()`, after checking that the leaf fits the scores."""
        parameters = self.parameters()
        if parameters:
            checks.check_row_parameter(type(self).__name__, self.learnable or "", parameters[0], scores)
        return parameters

    def _evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return evaluate(self, scores, self._checked_parameters(scores))

    def _evaluate_weights(self, scores: Tensor) -> Tensor:
        return evaluate_weights(self, scores, self._checked_parameters(scores))


def total(weights: Tensor) -> Tensor:
    """Row sums that keep the axis: the shape of `Slope.omega`."""
    return weights.sum(-1, keepdim=True)


__all__ = ["Pulled", "Regularizer", "Slope", "Solution", "Weighed", "total"]
