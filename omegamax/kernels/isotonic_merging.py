"""Isotonic regression in a fixed number of steps: for rows on a device, where reading a number is to wait for it."""

from __future__ import annotations

import torch
from torch import Tensor


def pool_by_merging(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Solves finite rows (..., n) by halves, which are merged: n log n work and log n steps, whatever the numbers.

    Returns the solution and the pools, as `isotonic`. Two solved halves L and R, each non-decreasing, are pooled at
    their seam: the larger end of L and the smaller end of R become v, where

        sum over L of (l - v)_+  =  sum over R of (v - r)_+

    The left side falls and the right one rises with v, both linearly between the entries of L and R. So the number of
    entries that are pooled is found by comparing both sides at each entry, and v is the mean of what is pooled.
    """
    n = rows.shape[-1]
    size = 1 << max(n - 1, 0).bit_length()
    top = rows.amax(-1, keepdim=True)
    y = torch.cat([rows, top.expand(*rows.shape[:-1], size - n)], -1)  # the last entries are above all: never pooled
    joined = torch.zeros_like(y, dtype=torch.bool)
    half = 1
    while half < size:
        left, right = y.unflatten(-1, (-1, 2, half)).unbind(-2)
        to_pool_left, to_pool_right = _ends(left, right), _ends(-right.flip(-1), -left.flip(-1)).flip(-1)
        pooled = torch.cat([to_pool_left, to_pool_right], -1)
        both = torch.cat([left, right], -1)
        mean = torch.where(pooled, both, 0).sum(-1, keepdim=True) / pooled.sum(-1, keepdim=True).clamp(min=1)
        y = torch.where(pooled, mean, both).flatten(-2)
        linked = pooled & torch.nn.functional.pad(pooled[..., :-1], (1, 0))
        joined = joined | linked.flatten(-2)
        half *= 2
    # Rounding may leave the mean of a pool above the next one by its last bits.
    return y.cummax(-1).values[..., :n], joined[..., :n]


def _ends(left: Tensor, right: Tensor) -> Tensor:
    """Says which entries of the left halves (..., h) are above v, the level of the pool."""
    origin = right[..., :1]  # differences to it are small where sums of the entries themselves may not be
    x, z = (left - origin).contiguous(), (right - origin).contiguous()
    # What lies above l_i on the left and below it on the right. Equal entries read the same sums: all or none of them
    # are pooled, whatever rounding does.
    above, below = torch.searchsorted(x, x, right=True), torch.searchsorted(z, x)
    x_sums, z_sums = (torch.nn.functional.pad(each.cumsum(-1), (1, 0)) for each in (x, z))
    excess = x_sums[..., -1:] - x_sums.gather(-1, above) - (x.shape[-1] - above) * x
    deficit = below * x - z_sums.gather(-1, below)
    return (deficit > excess).cummax(-1).values  # where the right side is already larger at l_i, v is below l_i
