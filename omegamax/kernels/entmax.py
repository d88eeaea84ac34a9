"""Entmax: Tsallis-regularized argmax of any order alpha >= 1, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.candidates import at_their_places, candidates, may_stop, narrowed, row_sum, value_above
from omegamax.kernels.gpu import Twin
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.per_row import native_parameter
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax


@solver()
def entmax(rows: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    """Maximizes each row's expected score minus a Tsallis negentropy.

        argmax_{p >= 0, sum p = 1}  <p, x> - (sum p^alpha - 1) / (alpha (alpha - 1))

    alpha = 1 is softmax (the limit), alpha = 2 is sparsemax; above 1 many weights are exactly zero. A tensor alpha
    broadcasts against rows with a last axis of size 1: one order per row; orders below 1 give NaN. Returns the weights,
    shaped as rows, and the value of that maximum, one per row. Peters, Niculae & Martins (2019).
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    if isinstance(alpha, Tensor):
        return _any_order(rows, alpha, up_to_two=True, above_two=True)
    if alpha == 1:
        return softmax.reference(rows)
    if alpha == 1.5:
        return _order_three_halves(rows)
    if alpha == 2:
        return sparsemax.reference(rows)
    return _any_order(rows, alpha, up_to_two=alpha < 2, above_two=not alpha < 2)


def _order_three_halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Solves p = (c - y)_+^2 with y = gap/2 by Newton's method on the norm of (c - y)_+, convex in c, from above."""
    found = candidates(rows, 2.0)
    y = found.gap / 2
    c = torch.ones_like(found.top)
    settled = torch.zeros_like(c, dtype=torch.bool)
    for iteration in range(_MAX_STEPS):
        if iteration in (1, 3):  # c only falls, so what is not below it now never has weight
            found = narrowed(found, 2 * c)
            y = found.gap / 2
        excess = (c - y).clamp(min=0)
        square = row_sum(excess.square())
        step = (square - square.sqrt()) / row_sum(excess)
        settled = settled | ~(step > 4 * torch.finfo(c.dtype).eps * c)
        c = torch.where(settled, c, c - step)
        if may_stop(settled):
            break
    excess = (c - y).clamp(min=0)
    weights = excess.square()
    weights = weights / row_sum(weights)
    inside = torch.where(weights > 0, y, 0)
    above = (2 * (1 - c) - row_sum(weights * inside)) / 1.5
    return at_their_places(weights, found, rows), value_above(above, found, rows)


_MAX_STEPS = 24  # Newton's method doubles the digits; a far start on a long row takes a few more


def _any_order(rows: Tensor, alpha: float | Tensor, *, up_to_two: bool, above_two: bool) -> tuple[Tensor, Tensor]:
    """Solves in double precision; weights vanish where gap >= 1/(alpha - 1)."""
    e = torch.as_tensor(alpha, dtype=torch.float64, device=rows.device) - 1
    e = torch.where((e >= 0) & (e < torch.inf), e, torch.nan)
    found = candidates(rows, torch.where(e.isnan(), 0, 1 / e))
    d = found.gap
    if up_to_two and above_two:
        is_above_two = e > 1
        flat, flat_mass = _orders_up_to_two(d, torch.where(is_above_two, 0.5, e))
        sharp, sharp_mass = _orders_above_two(d, torch.where(is_above_two, e, 2.0))
        weights, mass = torch.where(is_above_two, sharp, flat), torch.where(is_above_two, sharp_mass, flat_mass)
    else:
        weights, mass = (_orders_up_to_two if up_to_two else _orders_above_two)(d, e)
    invalid = e.isnan()
    cost = torch.where(weights > 0, d, 0)
    above = (mass - e * row_sum(weights * cost)) / (1 + e)
    weights = torch.where(invalid, torch.nan, at_their_places(weights, found, rows))
    return weights, torch.where(invalid, torch.nan, value_above(above, found, rows).unsqueeze(-1)).squeeze(-1)


