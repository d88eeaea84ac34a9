"""The best arborescence (non-projective tree) as a program."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.best_arborescence import best_arborescence


@dataclass(frozen=True, eq=False)
class BestArborescenceProgram(Program):
    """Finds the best tree for scores of arcs (batch, N + 1, N + 1); its Ω is Hard. The state is the tree, 0/1."""

    single_root: bool
    lengths: Tensor  # (batch,), int64, on the CPU

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        value, arcs = best_arborescence(parts[0], self.lengths, single_root=self.single_root)
        return value, (arcs,)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult((state[0].clone(),), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        return SweepResult((0 * state[0],), (), ())  # the best tree does not move; NaN stays NaN
