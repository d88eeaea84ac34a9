"""Norm-regularized argmax (normmax), its Jacobian, and the derivative of Ω with respect to the order of the norm."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.candidates import at_their_places, candidates, may_stop, row_sum, value_above
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.per_row import native_parameter


@solver()
def normmax(rows: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """Maximizes each row's expected score minus the α-norm of the weights, 1 < α < inf.

        argmax_{p >= 0, sum p = 1}  <p, x> - (||p||_alpha - 1)

    With z = (x - tau)_+ the optimality conditions are z = (p / ||p||_alpha)^(alpha - 1) and sum p = 1. So with
    e = 1/(alpha - 1) the weights are z^e divided by their sum, tau solves sum z^(1 + e) = 1, and the value of the
    maximum is tau + 1. A tensor alpha broadcasts against rows with a last axis of size 1: one order per row; orders
    that are not above 1 and finite give NaN. Returns the weights, shaped as rows, and the value, one per row.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    order = torch.as_tensor(alpha, dtype=torch.float64, device=rows.device)
    valid = (order > 1) & (order < torch.inf)
    e = 1 / (torch.where(valid, order, 2) - 1)
    found = candidates(rows, 1.0)
    gap = found.gap
    # c, the largest z, is where the norm of (c - gap)_+ of order 1 + e is 1. The norm is convex and increasing in c, so
    # Newton's method falls from c = 1 to the root without passing it.
    c = torch.ones_like(found.top) + 0 * e
    settled = torch.zeros_like(c, dtype=torch.bool)
    for _ in range(_MAX_STEPS):
        powers, u = _powers(gap, c, e)
        total = row_sum(powers * u)
        step = (c * total - total.pow(e / (1 + e))) / row_sum(powers)
        settled = settled | ~(step > 2 * torch.finfo(c.dtype).eps * c)
        c = torch.where(settled, c, c - step)
        if may_stop(settled):
            break
    powers, _ = _powers(gap, c, e)
    weights = torch.where(valid, at_their_places(powers / row_sum(powers), found, rows), torch.nan)
    value = value_above(1 - c, found, rows).unsqueeze(-1)
    return weights, torch.where(valid, value, torch.nan).squeeze(-1)


_MAX_STEPS = 64  # Newton's method doubles the digits; as e approaches 0 it drops candidates first, a share of them each


def _powers(gap: Tensor, c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """u^e, zero where u is, and u = (1 - gap/c)_+."""
    w = -gap / c
    inside = w > -1
    return torch.where(inside, (e * torch.where(inside, w, 0).log1p()).exp(), 0), torch.where(inside, 1 + w, 0)


@kernel
def normmax_product(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of normmax.

    Since sum z^(1 + e) = 1 (see `normmax`), tau moves by <p, v>, so z moves by v' = v - <p, v> and

        J v = m v' - p <m, v'>,    m = p / ((alpha - 1) z) = p (p / N)^(1 - alpha) / (alpha - 1),    N = ||p||_alpha.
    """
    if weights.shape[-1] == 0:
        return 0 * direction
    order = _valid(alpha, weights)
    support = weights != 0  # NaN rows stay NaN
    log, _ = _log_ratio(weights, order)
    m = torch.where(support, weights * torch.exp((1 - order) * log), 0) / (order - 1)
    centred = direction - (weights * direction).sum(-1, keepdim=True)
    return m * centred - weights * (m * centred).sum(-1, keepdim=True)


@normmax_product.twin
def _(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("normmax_product", direction, weights, direction, *native_parameter(alpha, direction), product)
    return product


@kernel
def normmax_slope(weights: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """∂_α Ω(p), shape (..., 1), and ∂_α ∇Ω(p), shaped as weights and zero off the support.

    With r = p / N, N = ||p||_alpha, and M = Σ r^α log r:

        ∂_α Ω = N M / α          ∂_α ∇Ω = r^(α − 1) (log r − (α − 1)/α M)
    """
    if weights.shape[-1] == 0:
        return weights.sum(-1, keepdim=True), weights.clone()
    order = _valid(alpha, weights)
    support = weights != 0
    log, log_norm = _log_ratio(weights, order)
    mean = torch.where(support, torch.exp(order * log) * log, 0).sum(-1, keepdim=True)
    gradient = torch.where(support, torch.exp((order - 1) * log) * (log - (order - 1) / order * mean), 0)
    return log_norm.exp() * mean / order, gradient


def _valid(alpha: float | Tensor, weights: Tensor) -> float | Tensor:
    if not isinstance(alpha, Tensor):
        return alpha
    return torch.where((alpha > 1) & (alpha < torch.inf), alpha, torch.nan).to(weights.dtype)


def _log_ratio(weights: Tensor, order: float | Tensor) -> tuple[Tensor, Tensor]:
    """log(p / N), zero off the support, and log N, for N = ||p||_order; zero and differentiable in empty rows."""
    support = weights != 0
    log = torch.where(support, weights, 1).log()
    # The largest weight is factored out of the norm, because its power may underflow.
    top = torch.where(support, log, -torch.inf).amax(-1, keepdim=True).detach()
    top = torch.where(top == -torch.inf, 0, top)
    powers = torch.where(support, torch.exp(order * (log - top)), 0).sum(-1, keepdim=True)
    log_norm = torch.where(powers == 0, 0, top + torch.where(powers == 0, 1, powers).log() / order)
    return torch.where(support, log - log_norm, 0), log_norm
