"""Dynamic time warping with unit steps as a compiled program.

It equals `LatticeProgram` on the lattice of `Alignment` or `BandedAlignment`. Scores in float32 that add up to large
values are swept in float64: weights are made of differences between values, for which a large float32 has no digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult, in_float64, largest_score, rounded
from omegamax.kernels.structures.alignments import (
    Grid,
    alignment_marginals,
    alignment_tangent,
    alignment_value,
    alignment_value_and_marginals,
)

_CACHE_BYTES = 1 << 22  # the most that the local weights of one item may take
_LARGE = 2.0**20  # float32 values of this size are a tenth apart
_FEW = 1 << 14  # up to so many cells are checked before a sweep; for more, only the value is checked after it


@dataclass(frozen=True, eq=False)
class AlignmentProgram(Program):
    """Sweeps over scores (batch, M, N), or (batch, M, W) of a band.

    The state is the value, a few rows of values and, where both sweeps ran at once, the marginals. Its type tells the
    sweeps that follow whether the value was found in float64.
    """

    grid: Grid

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        if self._may_be_large(parts):
            return self.value(in_float64(parts))
        value, rows = alignment_value(self.grid, parts[0])
        if self._is_large(parts, value):
            return self.value(in_float64(parts))
        return value, (value.clone(), rows)  # an output may not be part of the state

    def value_before_marginals(self, parts: Parts) -> tuple[Tensor, State]:
        if 3 * parts[0][0:1].numel() * parts[0].element_size() > _CACHE_BYTES or self.grid.packed:
            return self.value(parts)
        if self._may_be_large(parts):
            return self.value_before_marginals(in_float64(parts))
        value, rows, marginals = alignment_value_and_marginals(self.grid, parts[0])
        if self._is_large(parts, value):
            return self.value_before_marginals(in_float64(parts))
        return value, (value.clone(), rows, marginals)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        if len(state) == 3 and state[2].dtype == parts[0].dtype:
            return SweepResult((state[2],), (), ())
        if state[1].dtype != parts[0].dtype:
            return SweepResult(rounded(self.marginals(in_float64(parts), state).parts, parts), (), ())
        value, rows = state
        return SweepResult((alignment_marginals(self.grid, parts[0], rows, value),), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        if state[1].dtype != parts[0].dtype:
            wide = self.tangent(in_float64(parts), state, in_float64(direction))
            return SweepResult(rounded(wide.parts, parts), (), ())
        value, rows, *_ = state
        return SweepResult((alignment_tangent(self.grid, parts[0], rows, value, direction[0]),), (), ())

    def scaled(self, scale: float) -> AlignmentProgram:
        return replace(self, grid=self.grid._replace(scale=self.grid.scale * scale))

    def _may_be_large(self, parts: Parts) -> bool:
        """Says whether float32 scores may add up to values for which float32 has no digits.

        It returns False for many scores, which take long to check.
        """
        if parts[0].dtype is torch.float64 or parts[0].numel() > _FEW:
            return False
        n_cells = parts[0].shape[1] + self.grid.n_columns
        return n_cells * abs(self.grid.scale) * largest_score(parts) > _LARGE

    def _is_large(self, parts: Parts, value: Tensor) -> bool:
        """Says whether they did add up to such values."""
        if parts[0].dtype is torch.float64 or value.numel() == 0:
            return False
        return bool(((value.abs() * abs(self.grid.scale) > _LARGE) & value.isfinite()).any())
