"""Alignments inside a band, stored as the band: memory proportional to it, not to the grid.

    potentials (..., M, W)   [i, w] scores cell (i, first_i + w), where first_i is the first column of row i in the band

W is the widest row of the band for an (M, N) grid; entries beyond the end of a row are not read. All items have the
full size (M, N): a band that is adapted to lengths would lie elsewhere in every item. The rest is as in `Alignment`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.alignment_program import AlignmentProgram
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.program import Program
from omegamax.kernels.structures import alignments
from omegamax.kernels.structures.alignments import Grid
from omegamax.kernels.structures.omega import Omega
from omegamax.structures.alignment import SYMMETRIC1, Step, check_band, check_steps, grid_lattice
from omegamax.structures.bands import Band, Rows
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem, Sizes


@dataclass(frozen=True)
class BandedAlignment(DynamicProgram):
    """Warping paths inside the band of an (M, `n_columns`) grid; every method as in `Alignment(steps, band)`.

    >>> aligned = BandedAlignment(SakoeChiba(1), n_columns=4)
    >>> scores = torch.arange(16.0).reshape(4, 4)
    >>> aligned.pack(scores)
    tensor([[ 0.,  1.,  0.],
            [ 4.,  5.,  6.],
            [ 9., 10., 11.],
            [14., 15.,  0.]])
    >>> aligned.max(aligned.pack(scores)) == Alignment(band=SakoeChiba(1)).max(scores)
    tensor(True)
    """

    band: Band
    n_columns: int
    steps: tuple[Step, ...] = SYMMETRIC1

    event_ndim = 2

    def __post_init__(self) -> None:
        check_band("BandedAlignment", self.band)
        object.__setattr__(self, "steps", check_steps("BandedAlignment", self.steps))
        if self.band is None:
            raise TypeError("BandedAlignment: band must be a SakoeChiba or an Itakura, got None; use Alignment")
        checks.check_count("BandedAlignment", "n_columns", self.n_columns)

    def rows(self, n_rows: int) -> Rows:
        """Returns the first and last column of each row, (M,) each.

        Arguments:
            n_rows: of the whole matrix
        """
        first, last = self.band.rows(n_rows, torch.tensor([n_rows]), torch.tensor([self.n_columns]))
        return Rows(first[0], last[0])

    def columns(self, n_rows: int) -> tuple[Tensor, Tensor]:
        """Returns the column of each stored entry, (M, W), and whether it is inside the band.

        Arguments:
            n_rows: of the whole matrix
        """
        first, last = self.rows(n_rows)
        j = first.unsqueeze(-1) + torch.arange(int((last - first).max()) + 1)
        return j.clamp(max=self.n_columns - 1), j <= last.unsqueeze(-1)

    def pack(self, matrix: Tensor) -> Tensor:
        """Takes the band (..., M, W) of a matrix (..., M, N), zero where a row is shorter; differentiable."""
        checks.check_event("BandedAlignment", "matrix", matrix, (None, self.n_columns), "(..., M, n_columns)")
        columns, inside = (each.to(matrix.device) for each in self.columns(matrix.shape[-2]))
        return torch.where(inside, matrix.gather(-1, columns.expand(*matrix.shape[:-1], -1)), 0)

    def unpack(self, packed: Tensor) -> Tensor:
        """Makes the matrix (..., M, N) whose band is `packed` (..., M, W), zero outside; differentiable."""
        columns, inside = (each.to(packed.device) for each in self.columns(packed.shape[-2]))
        out = packed.new_zeros(*packed.shape[:-1], self.n_columns)
        return out.scatter_add(-1, columns.expand(packed.shape), torch.where(inside, packed, 0))

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating("BandedAlignment", potentials)
        checks.check_event("BandedAlignment", "potentials", potentials, (None, None), "(..., M, W)")
        width = self.columns(potentials.shape[-2])[0].shape[-1]
        checks.check_event("BandedAlignment", "potentials", potentials, (None, width), f"(..., M, {width})")
        return ((potentials, 2),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return ()

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start, then the cells of the band, row by row."""
        m, width = sizes[0]
        columns, inside = self.columns(m)
        i, w = inside.numpy().nonzero()
        j = columns.numpy()[i, w]
        number = np.full((m, self.n_columns), -1)
        number[i, j] = i * width + w
        return grid_lattice(self.steps, i, j, number, m * width)

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """Every item ends in the last cell, which is in every band."""
        return self.columns(sizes[0][0])[1].sum().reshape(1)

    @property
    def compiled_omegas(self) -> frozenset[Omega]:  # type: ignore[override]
        """Unit steps are compiled."""
        return alignments.OMEGAS if self.steps == SYMMETRIC1 else frozenset()

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        n_rows = problem.sizes[0][0]
        lengths = torch.tensor([[n_rows, self.n_columns]]).expand(problem.n_items, -1).contiguous()
        first, last = (column.int().unsqueeze(0).contiguous() for column in self.rows(n_rows))
        return AlignmentProgram(Grid(omega, lengths, self.n_columns, first, last, packed=True))
