"""The compiled program of subsets and budgets under Shannon and the squared norm. It equals `LatticeProgram`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.budgets import (
    Bounds,
    budget_marginals,
    budget_marginals_tangent,
    budget_values,
    budget_values_tangent,
)
from omegamax.kernels.structures.omega import Omega
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm

_REGULARIZERS: dict[Omega, Regularizer] = {Omega.SHANNON: Shannon(), Omega.SQUARED_NORM: SquaredNorm()}


@dataclass(frozen=True, eq=False)
class BudgetProgram(Program):
    """Sweeps over scores (batch, N) are compiled; the maximum over the counts at the end is taken by the regularizer.

    The state is the probability of having taken each entry, and those of the counts at the end.
    """

    bounds: Bounds
    omega: Omega

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        taken, last = budget_values(parts[0], self.bounds, self.omega)
        goal, lo = torch.zeros_like(last), self.bounds.lo
        goal[:, lo:], value, _ = _REGULARIZERS[self.omega].solve(last[:, lo:])
        return value, (taken, goal)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult((budget_marginals(parts[0], self.bounds, *state),), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        taken, goal = state
        along = torch.where(parts[0] == -torch.inf, 0, direction[0].to(parts[0].dtype)).contiguous()
        moved, last = budget_values_tangent(along, self.bounds, self.omega, taken)
        moved_goal, lo = torch.zeros_like(goal), self.bounds.lo
        moved_goal[:, lo:] = _REGULARIZERS[self.omega].hessian_product((goal[:, lo:],), last[:, lo:])
        found = budget_marginals_tangent(along, self.bounds, taken, moved, goal, moved_goal)
        return SweepResult((found,), (), ())
