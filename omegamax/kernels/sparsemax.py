"""Euclidean projection onto the simplex, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import extent, kernel, launch, new_solution


@kernel
def sparsemax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Projects each row onto the simplex.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1)

    Returns the weights, shaped as rows, and the value of that maximum, one per row. A row of nothing but -inf gives
    zeros and -inf; a row with NaN or +inf gives NaN. Held, Wolfe & Crowder (1974); Duchi et al. (2008).
    """
    columns = rows.shape[-1]
    if columns == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    top = rows.amax(-1, keepdim=True)  # NaN if any is
    masked = top == -torch.inf
    shifted = torch.where(masked, 0, rows - top)
    shifted = torch.where(top == torch.inf, torch.nan, shifted)
    ordered = shifted.sort(dim=-1, descending=True).values
    rank = torch.arange(1, columns + 1, dtype=rows.dtype, device=rows.device)
    # Cumulative sums stop at the first -inf, so that excess stays finite on the part that matters.
    excess = torch.where(ordered > -1, ordered, 0).cumsum(-1) - 1
    size = ((rank * ordered > excess) & (ordered > -1)).sum(-1, keepdim=True).clamp(min=1)
    threshold = excess.gather(-1, size - 1) / size
    weights = torch.where(masked, 0, (shifted - threshold).clamp(min=0))
    inside = torch.where(weights > 0, shifted, 0)
    value = top.squeeze(-1) + (weights * (inside - weights / 2)).sum(-1) + 0.5
    return weights, torch.where(masked.squeeze(-1), -torch.inf, value)


@sparsemax.twin
def _(rows: Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    weights, value = new_solution(rows)
    if rows.shape[-1] == 0:
        return weights, value.fill_(-torch.inf)
    launch("sparsemax", rows, rows, weights, value)
    return weights, value


@sparsemax.alone
def _(rows: Tensor) -> Tensor:
    rows = rows.contiguous()
    weights = torch.empty_like(rows)
    routing.native.sparsemax(rows.itemsize, rows.data_ptr(), weights.data_ptr(), 0, *extent(rows))
    return weights


@kernel
def sparsemax_product(weights: Tensor, direction: Tensor) -> Tensor:
    """Jacobian of sparsemax times a direction: centres the direction on the support, zero elsewhere.

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
    addresses = weights.data_ptr(), direction.data_ptr(), product.data_ptr()
    routing.native.sparsemax_product(direction.itemsize, *addresses, *extent(direction))
    return product
