"""Softmax, its log-partition, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import extent, kernel, solver


@solver()
def softmax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Exponentiates and normalizes each row.

        argmax_{p >= 0, sum p = 1}  <p, x> - sum p log p

    Returns the weights, shaped as rows, and the value of that maximum (the log of the sum of exponentials), one per
    row. A row of nothing but -inf gives zeros and -inf; a row with NaN or +inf gives NaN.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    top = rows.amax(-1, keepdim=True)  # NaN if any score is NaN
    masked = top == -torch.inf
    exponentials = torch.where(masked, 0, (rows - top).exp())  # a +inf row becomes NaN by arithmetic, in its sum
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / torch.where(masked, 1, total)
    return weights, (top + total.log()).squeeze(-1)


@kernel
def softmax_product(weights: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of softmax, J = diag(p) - p p'."""
    return weights * (direction - (weights * direction).sum(-1, keepdim=True))


@softmax_product.twin
def _(weights: Tensor, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    addresses = weights.data_ptr(), routing.address(direction), product.data_ptr()  # the native call checks the first
    routing.native.softmax_product(direction.itemsize, *addresses, *extent(direction))
    return product
