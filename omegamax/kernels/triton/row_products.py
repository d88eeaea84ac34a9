"""Products with the Jacobians of sparsemax, entmax and fusedmax, for rows of any length."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.triton.rows import TRITON_TYPE, compute_type, order_of, tile

SEGMENT_COLUMNS = 1024  # of a block of one row, at most


@triton.jit
def jacobian_factor(p, alpha: tl.constexpr, ORDER: tl.constexpr):
    """Computes s = p^(2 − α) on the support and 0 elsewhere: J = diag(s) − s s' / Σ s."""
    inside = p != 0
    if ORDER == 4:
        return inside.to(p.dtype)
    elif ORDER == 3:
        return tl.where(inside, tl.sqrt(tl.where(inside, p, 1.0)), 0.0)
    else:
        return tl.where(inside, tl.exp2((2.0 - alpha) * tl.log2(tl.where(inside, p, 1.0))), 0.0)


@triton.jit
def load_tile(numbers, row, column, n_rows, n_columns, compute: tl.constexpr):
    """Loads a tile; what lies outside is 0."""
    there = (row < n_rows)[:, None] & (column < n_columns)[None, :]
    at = row.to(tl.int64)[:, None] * n_columns + column[None, :]
    return tl.load(numbers + at, mask=there, other=0).to(compute)


@triton.jit
def store_tile(numbers, tile, row, column, n_rows, n_columns):
    """Stores what lies inside."""
    there = (row < n_rows)[:, None] & (column < n_columns)[None, :]
    at = row.to(tl.int64)[:, None] * n_columns + column[None, :]
    tl.store(numbers + at, tile.to(numbers.dtype.element_ty), mask=there)


