"""The proximal operator of the ordered weighted l1 norm (OWL), of which OSCAR is one choice of weights."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.isotonic import pool
from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.oscarmax import cluster_mean
from omegamax.kernels.precision import widen


@kernel
def prox_owl(rows: Tensor, owl_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Shrinks each row towards zero, larger entries more, and pools entries of similar size.

        argmin_y  1/2 ||y - x||^2 + sum_i w_i |y|_(i)        |y|_(1) >= ... >= |y|_(n)

    The weights w, of shape (n,) or broadcastable to rows, are non-negative and non-increasing; OSCAR is
    w_i = strength (n - i). Returns the solution and int32 labels, both shaped as rows: the cluster of entries the
    solver pooled, -1 where the solution is zero. A row with a non-finite entry gives NaN. Zeng & Figueiredo (2014).
    """
    wide, w = widen(rows), widen(owl_weights)
    finite = wide.isfinite().all(-1, keepdim=True) & w.expand_as(rows).isfinite().all(-1, keepdim=True)
    size, order = torch.where(finite, wide.abs(), 0).sort(dim=-1, descending=True, stable=True)
    solution, joined = pool(torch.where(finite, w - size, 0))
    place = order.argsort(-1)
    # The solution is rounded before it is compared with zero, so that a label is -1 exactly where it is zero.
    solution = (0 - solution).clamp(min=0).to(rows.dtype)
    labels = torch.where(solution > 0, (~joined).cumsum(-1) - 1, -1).gather(-1, place)
    solution = solution.gather(-1, place)
    solution = torch.where(rows < 0, 0 - solution, solution)  # 0 − 0 is 0, not −0
    labels = torch.where(finite, labels, -1).to(torch.int32)
    return torch.where(finite, solution, torch.nan), labels


@prox_owl.twin
def _(rows: Tensor, owl_weights: Tensor) -> tuple[Tensor, Tensor]:
    rows, w = rows.contiguous(), owl_weights.to(rows.dtype)
    shared = w.dim() <= 1 or w.numel() == w.shape[-1]
    w = w.reshape(-1).expand(rows.shape[-1]).contiguous() if shared else w.expand_as(rows).contiguous()
    solution, labels = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.int32)
    launch("prox_owl", rows, rows, w, 0 if shared else rows.shape[-1], solution, labels)
    return solution, labels


@kernel
def owl_product(solution: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    """Multiplies v by the Jacobian of `prox_owl`: sign(y_i) times the mean of sign(y_j) v_j over the cluster of i.

    Zero where y is (Niculae & Blondel, 2017, Proposition 3).
    """
    sign = solution.detach().sign()
    inside = torch.where(solution != 0, sign * direction, 0)
    return sign * cluster_mean(labels, inside) + 0 * solution


@owl_product.twin
def _(solution: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    solution, labels, direction = solution.contiguous(), labels.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("owl_product", direction, solution, labels, direction, product)
    return product
