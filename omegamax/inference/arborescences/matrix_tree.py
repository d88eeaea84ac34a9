"""Sums over all arborescences (non-projective trees) as a program, by the matrix-tree theorem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.kernels.structures.matrix_tree import arc_probabilities, arc_probabilities_tangent, log_sum_of_trees


@dataclass(frozen=True, eq=False)
class MatrixTreeProgram(Program):
    """Sums over the trees of scores of arcs (batch, N + 1, N + 1), in float64 for every type; its Ω is Shannon.

    The state is log Z again: it says which items have trees.
    """

    single_root: bool
    lengths: Tensor  # (batch,), int64, on the CPU

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        value = log_sum_of_trees(parts[0], self.lengths, single_root=self.single_root)
        return value, (value.clone(),)

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        found = arc_probabilities(parts[0], self.lengths, state[0], single_root=self.single_root)
        return SweepResult((found,), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        along = torch.zeros_like(parts[0]) if direction[0]._is_zerotensor() else direction[0]
        found = arc_probabilities_tangent(parts[0], self.lengths, state[0], along, single_root=self.single_root)
        return SweepResult((found,), (), ())