@triton.jit
def multiply_rows(
    weights, direction, product, n_rows, n_columns,
    alpha: tl.constexpr, ORDER: tl.constexpr, compute: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Multiplies ROWS rows of directions by the Jacobian of entmax. A row of NaN weights becomes NaN."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    size = tl.zeros((ROWS,), compute)
    along = tl.zeros((ROWS,), compute)
    for start in range(0, n_columns, COLUMNS):
        p = load_tile(weights, row, start + column, n_rows, n_columns, compute)
        v = load_tile(direction, row, start + column, n_rows, n_columns, compute)
        s = jacobian_factor(p, alpha, ORDER)
        size += tl.sum(s, 1)
        along += tl.sum(tl.where(p != 0, s * v, 0.0), 1)
    mean = along / tl.where(size == 0, 1.0, size)
    for start in range(0, n_columns, COLUMNS):
        p = load_tile(weights, row, start + column, n_rows, n_columns, compute)
        v = load_tile(direction, row, start + column, n_rows, n_columns, compute)
        moved = tl.where(p != 0, jacobian_factor(p, alpha, ORDER) * (v - mean[:, None]), 0.0)
        moved = tl.where(p != p, p, moved)
        store_tile(product, moved, row, start + column, n_rows, n_columns)


@triton.jit
def add_within_segments(begun, total, size, begins, total_here, size_here):
    """Joins two stretches of a row: sum and number of entries since the last beginning of a segment."""
    total = tl.where(begins != 0, total_here, total + total_here)
    return begun | begins, total, tl.where(begins != 0, size_here, size + size_here)


@triton.jit
def copy_from_ends(found, total, size, ends, total_here, size_here):
    """Joins two stretches of a row, read from its end: the numbers at the nearest end of a segment."""
    return found | ends, tl.where(ends != 0, total_here, total), tl.where(ends != 0, size_here, size)


@triton.jit
def begins_segment(weights, joined, first, at, n_columns):
    """Says where a segment of the support begins; so does what lies behind the row."""
    p = tl.load(weights + first + at, mask=at < n_columns, other=1)
    join = tl.load(joined + first + at, mask=at < n_columns, other=0)
    return ((p != 0) & (join == 0)).to(tl.int32)


@triton.jit
def multiply_segments(
    weights, joined, direction, product, totals, sizes, n_columns, compute: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Multiplies one row of directions by the Jacobian of fusedmax: segment means minus the mean of the support.

    From left to right, every position gets the sum of its segment up to there; only the last position of a segment has
    the whole sum. From right to left, all others copy it, so a segment's results are equal to the bit.
    """
    first = tl.program_id(0).to(tl.int64) * n_columns
    column = tl.arange(0, COLUMNS)
    carried_total = tl.zeros((1,), compute)
    carried_size = tl.zeros((1,), compute)
    support_total = tl.zeros((1,), compute)
    support_size = tl.zeros((1,), compute)
    for start in range(0, n_columns, COLUMNS):
        at = start + column
        inside = tl.load(weights + first + at, mask=at < n_columns, other=0) != 0
        v = tl.load(direction + first + at, mask=at < n_columns, other=0).to(compute)
        v = tl.where(inside, v, 0.0)
        ones = inside.to(compute)
        begins = begins_segment(weights, joined, first, at, n_columns)
        begun, total, size = tl.associative_scan((begins, v, ones), 0, add_within_segments)
        total = tl.where(begun != 0, total, total + carried_total)
        size = tl.where(begun != 0, size, size + carried_size)
        tl.store(totals + first + at, total, mask=at < n_columns)
        tl.store(sizes + first + at, size, mask=at < n_columns)
        carried_total = tl.sum(tl.where(column == COLUMNS - 1, total, 0.0), 0) + tl.zeros((1,), compute)
        carried_size = tl.sum(tl.where(column == COLUMNS - 1, size, 0.0), 0) + tl.zeros((1,), compute)
        support_total += tl.sum(v, 0)
        support_size += tl.sum(ones, 0)
    centre = support_total / tl.maximum(support_size, 1.0)
    tl.debug_barrier()  # other threads of this program have written what is read now

    n_blocks = tl.cdiv(n_columns, COLUMNS)
    for block in range(n_blocks):
        at = (n_blocks - 1 - block) * COLUMNS + column
        p = tl.load(weights + first + at, mask=at < n_columns, other=0).to(compute)
        total = tl.load(totals + first + at, mask=at < n_columns, other=0)
        size = tl.load(sizes + first + at, mask=at < n_columns, other=0)
        ends = begins_segment(weights, joined, first, at + 1, n_columns)
        found, total, size = tl.associative_scan((ends, total, size), 0, copy_from_ends, reverse=True)
        total = tl.where(found != 0, total, carried_total)
        size = tl.where(found != 0, size, carried_size)
        carried_total = tl.sum(tl.where(column == 0, total, 0.0), 0) + tl.zeros((1,), compute)
        carried_size = tl.sum(tl.where(column == 0, size, 0.0), 0) + tl.zeros((1,), compute)
        moved = tl.where(p != 0, total / tl.maximum(size, 1.0) - centre, 0.0)
        moved = tl.where(p != p, p, moved)
        tl.store(product + first + at, moved.to(product.dtype.element_ty), mask=at < n_columns)


def entmax_product(weights: Tensor, alpha: float, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of entmax of an order above 1 and up to 2."""
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    n_columns = direction.shape[-1]
    if direction.numel() == 0:
        return product
    n_rows = direction.numel() // n_columns
    in_tile, columns = tile(n_columns)
    with torch.cuda.device_of(direction):
        multiply_rows[(triton.cdiv(n_rows, in_tile),)](
            weights, direction, product, n_rows, n_columns,
            float(alpha), order_of(float(alpha)), TRITON_TYPE[compute_type(direction)], in_tile, columns,
            enable_fp_fusion=False,
        )  # fmt: skip
    return product


def sparsemax_product(weights: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of sparsemax."""
    return entmax_product(weights, 2.0, direction)


def fusedmax_product(weights: Tensor, joined: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of fusedmax, given the segments of its support."""
    weights, joined, direction = weights.contiguous(), joined.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    n_columns = direction.shape[-1]
    if direction.numel() == 0:
        return product
    compute = compute_type(direction)
    totals = torch.empty_like(direction, dtype=compute)
    with torch.cuda.device_of(direction):
        multiply_segments[(direction.numel() // n_columns,)](
            weights, joined.view(torch.int8), direction, product, totals, torch.empty_like(totals),
            n_columns, TRITON_TYPE[compute], min(SEGMENT_COLUMNS, max(16, triton.next_power_of_2(n_columns))),
            enable_fp_fusion=False,
        )  # fmt: skip
    return product
