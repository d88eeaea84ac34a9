"""Euclidean projection onto the simplex, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.candidates import at_their_places, candidates, row_sum, unrolled, value_above
from omegamax.kernels.gpu import Twin
from omegamax.kernels.kernel import extent, kernel, solver


@solver()
def sparsemax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Projects each row onto the simplex.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1)

    Returns the weights, shaped as rows, and the value of that maximum, one per row. A row of nothing but -inf gives
    zeros and -inf; a row with NaN or +inf gives NaN. Held, Wolfe & Crowder (1974); Duchi et al. (2008).
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    found = candidates(rows, 1.0)
    gap = found.gap
    c = _threshold_by_sorting(gap) if unrolled(gap) else _threshold(gap)
    weights = (c - gap).clamp(min=0)
    inside = torch.where(weights > 0, gap, 0)
    above = 0.5 - row_sum(weights * (inside + weights / 2))
    return at_their_places(weights, found, rows), value_above(above, found, rows)


def _threshold(gap: Tensor) -> Tensor:
    """Finds the c with sum (c - gap)_+ = 1, by Newton's method from above: the sum is convex and increasing in c.

    Each step solves for the set of scores below c, which only shrinks: when it stays the same, c is exact.
    """
    inside = gap < 1
    while True:
        size = inside.sum(-1, keepdim=True).clamp(min=1)
        c = (1 + row_sum(torch.where(inside, gap, 0))) / size
        following = inside & (gap < c)
        if bool((following == inside).all()):
            return c
        inside = following


def _threshold_by_sorting(gap: Tensor) -> Tensor:
    """Finds the same c without a loop that depends on the data."""
    ordered = gap.sort(dim=-1).values
    rank = torch.arange(1, gap.shape[-1] + 1, dtype=gap.dtype, device=gap.device)
    near = ordered < 1
    total = 1 + torch.where(near, ordered, 0).cumsum(-1)
    size = (near & (rank * ordered < total)).sum(-1, keepdim=True).clamp(min=1)
    return total.gather(-1, size - 1) / size


@kernel
def sparsemax_product(weights: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of sparsemax: centres it on the support, zero elsewhere.

    J = diag(s) - s s' / (1's) with s the indicator of the support (Martins & Astudillo, 2016).
    """
    support = (weights != 0).to(direction.dtype)  # NaN rows stay NaN
    size = support.sum(-1, keepdim=True).clamp(min=1)
    mean = (support * direction).sum(-1, keepdim=True) / size
    return support * (direction - mean) + 0 * weights


@sparsemax_product.twin
def _(weights: Tensor, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    addresses = weights.data_ptr(), routing.address(direction), product.data_ptr()  # the native call checks the first
    routing.native.sparsemax_product(direction.itemsize, *addresses, *extent(direction))
    return product


sparsemax.on_gpu = Twin("rows", "sparsemax")
sparsemax_product.on_gpu = Twin("row_products", "sparsemax_product")
