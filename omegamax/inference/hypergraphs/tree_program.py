"""The compiled program of trees. It equals `LatticeProgram` on the lattices of the two kinds of tree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult, WidenedProgram, largest_score
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.trees import ChartSweeps

_LARGEST_VALUE = 1024.0  # float32 numbers of this size are 6e-5 apart


@dataclass(frozen=True, eq=False)
class TreeProgram(Program):
    """Sweeps over charts of spans. The state is the charts, to which the marginals add the visits of nodes."""

    sweeps: ChartSweeps
    option: int  # single_root, or the number of labels
    lengths: Tensor  # (batch,), int64, contiguous
    omega: Omega

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        scores = parts[0].contiguous()
        value, charts = self.sweeps.value(scores, self.lengths, option=self.option, omega=self.omega)
        return value.double(), (charts,)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        scores = parts[0].contiguous()
        found, visits = self.sweeps.marginals(scores, self.lengths, *state, option=self.option, omega=self.omega)
        return SweepResult((found,), (), (visits,))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        scores = parts[0].contiguous()
        along = torch.zeros_like(scores) if direction[0]._is_zerotensor() else direction[0].contiguous()
        charts, visits = state
        found = self.sweeps.tangent(scores, self.lengths, charts, visits, along, option=self.option, omega=self.omega)
        return SweepResult((found,), (), ())


def tree_program(sweeps: ChartSweeps, option: int, parts: Parts, lengths: Tensor, omega: Omega) -> Program:
    """Makes the program for these scores.

    Values of spans are as large as the scores of all their words together: float32 scores are swept in float64 where
    that is so large that rounding would show in the weights.
    """
    program = TreeProgram(sweeps, option, lengths.contiguous(), omega)
    too_large = parts[0].dtype is torch.float32 and parts[0].shape[1] * largest_score(parts) > _LARGEST_VALUE
    return WidenedProgram(program) if too_large else program
