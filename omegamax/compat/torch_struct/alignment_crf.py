"""Alignments whose steps have scores of their own, in the layout of torch-struct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from omegamax import checks
from omegamax.compat.torch_struct.distribution import StructDistribution
from omegamax.compat.torch_struct.parts import Alignment
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Sizes
from omegamax.structures.structure import Structure

_STEPS = ((0, 1), (1, 1), (1, 0))  # (di, dj) of the three operations


@dataclass(frozen=True)
class StepAlignment(DynamicProgram):
    """Paths in an (N, M) grid; potentials (..., N, M, 3): [i, j, op] scores the step `op` that leads into (i, j).

    Operation 0 comes from j − 1, 1 from both, 2 from i − 1. The first cell counts as operation 1.

    Arguments:
        local: whether a path may begin and end anywhere, not only in the corners
        max_gap: the largest |i − j| on a path; None allows all
    """

    local: bool = False
    max_gap: int | None = None

    event_ndim = 3

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating("AlignmentCRF", potentials, name="log_potentials")
        checks.check_event("AlignmentCRF", "log_potentials", potentials, (None, None, 3), "(..., N, M, 3)")
        return ((potentials, 3),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start, then the cells, then, if local, an end for every number of rows."""
        n, m, _ = sizes[0]
        i, j = (axis.ravel() for axis in np.indices((n, m)))
        near = np.ones(n * m, bool) if self.max_gap is None else abs(i - j) <= self.max_gap
        begins = near if self.local else near & (i == 0) & (j == 0)
        heads, tails, parts = [1 + np.flatnonzero(begins)], [np.zeros(begins.sum(), int)], []
        parts.append(3 * np.flatnonzero(begins) + 1)
        for op, (di, dj) in enumerate(_STEPS):
            fits = near & (i >= di) & (j >= dj)
            before = (i - di) * m + j - dj
            fits[fits] &= near[before[fits]]
            heads.append(1 + np.flatnonzero(fits))
            tails.append(1 + before[fits])
            parts.append(3 * np.flatnonzero(fits) + op)
        levels = np.concatenate([[0], 1 + i + j])
        if self.local:
            ends = 1 + n * m + np.arange(n)
            heads += [ends[i[near]], ends[1:]]
            tails += [1 + np.flatnonzero(near), ends[:-1]]
            parts += [np.full(near.sum(), -1), np.full(n - 1, -1)]
            levels = np.concatenate([levels, n + m + np.arange(n)])
        topology = Topology.from_edges(levels, np.concatenate(heads), np.concatenate(tails)[:, None], leaves=[0])
        return Lattice.from_parts(topology, [np.concatenate(parts)], [3 * n * m])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        n, m, _ = sizes[0]
        return n * m + lengths[0] if self.local else lengths[0] * m


class AlignmentCRF(StructDistribution):
    """A distribution over alignments of N with M elements.

    Arguments:
        log_potentials: scores (*batch, N, M, 3), [i, j, op] of a step into (i, j): 0 from j − 1, 1 from both, 2 from
            i − 1; the first cell counts as 1
        local: whether paths may begin and end anywhere; they begin as with operation 1
        lengths: how many of the N elements each item has
        max_gap: the largest |i − j| on a path; None allows all
    """

    event_ndim = 3
    struct = Alignment

    def __init__(
        self, log_potentials: Tensor, local: bool = False, lengths: Any = None, max_gap: int | None = None
    ) -> None:
        self.local, self.max_gap = local, max_gap
        super().__init__(log_potentials, lengths)

    def structure(self) -> Structure:
        return StepAlignment(self.local, self.max_gap)
