"""Groupmax: attention that selects whole groups of positions."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import extent, kernel, launch, new_solution
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.prox_group import group_norm, group_sum

_MAX_STEPS = 100  # each step at least halves the bracket or follows Newton; doubles have 53 bits


@kernel
def groupmax(rows: Tensor, groups: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """Sparse weights in which whole groups are zero.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_g ||p_g||_2

    `groups` (n,) holds the group, 0 .. n - 1, of each position. For a multiplier tau and u = (x - tau)_+ the solution
    is p_g = u_g (1 - strength / ||u_g||)_+, and sum p decreases in tau: one root, by Newton's method kept inside a
    bracket. Entries of -inf are removed. Returns the weights and the value of the maximum, one per row.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    top = wide.amax(-1, keepdim=True)
    valid_strength = (strength >= 0) & strength.isfinite()
    valid = (top.isfinite() & valid_strength).expand_as(top)
    kept = (wide > -torch.inf) & valid
    strength = torch.where(valid_strength, strength, 0)
    # Nothing below the least possible tau matters, and a finite number in its place keeps the arithmetic finite.
    shifted = torch.where(kept, wide - top, 0).clamp(min=-2 - strength)
    shifted = torch.where(kept, shifted, -2 - strength)

    unit = torch.finfo(wide.dtype).eps
    low = torch.where(valid, -1 - strength, -2)
    high = torch.zeros_like(low)
    tau = low
    for _ in range(_MAX_STEPS):
        excess, slope = _excess(shifted - tau, groups, strength)
        low = torch.where(excess >= 0, tau, low)
        high = torch.where(excess < 0, tau, high)
        newton = tau - excess / torch.where(slope < 0, slope, -1)
        inside = (slope < 0) & (newton > low) & (newton < high)
        following = torch.where(inside, newton, (low + high) / 2)
        settled = (following - tau).abs() <= unit * tau.abs()
        tau = torch.where(excess == 0, tau, following)
        if not (routing.is_compiling() or routing.exporting_to_onnx()) and (settled | (excess == 0)).all():
            break
    p = _shrink(shifted - tau, groups, strength)
    total = p.sum(-1, keepdim=True)
    p = torch.where(valid, p / torch.where(total > 0, total, 1), 0)
    inside = torch.where(p > 0, shifted, 0)
    norms = torch.zeros_like(p).scatter_add(-1, groups.expand_as(p), p.square()).sqrt().sum(-1)
    value = (p * (inside - p / 2)).sum(-1) + 0.5 - strength.expand_as(top).squeeze(-1) * norms
    value = torch.where(top.squeeze(-1) > -torch.inf, top.squeeze(-1) + value, -torch.inf)
    bad = (~valid & (top != -torch.inf)) | ~valid_strength
    weights = torch.where(bad, torch.nan, p)
    return weights.to(rows.dtype), torch.where(bad.squeeze(-1), torch.nan, value).to(rows.dtype)


@groupmax.twin
def _(rows: Tensor, groups: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    weights, value = new_solution(rows)
    if rows.shape[-1] == 0:
        return weights, value.fill_(-torch.inf)
    launch("groupmax", rows, rows, groups, *native_parameter(strength, rows), weights, value)
    return weights, value


@groupmax.alone
def _(rows: Tensor, groups: Tensor, strength: float) -> Tensor:
    rows = rows.contiguous()
    weights = torch.empty_like(rows)
    labels = groups.data_ptr()
    routing.native.groupmax(rows.itemsize, rows.data_ptr(), labels, 0, strength, weights.data_ptr(), 0, *extent(rows))
    return weights


def _shrink(difference: Tensor, groups: Tensor, strength: Tensor) -> Tensor:
    """u_g (1 - strength / ||u_g||)_+ for u = (x - tau)_+."""
    u = difference.clamp(min=0)
    r = group_norm(u, groups)
    return torch.where(r > strength, u * ((r - strength) / torch.where(r > 0, r, 1)), 0)


def _excess(difference: Tensor, groups: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """f(tau) = sum p - 1 and f'(tau) = -sum_g k (1 - strength/r) + strength s^2 / r^3, over the groups that survive.

    k, s and r are the number, the sum and the norm of the positive entries of u_g. Summed over entries, not groups, so
    each group's constant is divided by k and each s is spread over its entries.
    """
    u = difference.clamp(min=0)
    r = group_norm(u, groups)
    alive = (r > strength) & (u > 0)
    r = torch.where(alive, r, 1)
    keep = torch.where(alive, (r - strength) / r, 0)
    s = group_sum(u, groups)
    slope = torch.where(alive, keep + strength * s * u / r**3, 0)
    return (keep * u).sum(-1, keepdim=True) - 1, -slope.sum(-1, keepdim=True)


@kernel
def groupmax_product(weights: Tensor, groups: Tensor, strength: float | Tensor, direction: Tensor) -> Tensor:
    """Jacobian of groupmax times a direction v: M v - M 1 (1'M v) / (1'M 1), on the support.

    With n = ||p_g|| and r = n + strength, M_g = (n/r) I + strength/(r n^2) p_g p_g' inverts the objective's Hessian.
    """
    strength = as_tensor(strength, weights)
    support = weights != 0  # NaN rows stay NaN
    norm = group_norm(weights, groups)
    norm = torch.where(support, norm, 1)
    p = torch.where(support, weights / norm, 0)  # unit vectors
    inside = torch.where(support, direction, 0)
    share = torch.where(support, strength / (norm + strength), 0)  # 1 - n/r

    def inverse_hessian(v: Tensor) -> Tensor:
        return (1 - share) * v + share * p * group_sum(p * v, groups)

    mv = inverse_hessian(inside)
    m1 = inverse_hessian(support.to(weights.dtype))
    total = m1.sum(-1, keepdim=True)
    empty = total == 0
    centre = mv.sum(-1, keepdim=True) / torch.where(empty, 1, total)
    return torch.where(support, mv - m1 * centre, 0) + 0 * weights


@groupmax_product.twin
def _(weights: Tensor, groups: Tensor, strength: float | Tensor, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("groupmax_product", direction, weights, groups, *native_parameter(strength, direction), direction, product)
    return product
