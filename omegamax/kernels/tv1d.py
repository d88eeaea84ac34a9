"""One-dimensional total variation denoising, its segments, and the mean over segments."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen


@kernel
def prox_tv1d(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """Denoises each row by total variation.

        argmin_y  1/2 ||y - x||^2 + strength * sum_i |y_{i+1} - y_i|

    Returns the solution and `joined`, both shaped as rows: joined[i] says that i lies in the same segment as i - 1, as
    the solver found it (at strength 0 nothing is joined, not even equal neighbours). Values are equal to the bit within
    a segment. A row with a non-finite entry or an invalid strength gives NaN. Linear time on any input (Johnson, 2013).
    """
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    finite = (wide.isfinite().all(-1, keepdim=True) & (strength >= 0) & strength.isfinite()).expand_as(rows[..., :1])
    edges = torch.where(finite, strength, 0).expand(*rows.shape[:-1], max(rows.shape[-1] - 1, 0))
    solution, joined = denoise(torch.where(finite, wide, 0), edges)
    return torch.where(finite, solution, torch.nan).to(rows.dtype), joined & finite


@prox_tv1d.twin
def _(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    solution, joined = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.bool)
    launch("prox_tv1d", rows, rows, *native_parameter(strength, rows), solution, joined)
    return solution, joined


def denoise(rows: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Total variation denoising with a strength of its own for each edge (..., n - 1); a strength of 0 cuts the row.

    Johnson's dynamic programming, all rows at once. Let f_k(b) be the least cost of entries 0..k with y_k = b. Its
    derivative is increasing and piecewise linear: f'_{k+1}(b) = clip(f'_k(b), -strength_k, strength_k) + b - x_{k+1}.
    Where it crosses -strength_k and strength_k are low_k and high_k, and backwards y_k = clip(y_{k+1}, low_k, high_k).
    """
    n = rows.shape[-1]
    if n <= 1 or rows.numel() == 0:
        return rows.clone(), torch.zeros_like(rows, dtype=torch.bool)
    x, strength = rows.reshape(-1, n), edges.reshape(-1, n - 1)
    low, high, current = _forward(x, strength)
    joined = torch.zeros_like(x, dtype=torch.bool)
    pull = torch.zeros(len(x), n + 1, dtype=x.dtype, device=x.device)  # towards the next entry, across each edge
    for k in range(n - 2, -1, -1):
        joined[:, k + 1] = (current > low[k]) & (current < high[k])
        rising = current >= high[k]
        pull[:, k + 1] = torch.where(joined[:, k + 1], 0, torch.where(rising, strength[:, k], -strength[:, k]))
        current = current.clamp(low[k], high[k])
    # The segments are known; their values follow from the optimality condition: the mean of x over the segment,
    # moved towards each neighbouring segment.
    solution = segment_mean.reference(joined, x + pull[:, 1:] - pull[:, :-1])
    return solution.reshape(rows.shape), joined.reshape(rows.shape)


def _forward(x: Tensor, strength: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """The bands low_k, high_k for k < n - 1 and the minimiser of f_{n-1}."""
    count, n = x.shape
    every = torch.arange(count, device=x.device)
    # Knots first..last of each row: right of `at` the derivative gains slope * b + offset. A step removes knots at both
    # ends and adds one at each, so 2 n places, entered in the middle, suffice.
    at, slopes, offsets = x.new_zeros(3, count, 2 * n + 2).unbind(0)
    first = torch.full((count,), n + 1, device=x.device)
    last = first - 1

    def walk(level: Tensor, offset: Tensor, knot: Tensor, stop: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """From the outermost line towards the other end, until the line at the next knot is beyond `level`."""
        slope = torch.ones_like(offset)
        while True:
            here = knot.clamp(0, 2 * n + 1)
            line = slope * at[every, here] + offset
            go = ((stop - knot) * step >= 0) & ((line - level) * step <= 0)
            if not go.any():
                return slope, offset, knot
            slope = torch.where(go, slope + step * slopes[every, here], slope)
            offset = torch.where(go, offset + step * offsets[every, here], offset)
            knot = torch.where(go, knot + step, knot)

    low, high = [], []
    before = torch.zeros_like(x[:, 0])  # f'_k is -before left of all knots and before right of them, plus b - x_k
    for k in range(n - 1):
        bound = strength[:, k]
        left_slope, left_offset, knot = walk(-bound, -before - x[:, k], first, last, 1)
        first = knot - 1
        low.append((-bound - left_offset) / left_slope)
        slope, offset, knot = walk(bound, before - x[:, k], last, first + 1, -1)
        last = knot + 1
        high.append((bound - offset) / slope)
        at[every, first], slopes[every, first], offsets[every, first] = low[k], left_slope, left_offset + bound
        at[every, last], slopes[every, last], offsets[every, last] = high[k], -slope, bound - offset
        before = bound
    slope, offset, _ = walk(torch.zeros_like(before), -before - x[:, -1], first, last, 1)
    return low, high, -offset / slope


@kernel
def segment_mean(joined: Tensor, direction: Tensor) -> Tensor:
    """Replaces each entry by the mean over its segment; joined[i] says that i is in the segment of i - 1.

    The Jacobian of total variation denoising and of isotonic regression, times the direction.
    """
    label = (~joined).cumsum(-1) - (~joined[..., :1]).to(torch.int64)  # 0, 1, ... along the row
    label = label.expand_as(direction)
    zeros = torch.zeros_like(direction)
    total = zeros.scatter_add(-1, label, direction)
    size = zeros.scatter_add(-1, label, torch.ones_like(direction))
    return (total / size.clamp(min=1)).gather(-1, label)


@segment_mean.twin
def _(joined: Tensor, direction: Tensor) -> Tensor:
    joined, direction = joined.expand_as(direction).contiguous(), direction.contiguous()
    mean = torch.empty_like(direction)
    launch("segment_mean", direction, joined, direction, mean)
    return mean
