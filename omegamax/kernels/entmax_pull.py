"""Reverse mode of entmax whose order learns: one kernel for both gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.entmax import entmax_product
from omegamax.kernels.entmax_slope import entmax_slope
from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.per_row import native_parameter


@kernel
def entmax_pull(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Computes J v, the Jacobian of entmax times a direction, and <J v, ∂_α ∇Ω(p)>, shape (..., 1).

    The first is differentiable; the second is not.
    """
    product = entmax_product.reference(weights, alpha, direction)
    order = alpha.detach() if isinstance(alpha, Tensor) else alpha
    _, gradient = entmax_slope.reference(weights.detach(), order)
    return product, (routing.detached(product) * gradient).sum(-1, keepdim=True)


@entmax_pull.twin
def _(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    weights, direction = weights.contiguous(), direction.contiguous()
    product, along = torch.empty_like(direction), direction.new_empty(*direction.shape[:-1], 1)
    if direction.shape[-1] == 0:
        return product, along.zero_()
    launch("entmax_pull", direction, weights, direction, *native_parameter(alpha, direction), product, along)
    return product, along