def _relative_powers(d: Tensor, e: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """u^(1/e - 1) and u^(1/e) for u = (1 - e d / c)_+; the limit e = 0 is exp(-d), twice."""
    w = -e * d / c
    inside = w > -1
    log = torch.where(inside, w, 0).log1p()
    power = torch.where(e > 0, log / torch.where(e > 0, e, 1), -d)
    high = torch.where(inside, power.exp(), 0)
    low = torch.where(inside, torch.where(e > 0, power - log, power).exp(), 0)
    return low, high


def _orders_up_to_two(d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Solves orders up to 2 by Newton's method on the norm (sum (c - e d)_+^(1/e))^e, convex in c, and bisection."""
    high, low = torch.ones_like(d[..., :1]) + 0 * e, torch.zeros_like(d[..., :1]) + 0 * e
    c, settled = high, torch.zeros_like(high, dtype=torch.bool)
    for iteration in range(32):
        slopes, powers = _relative_powers(d, e, c)
        slope, total = row_sum(slopes), row_sum(powers)
        step = (c * total - total.pow(1 - e)) / slope
        settled = settled | ~(step.abs() > 4 * torch.finfo(c.dtype).eps * c)
        if may_stop(settled):
            break
        high, low = torch.where(step >= 0, c, high), torch.where(step < 0, c, low)
        following = (c - step).maximum(low).minimum(high)
        if iteration % 3 == 2:
            # Bisection takes the midpoint in logarithms; without a lower end, a tenth of the upper end.
            middle = torch.where(low > 0, (low * high).sqrt(), 0.1 * high)
            far = (low < 0.99 * high) & (step.abs() > 0.01 * following)
            following = torch.where(far, middle, following)
        c = torch.where(settled, c, following)
    _, powers = _relative_powers(d, e, c)
    total = row_sum(powers)
    order = torch.where(e > 0, e, 1)
    mass = torch.where(e > 0, -torch.expm1(-e * total.log()) / order, total.log())
    return powers / total, mass


def _orders_above_two(d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Solves orders above 2: finds the support by bisection over the sorted scores, then its least weight w by Newton.

    The multiplier is no good unknown: on a flat row it is w^e from the lowest score, below the rounding of the scores.
    With b = e (d_last - d) >= 0 the others are (w^e + b)^(1/e), and the sum of all is convex and increasing in w.
    """
    last = _last_supported(d, e)
    inside = d <= last
    b = torch.where(inside, e * (last - d), 0)
    w = 1 / inside.sum(-1, keepdim=True).clamp(min=1).to(d.dtype)  # all others are at least as large: from above
    settled = torch.zeros_like(w, dtype=torch.bool)
    for _ in range(40):
        u = w.pow(e) + b
        terms = torch.where(b > 0, u.pow(1 / e), w)
        slopes = torch.where(b > 0, terms / torch.where(b > 0, u, 1) * w.pow(e - 1), 1)
        excess = row_sum(torch.where(inside, terms, 0)) - 1
        step = excess / row_sum(torch.where(inside, slopes, 0))
        settled = settled | ~(step > 4 * torch.finfo(w.dtype).eps * w)
        w = torch.where(settled, w, (w - step).clamp(min=1e-300))
        if may_stop(settled):
            break
    powers = torch.where(inside, torch.where(b > 0, (w.pow(e) + b).pow(1 / e), w), 0)
    return powers / row_sum(powers), (1 - w.pow(e)) / e - last


def _last_supported(d: Tensor, e: Tensor) -> Tensor:
    """Finds the largest d with a weight: the last with sum (e (d - d_i))_+^(1/e) < 1, the weights if its own were 0."""
    ordered = d.sort(dim=-1).values
    yes = torch.zeros_like(d[..., :1], dtype=torch.int64)
    no = yes + d.shape[-1]
    for _ in range(d.shape[-1].bit_length()):
        middle = (yes + no) // 2
        ahead = e * (ordered.gather(-1, middle.clamp(max=d.shape[-1] - 1)) - d)
        total = row_sum(torch.where(ahead > 0, torch.where(ahead > 0, ahead, 1).pow(1 / e), 0))
        supported = (total < 1) & (middle < d.shape[-1])
        yes, no = torch.where(supported, middle, yes), torch.where(supported, no, middle)
    return ordered.gather(-1, yes)


@kernel
def entmax_product(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of entmax.

    J = diag(s) - s s' / (1's) with s = p^(2 - alpha) on the support, zero elsewhere.
    """
    if weights.shape[-1] == 0:
        return 0 * direction
    support = weights != 0  # NaN rows stay NaN
    p = torch.where(support, weights, 1)
    if isinstance(alpha, Tensor):
        alpha = torch.where(alpha >= 1, alpha, torch.nan).to(weights.dtype)
    # p^(2 - alpha) written so that alpha = 1 gives p itself
    s = torch.where(support, p * torch.exp((1 - alpha) * p.log()), 0)
    if not isinstance(alpha, Tensor) and alpha <= 2:
        if alpha == 2:
            s = torch.where(support, torch.ones_like(p), 0)
        total = s.sum(-1, keepdim=True)
        mean = (s * direction).sum(-1, keepdim=True) / torch.where(total == 0, 1, total)
        return s * (direction - mean) + 0 * weights
    # Above 2 the smallest weights have a huge s: differences are taken from the direction at the largest s, which
    # dominates the mean, and its own product is minus the sum of the others.
    pivot = s.argmax(-1, keepdim=True)
    at_pivot = torch.zeros_like(s, dtype=torch.bool).scatter(-1, pivot, True)
    u = direction - direction.gather(-1, pivot)
    largest = p.gather(-1, pivot)
    ratio = torch.where(support, (p / largest) * torch.exp((1 - alpha) * (p / largest).log()), 0)
    total = ratio.sum(-1, keepdim=True)
    mean = (ratio * u).sum(-1, keepdim=True) / torch.where(total == 0, 1, total)
    others = torch.where(at_pivot, 0, torch.where(at_pivot, 0, s) * (u - mean))
    return torch.where(at_pivot, -others.sum(-1, keepdim=True), others) + 0 * weights


@entmax_product.twin
def _(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("entmax_product", direction, weights, direction, *native_parameter(alpha, direction), product)
    return product


entmax.on_gpu = Twin("rows", "entmax", order=1)
entmax_product.on_gpu = Twin("row_products", "entmax_product", order=1)
