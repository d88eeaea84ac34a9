"""The best subset of bounded size as a program."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.selections import best_selection


@dataclass(frozen=True, eq=False)
class SelectionProgram(Program):
    """Finds the best choice for scores (batch, N); its Ω is Hard. The state is the choice, 0/1."""

    lengths: Tensor  # (batch,), on the CPU
    lo: int
    hi: int

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        value, chosen = best_selection(parts[0], self.lengths, lo=self.lo, hi=self.hi)
        return value, (chosen,)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult((state[0].clone(),), (), ())  # a copy, since the state is kept

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return SweepResult((0 * state[0],), (), ())  # the choice does not move; where it is NaN, so is its derivative
