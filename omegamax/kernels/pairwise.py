"""Squared distances between all pairs of two lists of points."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.kernel import kernel, launch


@kernel
def pairwise_squared(x: Tensor, y: Tensor) -> Tensor:
    """Computes |x_i − y_j|² (batch, M, N) of points (batch, M, D) and (batch, N, D); zero exactly for equal points."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square_()


@pairwise_squared.twin
def _(x: Tensor, y: Tensor) -> Tensor:
    x, turned = x.contiguous(), y.mT.contiguous()  # vectors run along the second list
    found = x.new_empty(*x.shape[:2], y.shape[1])
    launch("pairwise_squared", found, x, turned, x.shape[1], x.shape[2], found)
    return found
