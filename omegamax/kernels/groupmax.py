"""Groupmax: attention that selects whole groups of positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.candidates import Candidates, at_their_places, candidates, may_stop, row_sum, value_above
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.prox_group import group_norm, group_sum

_MAX_STEPS = 100  # each step at least halves the bracket or follows Newton; doubles have 53 bits


@solver()
def groupmax(rows: Tensor, groups: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """Computes sparse weights in which whole groups are zero.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_g ||p_g||_2

    `groups` (n,) holds the group, 0 .. n - 1, of each position. For a multiplier tau and u = (x - tau)_+ the solution
    is p_g = u_g (1 - strength / ||u_g||)_+, and sum p decreases in tau: one root, by Newton's method kept inside a
    bracket. Entries of -inf are removed. Returns the weights and the value of the maximum, one per row.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    strength = as_tensor(strength, widen(rows))
    valid = (strength >= 0) & strength.isfinite()
    bound = torch.where(valid, strength, 0)
    found = candidates(rows, 1 + bound)  # tau is at least top - 1 - strength
    row = _Grouped.of(found, groups, rows.shape[-1])
    # Scores are divided by a power of two near 1 + strength, so that no square overflows and no digit is lost.
    unit = torch.ldexp(torch.ones_like(bound), torch.frexp(1 + bound).exponent)
    x, scaled = (-row.gap / unit).clamp(min=-2), bound / unit
    tau = _root(x, row.slot, scaled, 1 / unit)
    p = _shrink(x - tau, row.slot, scaled)
    p = p / row_sum(p).clamp(min=torch.finfo(p.dtype).tiny)
    norms = row_sum(_group_sums(p.square(), row.slot).sqrt())
    above = 0.5 - row_sum(p * (torch.where(p > 0, row.gap, 0) + p / 2)) - bound * norms
    weights = at_their_places(p if row.order is None else p.gather(-1, row.order), found, rows)
    value = value_above(above, found, rows).unsqueeze(-1)
    return torch.where(valid, weights, torch.nan), torch.where(valid, value, torch.nan).squeeze(-1)


class _Grouped(NamedTuple):
    """The candidates of each row sorted by group, and a number below k for each of their groups; all (..., k)."""

    gap: Tensor
    slot: Tensor
    order: Tensor | None  # where each candidate went; None means that none was moved

    @classmethod
    def of(cls, found: Candidates, groups: Tensor, columns: int) -> _Grouped:
        gap = found.gap
        if found.places is None:
            return cls(gap, groups.expand(gap.shape), None)
        label = found.places.take(groups.expand(gap[..., 0].numel(), columns), gap.shape[-1], columns)
        label, order = label.reshape(gap.shape).sort(dim=-1, stable=True)
        slot = torch.nn.functional.pad(label.diff(dim=-1) != 0, (1, 0)).cumsum(-1)
        return cls(gap.gather(-1, order), slot, order.argsort(-1))


def _root(x: Tensor, slot: Tensor, strength: Tensor, one: Tensor) -> Tensor:
    """Finds the tau with sum p = one, by Newton's method inside a bracket that bisection shrinks."""
    low = (-one - strength).expand_as(x[..., :1])
    high = torch.zeros_like(low)
    tau, settled = low, torch.zeros_like(low, dtype=torch.bool)
    unit = torch.finfo(x.dtype).eps
    for _ in range(_MAX_STEPS):
        total, slope = _total(x - tau, slot, strength)
        excess = total - one
        low, high = torch.where(excess >= 0, tau, low), torch.where(excess < 0, tau, high)
        newton = tau - excess / torch.where(slope < 0, slope, -1)
        inside = (slope < 0) & (newton > low) & (newton < high)
        # The sum is known to a few roundings of its terms and of the strength: a smaller excess is rounding.
        settled = settled | ~(excess.abs() > 0.5 * unit * (one + strength))
        following = torch.where(settled, tau, torch.where(inside, newton, (low + high) / 2))
        settled = settled | ((following - tau).abs() <= unit * tau.abs())
        tau = torch.where(settled, tau, following)
        if may_stop(settled):
            break
    return tau


def _group_sums(entries: Tensor, slot: Tensor) -> Tensor:
    """Sums over each group; the sum is at the group's number."""
    return torch.zeros_like(entries).scatter_add(-1, slot, entries)


def _shrink(difference: Tensor, slot: Tensor, strength: Tensor) -> Tensor:
    """u_g (1 - strength / ||u_g||)_+ for u = (x - tau)_+."""
    u = difference.clamp(min=0)
    r = _group_sums(u.square(), slot).sqrt().gather(-1, slot)
    return torch.where(r > strength, u * ((r - strength) / torch.where(r > 0, r, 1)), 0)


def _total(difference: Tensor, slot: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Computes sum p and its derivative in tau, -sum_g k (1 - strength/r) + strength s^2 / r^3, over kept groups.

    k, s and r are the number, the sum and the norm of the positive entries of u_g.
    """
    u = difference.clamp(min=0)
    k, s = _group_sums((u > 0).to(u.dtype), slot), _group_sums(u, slot)
    r = _group_sums(u.square(), slot).sqrt()
    kept = r > strength
    r = torch.where(kept, r, 1)
    keep = torch.where(kept, (r - strength) / r, 0)
    slope = torch.where(kept, k * keep + strength / r * (s / r).square(), 0)
    return row_sum(keep * s), -row_sum(slope)


@kernel
def groupmax_product(weights: Tensor, groups: Tensor, strength: float | Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction v by the Jacobian of groupmax: M v - M 1 (1'M v) / (1'M 1), on the support.

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
    launch("groupmax_product", direction, weights, direction, groups, *native_parameter(strength, direction), product)
    return product
