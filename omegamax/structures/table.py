"""Joint assignments to a few variables, scored value by value and all together.

    max over x of  Σ_v θ_v[x_v] + table[x₁, …, x_m]

    values (..., Σ_v n_v): the scores of the first variable's values, then the second's, and so on
    table  (..., n₁, …, n_m)

A structure is 0/1 in the same shapes. The recursion is one maximum over all assignments, so that DP_Ω is marginal_Ω.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.structure import Structure


class TableScores(NamedTuple):
    """Potentials of a table, and weights in the same form."""

    values: Tensor  # (..., Σ_v n_v)
    table: Tensor  # (..., n₁, …, n_m)


@dataclass(frozen=True)
class Table(Structure):
    """All assignments to variables with these numbers of values: the structure of a dense factor.

    >>> Table((2, 3)).map(TableScores(torch.zeros(5), torch.eye(2, 3))).values
    tensor([1., 0., 1., 0., 0.])
    """

    sizes: tuple[int, ...]

    event_ndim = 1

    def __post_init__(self) -> None:
        if not self.sizes or any(not isinstance(n, int) or n < 1 for n in self.sizes):
            raise ValueError(f"Table: sizes must be positive integers, at least one, got {self.sizes}; e.g. (2, 3)")

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        """Values and table."""
        if not isinstance(potentials, TableScores):
            raise TypeError(f"Table: potentials must be TableScores, got {type(potentials).__name__}; see help(Table)")
        total = sum(self.sizes)
        checks.check_event("Table", "values", potentials.values, (total,), f"(..., {total})")
        layout = f"(..., {', '.join(map(str, self.sizes))})"
        checks.check_event("Table", "table", potentials.table, self.sizes, layout)
        return (potentials.values, 1), (potentials.table, len(self.sizes))

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        """No axis has a length."""
        return ()

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """One row of all assignments."""
        return TableProgram(self.sizes, regularizer)


@dataclass(frozen=True, eq=False)
class TableProgram(Program):
    """One smoothed maximum; the state is its certificate."""

    sizes: tuple[int, ...]
    regularizer: Regularizer

    n_parts = 2

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Of the row of all assignments."""
        weights, value, certificate = self.regularizer.solve(self._rows(parts))
        constants = certificate[1:] if self.regularizer.constants is not None else ()
        return value, (weights, *constants)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """Sums of the weights of assignments."""
        slopes: tuple[Tensor, ...] = ()
        if self.regularizer.parameters():
            slopes = tuple(-slope.omega.squeeze(-1) for slope in self.regularizer.slopes(state))
        return Swept(self._parts(state[0]), slopes, ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """The Hessian product of the row."""
        moved = self.regularizer.hessian_product(state, self._rows(direction))
        slopes: tuple[Tensor, ...] = ()
        if self.regularizer.parameters():
            slopes = tuple(-(slope.gradient * moved).sum(-1) for slope in self.regularizer.slopes(state))
        return Swept(self._parts(moved), slopes, ())

    def parameters(self) -> tuple[Tensor, ...]:
        """Those of the regularizer."""
        return self.regularizer.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> TableProgram:
        """With a regularizer that holds these tensors."""
        return TableProgram(self.sizes, self.regularizer.with_parameters(parameters)) if parameters else self

    def _rows(self, parts: Parts) -> Tensor:
        values, total = parts
        for axis, scores in enumerate(values.split(self.sizes, 1)):
            shape = [1] * len(self.sizes)
            shape[axis] = -1
            total = total + scores.reshape(-1, *shape)
        return total.reshape(-1, math.prod(self.sizes))

    def _parts(self, weights: Tensor) -> Parts:
        table = weights.reshape(-1, *self.sizes)
        axes = range(1, table.dim())
        values = [table.sum([a for a in axes if a != axis]) if len(axes) > 1 else table for axis in axes]
        return torch.cat(values, 1), table
