"""Isotonic regression by pooling adjacent violators."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.candidates import recorded
from omegamax.kernels.isotonic_merging import pool_by_merging
from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.precision import widen
from omegamax.kernels.tv1d import segment_mean


@kernel
def isotonic(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the nearest non-decreasing row in least squares.

        argmin_{y_1 <= ... <= y_n}  ||y - x||^2

    Returns the solution and `joined`, both shaped as rows: joined[i] says that i was pooled with i - 1 (equal
    neighbours do not violate the order and are not pooled). The Jacobian is `segment_mean(joined, .)`. A row with a
    non-finite entry gives NaN. Best & Chakravarti (1990).
    """
    wide = widen(rows)
    finite = wide.isfinite().all(-1, keepdim=True)
    solution, joined = pool(torch.where(finite, wide, 0))
    return torch.where(finite, solution, torch.nan).to(rows.dtype), joined & finite


@isotonic.twin
def _(rows: Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    solution, joined = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.bool)
    launch("isotonic", rows, rows, solution, joined)
    return solution, joined


def pool(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the solution and the pools, for finite rows; by a formula in a traced program, which cannot loop."""
    if recorded():
        return pool_by_formula(rows)
    if rows.numel() == 0:
        return rows.clone(), torch.zeros_like(rows, dtype=torch.bool)
    if not routing.on_host(rows):
        return pool_by_merging(rows)
    joined = _pools(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)
    while True:  # most often once: the means, added up in another order, may violate by a rounding error
        solution = segment_mean.reference(joined, rows)
        violates = ~joined[..., 1:] & (solution[..., :-1] > solution[..., 1:])
        if not violates.any():
            return solution, joined
        joined = joined | torch.nn.functional.pad(violates, (1, 0))


def _pools(rows: Tensor) -> Tensor:
    """Says which entries of rows (m, n) are pooled with the one before, from the sums and sizes of blocks so far."""
    total, size = rows, torch.ones_like(rows)
    block = torch.arange(rows.shape[-1], device=rows.device).expand(rows.shape)  # the block of each entry
    while True:
        # All violations at once: pooling a run of violators in any order ends in the same blocks.
        mean = torch.where(size > 0, total / size, torch.inf)  # no block is behind the last
        violates = mean[:, :-1] > mean[:, 1:]
        if not violates.any():
            return torch.nn.functional.pad(block[:, 1:] == block[:, :-1], (1, 0))
        starts = torch.nn.functional.pad(~violates, (1, 0), value=True)
        label = starts.cumsum(-1) - 1
        count = int((starts & (size > 0)).sum(-1).max())
        label = label.clamp(max=count)  # blocks behind the last of a row meet in a column that is cut off
        total = total.new_zeros(len(rows), count + 1).scatter_add(-1, label, total)[:, :count]
        size = size.new_zeros(len(rows), count + 1).scatter_add(-1, label, size)[:, :count]
        block = label.gather(-1, block)


def _doubled_steps(n: int) -> list[int]:
    """Returns 1, 2, 4, ... below n; below 65,536 where n is a symbol, since a program of any length has the same."""
    return [1 << place for place in range((n - 1).bit_length() if isinstance(n, int) else 16)]


def pool_by_formula(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Uses y_i = max_{a <= i} min_{b >= i} mean(x_a, ..., x_b): no loop over the data, but memory quadratic in n."""
    n = rows.shape[-1]
    if n == 0:
        return rows.clone(), torch.zeros_like(rows, dtype=torch.bool)
    index = torch.arange(n, device=rows.device)
    after = rows.cumsum(-1)
    before = after - rows
    size = (index[None, :] - index[:, None] + 1).clamp(min=1)
    mean = (after[..., None, :] - before[..., :, None]) / size  # (..., a, b), meaningful for a <= b
    least = torch.where(index[:, None] <= index[None, :], mean, torch.inf)
    for step in _doubled_steps(n):  # least[a, i] = min over b >= i of mean[a, b], by doubling
        least = torch.minimum(least, least[..., (index + step).clamp(max=n - 1)])  # the last one is behind every i
    solution = torch.where(index[:, None] <= index[None, :], least, -torch.inf).amax(-2)
    # Between blocks the cumulative sums of x and y meet; inside a block those of x lie above.
    gap = (before - (solution.cumsum(-1) - solution))[..., 1:]
    rounding = 8 * torch.finfo(rows.dtype).eps * rows.abs().sum(-1, keepdim=True)
    return solution, torch.nn.functional.pad(gap > rounding, (1, 0))
