"""The compiled sweeps of dynamic time warping with unit steps: strips of rows, an anti-diagonal of cells at a time.

    value      stores every 32nd row (16th in float64), and nothing else of the size of the grid
    marginals  computes each strip again from the row above it: E is the one array as large as the scores
    tangent    does the same with derivatives beside the values

The scale is applied as the scores are read: f(x) = DP(scale · x) / scale, so ∇f = E(scale · x) and ∇²f · v = the
derivative of E along scale · v. The specification is the generic engine (`inference/hypergraphs/sweeps.py`) on the
hypergraph of `Alignment` or `BandedAlignment`. Hard, Shannon and SquaredNorm are compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch

OMEGAS = frozenset({Omega.HARD, Omega.SHANNON, Omega.SQUARED_NORM})
_STRIP_BYTES = 128  # of a column of a strip, as in csrc/grids/alignment_strip.hpp


class Grid(NamedTuple):
    """An alignment grid of a batch without its scores (batch, M, N), or (batch, M, W) of a band."""

    omega: Omega
    lengths: Tensor  # (batch, 2) int64, contiguous
    n_columns: int
    first: Tensor | None = None  # (batch or 1, M) int32: the first and last column of each row of a band
    last: Tensor | None = None
    packed: bool = False  # scores[i, w] is cell (i, first_i + w)
    scale: float = 1.0


def alignment_value(grid: Grid, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Computes DP_Ω (batch,) in float64, and the stored rows, which the other sweeps need."""
    scores = _readable(scores)
    value, rows = _room(scores)
    _launch("alignment_value", grid, scores, rows, value)
    return value, rows


def alignment_value_and_marginals(grid: Grid, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes value, stored rows and marginals at once, for grids whose local weights fit in a cache."""
    scores = _readable(scores)
    (value, rows), marginals = _room(scores), torch.empty(scores.shape, dtype=scores.dtype)
    _launch("alignment_both", grid, scores, rows, value, marginals)
    return value, rows, marginals


def alignment_marginals(grid: Grid, scores: Tensor, rows: Tensor, value: Tensor) -> Tensor:
    """Computes ∇f by a sweep up and one down, strip by strip from the last."""
    scores = _readable(scores)
    marginals = torch.empty(scores.shape, dtype=scores.dtype)
    _launch("alignment_marginals", grid, scores, rows, value, marginals)
    return marginals


def alignment_tangent(grid: Grid, scores: Tensor, rows: Tensor, value: Tensor, direction: Tensor) -> Tensor:
    """Computes ∇²f · direction by two sweeps up and one down."""
    scores, direction = _readable(scores), direction.contiguous()
    product = torch.empty(scores.shape, dtype=scores.dtype)
    _launch("alignment_tangent", grid, scores, rows, value, direction, product)
    return product


def _launch(entry: str, grid: Grid, scores: Tensor, rows: Tensor, *tensors: Any) -> None:
    omega, lengths, n_columns, first, last, packed, scale = grid
    n_items, n_rows, width = scores.shape
    launch(
        entry,
        scores,
        lengths,
        first,
        last,
        scores.stride(0),
        scores.stride(1),
        0 if first is None or first.shape[0] == 1 else first.shape[1],  # from one item's band to the next
        int(packed),
        scale,
        omega,
        n_rows,
        width,
        n_columns,
        rows,
        *tensors,
        itemsize=scores.element_size(),
        n_items=n_items,
        cost=n_rows * width,
    )


def _readable(scores: Tensor) -> Tensor:
    """Makes each row contiguous; items and rows may have any stride."""
    return scores if scores.stride(-1) == 1 or scores.shape[-1] == 1 else scores.contiguous()


def _room(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Allocates the values, and the last row of every strip but the last, whose cells have up to two parts."""
    n_items, n_rows, width = scores.shape
    n_stored = (n_rows - 1) // (_STRIP_BYTES // scores.element_size())
    return scores.new_empty(n_items, dtype=torch.float64), scores.new_empty(n_items, n_stored, 2, width)
