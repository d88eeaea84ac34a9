"""Selections of some of n entries, with bounds on how many: the base class of `Subset` and `Budget`.

    potentials (..., N): the score of taking each entry

A structure is 0/1 in the same shape. The recursion runs over positions and counts; v[t, c] is the value of taking c of
the first t entries:

    v[t, c] = max_Ω (v[t − 1, c],  v[t − 1, c − 1] + θ[t])        v[0, 0] = 0
    value   = max_Ω over lo ≤ c ≤ min(hi, n) of v[n, c]

Ties of the hard maximum go to fewer entries, then to the lowest index.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.inference.program import Program
from omegamax.inference.selections.budget_program import BudgetProgram
from omegamax.inference.selections.selection_program import SelectionProgram
from omegamax.kernels.structures.budgets import OMEGAS, Bounds
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem, Sizes


class Selection(DynamicProgram):
    """Between `bounds[0]` and `bounds[1]` of N entries."""

    event_ndim = 1
    compiled_omegas = OMEGAS

    @property
    @abc.abstractmethod
    def bounds(self) -> tuple[int, int]:
        """The least and the most entries."""

    @classmethod
    def from_indices(cls, indices: Tensor, n: int, *, dtype: Any = None) -> Tensor:
        """Makes a structure (..., n), 0/1, from places of chosen entries (..., count), from 0; −1 stands for none."""
        who = f"{cls.__name__}.from_indices"
        if not isinstance(indices, Tensor) or indices.is_floating_point() or indices.dtype is torch.bool:
            given = indices.dtype if isinstance(indices, Tensor) else type(indices).__name__
            raise TypeError(f"{who}: indices must be an integer Tensor, got {given}; use .long()")
        if indices.numel() and not (int(indices.min()) >= -1 and int(indices.max()) < n):
            raise ValueError(
                f"{who}: indices must lie between 0 and {n - 1} (or be −1 for none), got {int(indices.min())} to "
                f"{int(indices.max())}; n is the number of entries"
            )
        found = torch.zeros(*indices.shape[:-1], n + 1, dtype=torch.long, device=indices.device)
        found = found.scatter_add(-1, torch.where(indices < 0, n, indices).long(), torch.ones_like(indices).long())
        found = found[..., :n]
        if bool((found > 1).any()):
            raise ValueError(f"{who}: indices must be distinct, got one of them twice; name each entry once")
        return found.to(torch.get_default_dtype() if dtype is None else dtype)

    def indices(self, structure: Tensor) -> Tensor:
        """Lists the places of the chosen entries (..., most entries), ascending; −1 where there are fewer."""
        n = structure.shape[-1]
        places = torch.where(structure > 0.5, torch.arange(n, device=structure.device), n)
        found = places.sort(dim=-1).values[..., : self.bounds[1]]
        return torch.where(found < n, found, -1)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating(self._name, potentials)
        checks.check_event(self._name, "potentials", potentials, (None,), "(..., N)")
        return ((potentials, 1),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Nodes (t, c), row by row, of which those with c ≤ t are used; then the ends, one per possible length."""
        n = sizes[0][0]
        lo, hi = self.bounds[0], min(self.bounds[1], n)
        width = hi + 1
        t, c = (axis.ravel() for axis in np.indices((n + 1, width)))
        node = np.arange((n + 1) * width)
        skips = (t > 0) & (c <= t - 1)
        takes = (t > 0) & (c > 0) & (c <= t)
        ends = (t > 0) & (lo <= c) & (c <= t)  # ordered by count
        finish = (n + 1) * width + t - 1
        heads = np.concatenate([node[skips], node[takes], finish[ends]])
        tails = np.concatenate([node[skips] - width, node[takes] - width - 1, node[ends]])
        parts = np.concatenate([np.full(skips.sum(), -1), t[takes] - 1, np.full(ends.sum(), -1)])
        levels = np.concatenate([t, np.arange(1, n + 1) + 1])
        topology = Topology.from_edges(levels, heads, tails[:, None], leaves=[0])
        return Lattice.from_parts(topology, [parts], [n])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its length."""
        n = sizes[0][0]
        return (n + 1) * (min(self.bounds[1], n) + 1) + lengths[0] - 1

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Takes the largest entries for Hard; another Ω has compiled sweeps over counts, or the generic engine."""
        if isinstance(regularizer, Hard):
            return SelectionProgram(problem.lengths[0], *self.bounds)
        return super().program(problem, regularizer)

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        (lo, hi), n = self.bounds, problem.parts[0].shape[1]
        return None if lo > n else BudgetProgram(Bounds(problem.lengths[0].contiguous(), lo, min(hi, n)), omega)

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        return CompiledOracle(
            OracleKind.SELECTION, [problem.sizes[0][0], *self.bounds], [problem.lengths[0].contiguous()]
        )
