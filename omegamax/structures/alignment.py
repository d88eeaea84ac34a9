"""Alignments of two sequences by dynamic time warping: monotone paths in a grid, scored by the cells they visit.

    potentials (..., M, N)   [i, j] scores the meeting of element i of one sequence with element j of the other

A path goes from (0, 0) to (m − 1, n − 1); a step (di, dj, weight) leads from (i − di, j − dj) to (i, j) and adds
weight · potentials[i, j]. The first cell counts once. A structure has the same shape: how much each cell counts (0/1
when all weights are 1). The recursion runs from (0, 0); its local problems are the steps into a cell, in the order of
`steps`, which also settles ties. Costs are negated scores (see `from_costs`); most users need `omegamax.soft_dtw` only.
Sakoe & Chiba 1978; Cuturi & Blondel, "Soft-DTW", ICML 2017; Mensch & Blondel, ICML 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.alignment_program import AlignmentProgram
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.inference.program import Program
from omegamax.kernels.structures import alignments
from omegamax.kernels.structures.alignments import Grid
from omegamax.kernels.structures.omega import Omega
from omegamax.structures.bands import Band
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.plain_lists import plain_lists
from omegamax.structures.problem import Problem, Sizes

Step = tuple[int, int, float]  # (di, dj, weight)

SYMMETRIC1: tuple[Step, ...] = ((1, 1, 1.0), (1, 0, 1.0), (0, 1, 1.0))


@dataclass(frozen=True)
class Alignment(DynamicProgram):
    """Warping paths in an (M, N) grid; under Shannon `max` is a log-sum over all of them, which is minus soft-DTW.

    `steps` are (di, dj, weight) with di, dj ≥ 0, not both 0; a step may be longer than 1 and skips what lies between.
    Names in the literature: symmetric1 is the default; symmetric2 is ((1, 1, 2), (1, 0, 1), (0, 1, 1)), whose
    scores can be divided by m + n; asymmetric is ((1, 1, 1), (1, 0, 1), (0, 1, 0)). Where the steps cannot reach
    (m − 1, n − 1) there is no alignment: value −inf. `band` is a `SakoeChiba` or an `Itakura`; with the three unit
    steps among `steps` a path always exists inside.

    >>> Alignment().count(torch.zeros(4, 4))
    63
    """

    steps: tuple[Step, ...] = SYMMETRIC1
    band: Band | None = None

    event_ndim = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check_steps("Alignment", self.steps))
        check_band("Alignment", self.band)

    @staticmethod
    def from_costs(costs: Tensor) -> Tensor:
        """Makes potentials from costs (..., M, N), lower being better: the best path is the cheapest one."""
        return -costs

    def from_path(
        self, path: Sequence[Any] | Tensor, n_rows: int, n_columns: int, *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Makes a structure (n_rows, n_columns) from the cells (i, j) of a path; a list of paths gives a batch.

        Raises for a step that is not in `steps`. A path that ends before the last cell has lengths of its own.

        >>> Alignment().from_path([(0, 0), (1, 1), (1, 2)], 2, 3)
        tensor([[1., 0., 0.],
                [0., 1., 1.]])
        """
        cells = plain_lists(path)
        if cells and not (cells[0] and isinstance(cells[0][0], int)):
            return torch.stack([self.from_path(one, n_rows, n_columns, dtype=dtype) for one in cells])
        weights = {(di, dj): weight for di, dj, weight in self.steps}
        structure = torch.zeros(n_rows, n_columns, dtype=dtype)
        before = None
        for i, j in cells:
            step = None if before is None else (i - before[0], j - before[1])
            begins = before is None and (i, j) == (0, 0)
            if not (begins or step in weights) or not (0 <= i < n_rows and 0 <= j < n_columns):
                raise ValueError(
                    f"Alignment.from_path: a path begins in (0, 0) and goes by the steps {sorted(weights)} inside "
                    f"({n_rows}, {n_columns}), got ({i}, {j}) after {before}; list every cell in order"
                )
            structure[i, j] = 1 if step is None else weights[step]
            before = (i, j)
        return structure

    @staticmethod
    def path(structure: Tensor) -> Tensor:
        """Lists the cells (length, 2) that one structure (M, N), from `map`, `topk` or `sample`, visits, in order.

        A step of weight 0 leaves no trace in a structure, and so none here.
        """
        return structure.nonzero()

    def hamming(self, target: Tensor) -> Tensor:
        """Costs one for every cell that the target does not visit; with step weights a cell counts as its step does."""
        if all(weight == 1 for *_, weight in self.steps):
            return super().hamming(target)
        return (target == 0).to(target.dtype)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating("Alignment", potentials)
        checks.check_event("Alignment", "potentials", potentials, (None, None), "(..., M, N)")
        return ((potentials, 2),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return sizes[0]

    def forbidden(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor | None:
        """Forbids the cells outside the band of each item."""
        if self.band is None:
            return None
        first, last = self.band.rows(sizes[0][0], *lengths)
        j = torch.arange(sizes[0][1])
        return (j < first.unsqueeze(-1)) | (j > last.unsqueeze(-1))

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start, then the cells; an edge leads into each cell per step."""
        m, n = sizes[0]
        i, j = (axis.ravel() for axis in np.indices((m, n)))
        return grid_lattice(self.steps, i, j, np.arange(m * n).reshape(m, n), m * n)

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        m, n = lengths
        return 1 + (m - 1) * sizes[0][1] + n - 1

    @property
    def compiled_omegas(self) -> frozenset[Omega]:  # type: ignore[override]
        """Unit steps are compiled."""
        return alignments.OMEGAS if self.steps == SYMMETRIC1 else frozenset()

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        lengths = torch.stack(problem.lengths, 1).contiguous()
        n_rows, n_columns = problem.sizes[0]
        if self.band is None:
            return AlignmentProgram(Grid(omega, lengths, n_columns))
        first, last = (column.int().contiguous() for column in self.band.rows(n_rows, *problem.lengths))
        return AlignmentProgram(Grid(omega, lengths, n_columns, first, last))


def grid_lattice(steps: tuple[Step, ...], i: np.ndarray, j: np.ndarray, number: np.ndarray, n_parts: int) -> Lattice:
    """Builds the paths over the cells (i, j), row by row.

    `number` (M, N) says which part a cell is, −1 if it is not there.
    """
    m, n = number.shape
    node = np.full((m, n), -1)
    node[i, j] = 1 + np.arange(len(i))
    heads, tails, scales = [np.array([1])], [np.array([0])], [np.ones(1)]
    for di, dj, weight in steps:
        inside = (i >= di) & (j >= dj)
        tail = node[i[inside] - di, j[inside] - dj]
        heads.append(node[i[inside], j[inside]][tail >= 0])
        tails.append(tail[tail >= 0])
        scales.append(np.full(len(tails[-1]), float(weight)))
    head, scale = np.concatenate(heads), np.concatenate(scales)
    levels = np.concatenate([[0], 1 + i + j])
    topology = Topology.from_edges(levels, head, np.concatenate(tails)[:, None], leaves=[0])
    part = number[i, j][head - 1]
    return Lattice.from_parts(topology, [part], [n_parts], scales=None if (scale == 1).all() else scale)


def check_steps(who: str, steps: Any) -> tuple[Step, ...]:
    """Checks that every step leads on and has a weight of at least 0."""
    found = []
    for step in steps:
        if len(step) != 3 or not all(isinstance(d, int) and d >= 0 for d in step[:2]) or step[0] + step[1] == 0:
            raise ValueError(
                f"{who}: a step must be (di, dj, weight) with whole di, dj >= 0, not both 0, got {step}; "
                "use for example (1, 0, 1.0)"
            )
        if not 0 <= step[2] < float("inf"):
            raise ValueError(f"{who}: the weight of a step must be finite and at least 0, got {step}; use 1.0")
        found.append((step[0], step[1], float(step[2])))
    if len({step[:2] for step in found}) != len(found) or not found:
        raise ValueError(f"{who}: steps must be distinct and at least one, got {steps}; drop the repeated ones")
    return tuple(found)


def check_band(who: str, band: Any) -> None:
    """Checks that `band` is a band or None."""
    if band is not None and not isinstance(band, Band):
        kind = band.__name__ if isinstance(band, type) else type(band).__name__
        raise TypeError(f"{who}: band must be a SakoeChiba, an Itakura or None, got {kind}; use SakoeChiba(10)")
