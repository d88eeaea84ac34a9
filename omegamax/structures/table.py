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

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Sizes


class TableScores(NamedTuple):
    """Potentials of a table, and weights in the same form."""

    values: Tensor  # (..., Σ_v n_v)
    table: Tensor  # (..., n₁, …, n_m)


@dataclass(frozen=True)
class Table(DynamicProgram):
    """All assignments to variables with these numbers of values: the structure of a dense factor.

    Arguments:
        sizes: how many values each variable has

    >>> Table((2, 3)).map(TableScores(torch.zeros(5), torch.eye(2, 3))).values
    tensor([1., 0., 1., 0., 0.])
    """

    sizes: tuple[int, ...]

    event_ndim = 1
    n_regularized = 1

    def __post_init__(self) -> None:
        if not self.sizes or any(not isinstance(n, int) or n < 1 for n in self.sizes):
            raise ValueError(f"Table: sizes must be positive integers, at least one, got {self.sizes}; e.g. (2, 3)")

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if not isinstance(potentials, TableScores):
            raise TypeError(f"Table: potentials must be TableScores, got {type(potentials).__name__}; see help(Table)")
        total = sum(self.sizes)
        checks.check_event("Table", "values", potentials.values, (total,), f"(..., {total})")
        layout = f"(..., {', '.join(map(str, self.sizes))})"
        checks.check_event("Table", "table", potentials.table, self.sizes, layout)
        return (potentials.values, 1), (potentials.table, len(self.sizes))

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return ()

    def with_extra(self, scores: Any, extra: Any) -> TableScores:
        return TableScores(scores, extra)

    def build(self, sizes: Sizes) -> Lattice:
        """Builds a trie: one node per beginning x₁ … x_j of an assignment; all that are complete lead to the goal."""
        heads, tails, values, cells, levels = [], [], [], [], [0]
        before, n_before = np.zeros(1, dtype=np.int64), 0  # nodes of the beginnings so far; values of variables so far
        for place, n in enumerate(self.sizes):
            last = place == len(self.sizes) - 1
            n_new = len(before) * n
            after = np.full(n_new, len(levels)) if last else len(levels) + np.arange(n_new)
            heads.append(after)
            tails.append(np.repeat(before, n))
            values.append(n_before + np.tile(np.arange(n), len(before)))
            cells.append(np.arange(n_new) if last else np.full(n_new, -1))
            levels += [place + 1] * (1 if last else n_new)
            before, n_before = after, n_before + n
        topology = Topology.from_edges(levels, np.concatenate(heads), np.concatenate(tails)[:, None], leaves=[0])
        parts = [np.concatenate(values), np.concatenate(cells)]
        return Lattice.from_parts(topology, parts, [sum(self.sizes), math.prod(self.sizes)])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        return torch.tensor([sum(math.prod(self.sizes[: place + 1]) for place in range(len(self.sizes) - 1)) + 1])
