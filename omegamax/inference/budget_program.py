"""The compiled sweeps of subsets and budgets, linear in n · hi, for Shannon and the squared norm.

Each node (position, count) of the hypergraph chooses between two edges, so one number per node, the probability of
having taken the entry, is all that a sweep leaves; see csrc/budget.hpp. Equal to `LatticeProgram` to rounding. What
happens at the end, where the counts from lo to hi compete, is left to the regularizer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm

_OMEGAS: dict[type, int] = {Shannon: 1, SquaredNorm: 2}  # as csrc/budget.hpp numbers them
_TOGETHER = 8  # kTogether


@dataclass(frozen=True, eq=False)
class BudgetProgram(Program):
    """Scores (batch, N); `budget_program` makes it where it applies."""

    lengths: Tensor  # (batch,), contiguous
    lo: int
    hi: int  # at most N
    regularizer: Regularizer
    generic: Callable[[], Program]  # the same program on the hypergraph, for tensors that have no memory

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """One sweep over the positions. The state: what was taken, and the probabilities of the counts at the end."""
        if not routing.in_native_memory(*parts):
            return self.generic().value(parts)
        scores = parts[0].contiguous()
        batch, n = scores.shape
        taken = scores.new_empty(batch, n, (self.hi // _TOGETHER + 1) * _TOGETHER, dtype=torch.float64)
        last = scores.new_empty(batch, self.hi + 1, dtype=torch.float64)
        self._launch("up", scores, scores, self.lengths, taken, last, omega=True)
        goal = torch.zeros_like(last)
        goal[:, self.lo :], value, _ = self.regularizer.solve(last[:, self.lo :])
        return value, (taken, goal)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """One sweep back."""
        if not routing.in_native_memory(*parts, *state):
            generic = self.generic()
            return generic.marginals(parts, generic.value(parts)[1])
        found = torch.empty_like(parts[0], memory_format=torch.contiguous_format)
        self._launch("down", found, self.lengths, *state, found)
        return Swept((found,), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """One sweep forth, one back."""
        if not routing.in_native_memory(*parts, *state, *direction):
            generic = self.generic()
            _, below = generic.value(parts)
            return generic.tangent(parts, (*below, *generic.marginals(parts, below).state), direction)
        taken, goal = state
        along = torch.where(parts[0] == -torch.inf, 0, direction[0].to(parts[0].dtype)).contiguous()
        moved, last = torch.empty_like(taken), torch.empty_like(goal)
        self._launch("move_up", along, self.lengths, taken, along, moved, last, omega=True)
        moved_goal = torch.zeros_like(goal)
        moved_goal[:, self.lo :] = self.regularizer.hessian_product((goal[:, self.lo :],), last[:, self.lo :])
        found = torch.empty_like(along)
        self._launch("move_down", found, self.lengths, taken, moved, goal, moved_goal, found)
        return Swept((found,), (), ())

    def _launch(self, sweep: str, scores: Tensor, *tensors: Tensor, omega: bool = False) -> None:
        batch, n = scores.shape
        getattr(routing.native, f"budget_{sweep}")(
            scores.element_size(),
            *(routing.address(tensor) for tensor in tensors),
            n,
            self.lo,
            self.hi,
            *((_OMEGAS[type(self.regularizer)],) if omega else ()),
            batch,
            n * (self.hi + _TOGETHER),  # the cost of an item
            torch.get_num_threads(),
        )


def budget_program(
    parts: Parts, lengths: Tensor, lo: int, hi: int, regularizer: Regularizer, generic: Callable[[], Program]
) -> BudgetProgram | None:
    """The native program, or None where there is none for this Ω, these bounds or tensors like these."""
    n = parts[0].shape[1]
    if type(regularizer) not in _OMEGAS or lo > n or not routing.in_native_memory(*parts):
        return None
    return BudgetProgram(lengths.contiguous(), lo, min(hi, n), regularizer, generic)
