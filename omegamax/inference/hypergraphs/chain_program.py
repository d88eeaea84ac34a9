"""The compiled program of a chain. It equals `LatticeProgram` on the lattice of `Chain`, dense and factored."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.chains import chain_marginals, chain_tangent, chain_value
from omegamax.kernels.structures.omega import Omega


@dataclass(frozen=True, eq=False)
class ChainProgram(Program):
    """Sweeps over one dense part (batch, N, C, C), or over emissions, transitions, start and end."""

    omega: Omega
    lengths: Tensor  # (batch,), int64, contiguous
    n_parts: int
    order: Tensor | None = None  # (batch, N), int32, contiguous: positions that are kept first; None keeps all

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        return chain_value(parts, self.lengths, self.omega, self.order)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        return SweepResult(chain_marginals(parts, self.lengths, self.omega, state, self.order), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        if self.omega == Omega.HARD:  # the best chain does not move; where it is NaN, so is its derivative
            return SweepResult(tuple(0 * part for part in self.marginals(parts, state).parts), (), ())
        return SweepResult(chain_tangent(parts, self.lengths, self.omega, state, direction, self.order), (), ())
