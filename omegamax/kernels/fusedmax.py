"""Fusedmax: attention whose weights are equal on contiguous segments."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import extent, kernel, launch, new_solution
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.tv1d import denoise


@kernel
def fusedmax(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sparse weights that prefer to be equal to their neighbours'.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_i |p_{i+1} - p_i|

    It is the projection onto the simplex of the row denoised by total variation (Niculae & Blondel, 2017). Entries of
    -inf are removed: their neighbours become adjacent. Returns the weights, the value of the maximum (one per row), and
    `joined`, shaped as rows: joined[i] says that i is supported and in the segment of the supported entry before it.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf), rows.bool()
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    top = wide.amax(-1, keepdim=True)
    valid = top.isfinite() & (strength >= 0) & strength.isfinite()
    kept = (wide > -torch.inf) & valid
    # Kept entries first, in their order; edges between kept entries only.
    order = (~kept).to(torch.uint8).argsort(dim=-1, stable=True)
    ranked = kept.gather(-1, order)
    shifted = torch.where(ranked, (wide - top).gather(-1, order), 0)
    edges = torch.where(ranked[..., 1:], strength, 0)
    denoised, joined = denoise(shifted, edges)
    weights, value = sparsemax.reference(torch.where(ranked, denoised, -torch.inf))
    joined = joined & (weights > 0)
    place = order.argsort(-1)
    # x - y is a subgradient at p of the penalty, which is homogeneous, so <x - y, p> is the penalty and the
    # value for the denoised row is already the value sought.
    value = top.squeeze(-1) + value
    bad = ~valid & (top != -torch.inf) | ~((strength >= 0) & strength.isfinite())
    weights = torch.where(bad, torch.nan, weights.gather(-1, place))
    value = torch.where(bad.squeeze(-1), torch.nan, value)
    weights = weights.to(rows.dtype)
    joined = (joined.gather(-1, place) & (weights > 0)) | (rows == -torch.inf)
    return weights, value.to(rows.dtype), joined


@fusedmax.twin
def _(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows = rows.contiguous()
    weights, value = new_solution(rows)
    joined = torch.empty_like(rows, dtype=torch.bool)
    if rows.shape[-1] == 0:
        return weights, value.fill_(-torch.inf), joined
    launch("fusedmax", rows, rows, *native_parameter(strength, rows), weights, value, joined)
    return weights, value, joined


@fusedmax.alone
def _(rows: Tensor, strength: float) -> Tensor:
    rows = rows.contiguous()
    weights = torch.empty_like(rows)
    routing.native.fusedmax(rows.itemsize, rows.data_ptr(), 0, strength, weights.data_ptr(), 0, 0, *extent(rows))
    return weights


@kernel
def fusedmax_product(weights: Tensor, joined: Tensor, direction: Tensor) -> Tensor:
    """Jacobian of fusedmax times a direction: its mean over each segment minus its mean over the support.

    Zero off the support (Niculae & Blondel, 2017, Proposition 2 and the Jacobian of the projection).
    """
    support = weights != 0  # NaN rows stay NaN
    inside = torch.where(support, direction, 0)
    label = (support & ~joined).cumsum(-1).sub(1).clamp(min=0).expand_as(direction)
    zeros = torch.zeros_like(inside)
    total = zeros.scatter_add(-1, label, inside)
    size = zeros.scatter_add(-1, label, support.to(direction.dtype).expand_as(direction))
    mean = (total / size.clamp(min=1)).gather(-1, label)
    centre = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(support, mean - centre, 0) + 0 * weights


@fusedmax_product.twin
def _(weights: Tensor, joined: Tensor, direction: Tensor) -> Tensor:
    weights, joined, direction = weights.contiguous(), joined.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("fusedmax_product", direction, weights, joined, direction, product)
    return product
