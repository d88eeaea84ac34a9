"""Sparsemax and entmax of rows of any length: one program solves a few rows, a block of columns at a time."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.triton.threshold import advance, bits_of, first_low, powers, tile_sums

COLUMNS = 1024  # of a block, at most
ELEMENTS = 2048  # of a tile of rows and columns
STEPS = {torch.float32: 140, torch.float64: 270}  # the bound that `threshold` proves, rounded up


@triton.jit
def load_rows(rows, row, column, n_rows, n_columns, compute: tl.constexpr):
    """Loads a tile of scores; what lies outside is −inf."""
    there = (row < n_rows)[:, None] & (column < n_columns)[None, :]
    at = row.to(tl.int64)[:, None] * n_columns + column[None, :]
    return tl.load(rows + at, mask=there, other=float("-inf")).to(compute)


@triton.jit
def solve_rows(
    rows, weights, value, n_rows, n_columns,
    e: tl.constexpr, ORDER: tl.constexpr, compute: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Computes weights and value of ROWS rows. A row that holds NaN or +inf becomes NaN; one of −inf zeros and −inf."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    top = tl.full((ROWS,), float("-inf"), compute)
    bad = tl.zeros((ROWS,), tl.int32)
    for start in range(0, n_columns, COLUMNS):
        x = load_rows(rows, row, start + column, n_rows, n_columns, compute)
        wrong = (x != x) | (x == float("inf"))
        bad = tl.maximum(bad, tl.max(wrong.to(tl.int32), 1))
        top = tl.maximum(top, tl.max(tl.where(wrong, float("-inf"), x), 1))
    alive = (top > float("-inf")) & (bad == 0)
    level = tl.where(alive, top, 0.0)

    c = tl.full((ROWS,), 1.0, compute)
    high = bits_of(c)
    low = first_low(n_columns, e, c)
    is_open = alive
    step = 0
    while (tl.max(is_open.to(tl.int32), 0) > 0) & (step < STEPS):
        total = tl.zeros((ROWS,), compute)
        slope = tl.zeros((ROWS,), compute)
        inside = tl.zeros((ROWS,), compute)
        for start in range(0, n_columns, COLUMNS):
            x = load_rows(rows, row, start + column, n_rows, n_columns, compute)
            a, b, d = tile_sums(level[:, None] - x, c, e, ORDER)
            total += a
            slope += b
            inside += d
        c, low, high, is_open = advance(step, c, low, high, is_open, total, slope, inside, e, ORDER)
        step += 1

    total = tl.zeros((ROWS,), compute)
    cost = tl.zeros((ROWS,), compute)
    for start in range(0, n_columns, COLUMNS):
        gap = level[:, None] - load_rows(rows, row, start + column, n_rows, n_columns, compute)
        p = powers(gap, c, e, ORDER)
        total += tl.sum(p, 1)
        cost += tl.sum(tl.where(p > 0, p * gap, 0.0), 1)
    share = total if ORDER != 4 else tl.full((ROWS,), 1.0, compute)  # the threshold of sparsemax is exact
    share = tl.where(alive, share, 1.0)
    cost = cost / share
    if ORDER == 4:
        above = (1.0 - c) / 2 - cost / 2
    else:
        above = ((1.0 - c) / e - e * cost) / (1.0 + e)
    nothing = tl.where(bad > 0, float("nan"), 0.0).to(compute)
    for start in range(0, n_columns, COLUMNS):
        gap = level[:, None] - load_rows(rows, row, start + column, n_rows, n_columns, compute)
        p = tl.where(alive[:, None], powers(gap, c, e, ORDER) / share[:, None], nothing[:, None])
        there = (row < n_rows)[:, None] & ((start + column) < n_columns)[None, :]
        at = row.to(tl.int64)[:, None] * n_columns + (start + column)[None, :]
        tl.store(weights + at, p.to(weights.dtype.element_ty), mask=there)
    found = tl.where(bad > 0, float("nan"), tl.where(alive, level + above, float("-inf")))
    tl.store(value + row, found.to(value.dtype.element_ty), mask=row < n_rows)


def compute_type(rows: Tensor) -> torch.dtype:
    """Returns the type that kernels compute in: that of the rows, float32 for half types."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


TRITON_TYPE = {torch.float32: tl.float32, torch.float64: tl.float64}


def order_of(alpha: float) -> int:
    """Returns the ORDER of `powers`: 2α where it is 3 or 4, otherwise 0."""
    return {1.5: 3, 2.0: 4}.get(alpha, 0)


def tile(n_columns: int) -> tuple[int, int]:
    """Returns how many rows and columns a tile has."""
    columns = min(COLUMNS, max(16, triton.next_power_of_2(n_columns)))
    return max(1, min(16, ELEMENTS // columns)), columns


def entmax(rows: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Computes weights and value of `omegamax.kernels.entmax` for an order above 1 and up to 2."""
    rows = rows.contiguous()
    weights, value = torch.empty_like(rows), rows.new_empty(rows.shape[:-1])
    n_columns = rows.shape[-1]
    n_rows = value.numel()
    if n_columns == 0 or n_rows == 0:
        return weights, value.fill_(-torch.inf)
    compute = compute_type(rows)
    in_tile, columns = tile(n_columns)
    with torch.cuda.device_of(rows):
        solve_rows[(triton.cdiv(n_rows, in_tile),)](
            rows, weights, value, n_rows, n_columns, float(alpha) - 1.0, order_of(float(alpha)),
            TRITON_TYPE[compute], in_tile, columns, STEPS[compute], enable_fp_fusion=False,
        )  # fmt: skip
    return weights, value


def sparsemax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Computes weights and value of `omegamax.kernels.sparsemax`."""
    return entmax(rows, 2.0)
