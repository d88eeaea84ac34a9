"""Entmax: Tsallis-regularized argmax of any order alpha >= 1, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import extent, kernel, launch, new_solution
from omegamax.kernels.per_row import native_parameter
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax


@kernel
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
        return _any_order(rows, alpha, gentle=True, steep=True)
    if alpha == 1:
        return softmax.reference(rows)
    if alpha == 1.5:
        return _order_three_halves(rows)
    if alpha == 2:
        return sparsemax.reference(rows)
    return _any_order(rows, alpha, gentle=alpha < 2, steep=not alpha < 2)


def _shift(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Scores relative to the largest, and the largest; masked rows become zeros, +inf rows NaN."""
    top = rows.amax(-1, keepdim=True)
    shifted = torch.where(top == -torch.inf, 0, rows - top)
    return torch.where(top == torch.inf, torch.nan, shifted), top


def _finish(rows: Tensor, top: Tensor, weights: Tensor, above: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and value with rows of nothing but -inf set to zero and -inf."""
    masked = top == -torch.inf
    value = torch.where(masked, -torch.inf, top + above).squeeze(-1)
    return torch.where(masked, 0, weights).to(rows.dtype), value.to(rows.dtype)


def _order_three_halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    """P = (y - tau)_+^2 with y = x/2: given the support, tau solves a quadratic equation; sorting finds the support."""
    shifted, top = _shift(rows)
    half = shifted.clamp(min=-4) / 2  # weights vanish below -1
    ordered = half.sort(dim=-1, descending=True).values
    rank = torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)
    mean = ordered.cumsum(-1) / rank
    scatter = ordered.square().cumsum(-1) - rank * mean.square()
    tau = mean - ((1 - scatter) / rank).clamp(min=0).sqrt()
    size = (tau < ordered).sum(-1, keepdim=True).clamp(min=1)
    tau = tau.gather(-1, size - 1)
    for _ in range(2):  # two steps of Newton's method remove the rounding of the long sums
        excess = (half - tau).clamp(min=0)
        square = excess.square().sum(-1, keepdim=True)
        tau = tau + (square - square.sqrt()) / excess.sum(-1, keepdim=True)
    excess = (half - tau).clamp(min=0)
    weights = excess.square()
    weights = weights / weights.sum(-1, keepdim=True)
    above = (2 * (1 + tau) + (weights * half).sum(-1, keepdim=True)) / 1.5
    return _finish(rows, top, weights, above)


def _any_order(rows: Tensor, alpha: float | Tensor, *, gentle: bool, steep: bool) -> tuple[Tensor, Tensor]:
    """Solves in double precision, with a fixed number of steps and no decision that depends on the data."""
    shifted, top = _shift(rows.double())
    e = torch.as_tensor(alpha, dtype=torch.float64, device=rows.device) - 1
    e = torch.where((e >= 0) & (e < torch.inf), e, torch.nan)
    d = -shifted
    if gentle and steep:
        is_steep = e > 1
        flat, flat_mass = _gentle(d, torch.where(is_steep, 0.5, e))
        sharp, sharp_mass = _steep(d, torch.where(is_steep, e, 2.0))
        weights, mass = torch.where(is_steep, sharp, flat), torch.where(is_steep, sharp_mass, flat_mass)
    else:
        weights, mass = (_gentle if gentle else _steep)(d, e)
    weights, mass = weights + 0 * e, mass + 0 * e
    cost = torch.where(weights > 0, d, 0)
    above = (mass - e * (weights * cost).sum(-1, keepdim=True)) / (1 + e)
    return _finish(rows, top, weights, above)


def _relative_powers(d: Tensor, e: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """u^(1/e - 1) and u^(1/e) for u = (1 - e d / c)_+; the limit e = 0 is exp(-d), twice."""
    w = -e * d / c
    inside = w > -1
    safe = torch.where(inside, w, 0)
    order = torch.where(e > 0, e, 1)
    log = torch.where(e > 0, safe.log1p() / order, -d)
    high = torch.where(inside, log.exp(), 0)
    low = torch.where(inside, (log - torch.where(e > 0, safe.log1p(), 0)).exp(), 0)
    return low, high + 0 * d.sum(-1, keepdim=True).clamp(max=0)


def _gentle(d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Orders up to 2. Newton's method on the norm (sum (c - e d)_+^(1/e))^e, convex in c, kept honest by bisection."""
    high, low = torch.ones_like(d[..., :1]) + 0 * e, torch.zeros_like(d[..., :1]) + 0 * e
    c = high
    for iteration in range(32):
        slopes, powers = _relative_powers(d, e, c)
        slope, total = slopes.sum(-1, keepdim=True), powers.sum(-1, keepdim=True)
        step = (c * total - total.pow(1 - e)) / slope
        high, low = torch.where(step >= 0, c, high), torch.where(step < 0, c, low)
        c = (c - step).maximum(low).minimum(high)
        if iteration % 3 == 2:
            # The midpoint in logarithms when there is a lower end, a tenth of the upper end before that.
            middle = torch.where(low > 0, (low * high).sqrt(), 0.1 * high)
            c = torch.where(low < 0.99 * high, torch.where(step.abs() > 0.01 * c, middle, c), c)
    _, powers = _relative_powers(d, e, c)
    total = powers.sum(-1, keepdim=True)
    order = torch.where(e > 0, e, 1)
    mass = torch.where(e > 0, -torch.expm1(-e * total.log()) / order, total.log())
    return powers / total, mass


def _steep(d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Orders above 2: bisection for the support, then Newton's method for the weight of its smallest member."""
    y = (-e * d).clamp(min=-4)
    low, high = -torch.ones_like(y[..., :1]), torch.zeros_like(y[..., :1])
    for _ in range(60):
        middle = (low + high) / 2
        full = _power(y - middle, 1 / e).sum(-1, keepdim=True) >= 1
        low, high = torch.where(full, middle, low), torch.where(full, high, middle)
    inside = y >= high
    lowest = torch.where(inside, y, 0).amin(-1, keepdim=True)
    b = torch.where(inside, y - lowest, 0)
    w = 1 / inside.sum(-1, keepdim=True).to(y.dtype)
    for _ in range(40):
        u = w.pow(e) + b
        terms = torch.where(b > 0, u.pow(1 / e), w)
        slopes = torch.where(b > 0, terms / u * w.pow(e - 1), 1)
        excess = torch.where(inside, terms, 0).sum(-1, keepdim=True) - 1
        w = (w - excess / torch.where(inside, slopes, 0).sum(-1, keepdim=True)).clamp(min=1e-300)
    u = w.pow(e) + b
    powers = torch.where(inside, torch.where(b > 0, u.pow(1 / e), w), 0) + 0 * d.sum(-1, keepdim=True).clamp(max=0)
    return powers / powers.sum(-1, keepdim=True), (1 - w.pow(e) + lowest) / e


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    return torch.where(base > 0, torch.where(base > 0, base, 1).pow(exponent), 0)


@entmax.twin
def _(rows: Tensor, alpha: float | Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    weights, value = new_solution(rows)
    if rows.shape[-1] == 0:
        return weights, value.fill_(-torch.inf)
    launch("entmax", rows, rows, weights, value, *native_parameter(alpha, rows))
    return weights, value


@entmax.alone
def _(rows: Tensor, alpha: float) -> Tensor:
    rows = rows.contiguous()
    weights = torch.empty_like(rows)
    routing.native.entmax(rows.itemsize, rows.data_ptr(), weights.data_ptr(), 0, 0, alpha, *extent(rows))
    return weights


@kernel
def entmax_product(weights: Tensor, alpha: float | Tensor, direction: Tensor) -> Tensor:
    """Jacobian of entmax times a direction.

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
    alphas, number = native_parameter(alpha, direction)
    addresses = weights.data_ptr(), direction.data_ptr(), product.data_ptr()
    orders = alphas if isinstance(alphas, int) else alphas.data_ptr()
    routing.native.entmax_product(direction.itemsize, *addresses, orders, number, *extent(direction))
    return product
