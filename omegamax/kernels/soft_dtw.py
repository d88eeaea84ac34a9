"""Soft-DTW of points under squared distances, with its gradients: nothing as large as the grid is ever stored."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.hardmax import hardmax
from omegamax.kernels.kernel import kernel
from omegamax.kernels.pairwise import pairwise_squared
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.structures.omega import Omega

_LARGE = 2.0**20  # float32 numbers of this size are a tenth apart
_LOCAL = (hardmax, softmax, sparsemax)  # by the number of Ω


@kernel
def soft_dtw_of_points(
    x: Tensor,
    y: Tensor,
    lengths: Tensor | None,
    gamma: float,
    omega: Omega,
    to_x: bool,
    to_y: bool,
    band: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Computes −γ DP_Ω(−|x_i − y_j|² / γ), (batch,), of x (batch, M, D) and y (batch, N, D), and wanted gradients.

    `lengths` (batch, 2) are integers; `omega` is Hard, Shannon or SquaredNorm. With E the expected
    alignment ∂/∂x_i = 2 Σ_j E_ij (x_i − y_j). What is beyond the lengths is not read and has gradient zero. `band` is
    the first and the last column of each row, (batch, M) int32 each. Memory grows with M + N: of a long grid a few rows
    are stored, and the sweep down computes the others again.
    """
    dtype, x, y = x.dtype, x.double(), y.double()  # values grow along a path, and weights are made of differences
    (n_items, m, _), n = x.shape, y.shape[1]
    items = torch.arange(n_items)
    ends = x.new_tensor([m, n], dtype=torch.long).expand(n_items, 2) if lengths is None else lengths
    values = x.new_full((n_items, m + 1, n + 1), -torch.inf)
    values[:, 0, 0] = 0
    weights = x.new_zeros(n_items, m, n, 3)
    scores = pairwise_squared.reference(x, y) * (-1 / gamma)
    if band is not None:
        j = torch.arange(n)
        scores = torch.where((j >= band[0].unsqueeze(2)) & (j <= band[1].unsqueeze(2)), scores, -torch.inf)
    diagonals = [torch.arange(max(0, t - n + 1), min(m, t + 1)) for t in range(m + n - 1)]
    for t, i in enumerate(diagonals):
        j = t - i
        tails = torch.stack([values[:, i, j], values[:, i, j + 1], values[:, i + 1, j]], -1)
        weights[:, i, j], top = _LOCAL[omega].reference(tails)
        values[:, i + 1, j + 1] = scores[:, i, j] + top
    value = values[items, ends[:, 0], ends[:, 1]] * -gamma + 0.0

    flow = x.new_zeros(n_items, m + 1, n + 1)
    flow[items, ends[:, 0], ends[:, 1]] = 1
    for t, i in reversed(list(enumerate(diagonals))):
        j = t - i
        here = flow[:, i + 1, j + 1].unsqueeze(-1)
        diagonal, up, left = torch.where(here == 0, 0, here * weights[:, i, j]).unbind(-1)
        flow[:, i, j] += diagonal
        flow[:, i, j + 1] += up
        flow[:, i + 1, j] += left
    inside = (torch.arange(m) < ends[:, :1]).unsqueeze(2) & (torch.arange(n) < ends[:, 1:]).unsqueeze(1)
    alignment = torch.where(inside, torch.where(value.isnan()[:, None, None], torch.nan, flow[:, 1:, 1:]), 0)
    alignment = torch.where((value == torch.inf)[:, None, None], 0, alignment).unsqueeze(-1)
    apart = x.unsqueeze(2) - y.unsqueeze(1)
    pull = torch.where(alignment == 0, 0, 2 * alignment * apart)
    return value.to(dtype), pull.sum(2).to(dtype) if to_x else None, -pull.sum(1).to(dtype) if to_y else None


@soft_dtw_of_points.twin
def _(
    x: Tensor,
    y: Tensor,
    lengths: Tensor | None,
    gamma: float,
    omega: Omega,
    to_x: bool,
    to_y: bool,
    band: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    value, *gradients = _native(x.contiguous(), y.contiguous(), lengths, gamma, omega, to_x, to_y, band)
    if x.dtype is torch.float32 and bool(((value.abs() > _LARGE * gamma) & value.isfinite()).any()):
        wide = x.double().contiguous(), y.double().contiguous()
        value, *gradients = _native(*wide, lengths, gamma, omega, to_x, to_y, band)
    along_x, along_y = (None if gradient is None else gradient.to(x.dtype) for gradient in gradients)
    return value.to(x.dtype), along_x, along_y


def _native(
    x: Tensor,
    y: Tensor,
    lengths: Tensor | None,
    gamma: float,
    omega: Omega,
    to_x: bool,
    to_y: bool,
    band: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Runs the compiled sweeps; the value is float64."""
    (n_items, m, d), n = x.shape, y.shape[1]
    value = x.new_empty(n_items, dtype=torch.float64)
    along_x = torch.empty_like(x) if to_x else None
    along_y = torch.empty_like(y) if to_y else None
    entry = routing.native.soft_dtw if band is None else routing.native.banded_soft_dtw
    entry(
        x.itemsize,
        routing.address(x),
        routing.address(y),
        0 if lengths is None else routing.address(lengths),
        *(() if band is None else (routing.address(band[0]), routing.address(band[1]))),
        -1 / gamma,
        omega,
        m,
        n,
        d,
        routing.address(value),
        0 if along_x is None else routing.address(along_x),
        0 if along_y is None else routing.address(along_y),
        n_items,
        m * n if band is None else int((band[1] - band[0] + 1).clamp(min=0).sum(1).max()) + m,
        torch.get_num_threads(),
    )
    return value, along_x, along_y
