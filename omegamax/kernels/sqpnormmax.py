"""Squared p-norm regularized argmax, and its Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.candidates import at_their_places, candidates, may_stop, row_sum, value_above
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.sparsemax import sparsemax


@solver()
def sqpnormmax(rows: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Maximizes each row's expected score minus a squared p-norm, 1 < p <= 2.

        argmax_{y >= 0, sum y = 1}  <y, x> - 1/2 (||y||_p^2 - 1)

    Returns the weights, shaped as rows, and the value of that maximum, one per row; p = 2 is sparsemax. With
    1/p + 1/q = 1 the weights are z^(q-1) ||z||_q^(2-q), z = (x - tau)_+: only tau is unknown. Niculae & Blondel (2017).
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf)
    if p == 2:
        return sparsemax.reference(rows)
    q = p / (p - 1)
    found = candidates(rows, 1.0)
    d = found.gap
    # c, the largest z, is the root of an increasing function; Newton's method finds it, with bisection as a safeguard.
    high = torch.ones_like(found.top)
    low = high * (0.5 * rows.shape[-1] ** (-2 / q))
    c, settled = high, torch.zeros_like(high, dtype=torch.bool)
    for iteration in range(32):
        lowest, u = _powers(d, c, q)
        a, b = row_sum(lowest * u), row_sum(lowest * u * u)
        excess = c * a - b.pow(1 - 2 / q)
        high, low = torch.where(excess >= 0, c, high), torch.where(excess < 0, c, low)
        newton = c - excess / ((q - 1) * row_sum(lowest) - (q - 2) * a.square() / b)
        keep = (newton >= low) & (newton <= high) & ((iteration % 3 != 2) | ((newton - c).abs() < 0.01 * c))
        following = torch.where(keep, newton, (low + high) / 2)
        settled = settled | ~((following - c).abs() > 4 * torch.finfo(c.dtype).eps * c)
        c = torch.where(settled, c, following)
        if may_stop(settled):
            break
    lowest, u = _powers(d, c, q)
    powers = lowest * u
    weights = powers / row_sum(powers)
    norm = c * row_sum(powers * u).pow(1 / q)  # ||z||_q, which is also ||y||_p
    above = 0.5 - c + norm.square() / 2
    return at_their_places(weights, found, rows), value_above(above, found, rows)


def _powers(d: Tensor, c: Tensor, q: float) -> tuple[Tensor, Tensor]:
    """u^(q - 2), zero where u is, and u = (1 - d/c)_+."""
    w = -d / c
    inside = w > -1
    log = torch.where(inside, w, 0).log1p()
    return torch.where(inside, ((q - 2) * log).exp(), 0), torch.where(inside, 1 + w, 0)


@kernel
def sqpnormmax_product(weights: Tensor, p: float, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of sqpnormmax.

    On the support the Hessian of 1/2 ||y||_p^2 is a diagonal plus a rank-one matrix. With M its inverse,
    J v = M v - M1 (1'M v)/(1'M1) (Niculae & Blondel, 2017, Proposition 1). J1 = 0 allows to centre the direction
    first, v' = v - <y, v>, and leaves

        J v = m (v' - <m, v'>/sum m) + (2 - p)/((p - 1) N^2) y v',
        m = M1 = y/N^2 (1 + (N^p y^(1-p) - 1)/(p - 1)),    N = ||y||_p.
    """
    support = weights != 0  # NaN rows stay NaN
    y = torch.where(support, weights, 1)
    log = y.log()
    log_power = (weights * torch.expm1((p - 1) * log)).sum(-1, keepdim=True).log1p()  # log N^p
    empty = ~support.any(-1, keepdim=True)
    log_power = torch.where(empty, 0, log_power)
    norm2 = (2 / p * log_power).exp()
    centred = direction - (weights * direction).sum(-1, keepdim=True)
    m = torch.where(support, y * (1 + torch.expm1(log_power - (p - 1) * log) / (p - 1)), 0) / norm2
    total = torch.where(empty, 1, m.sum(-1, keepdim=True))
    inner = (m * centred).sum(-1, keepdim=True) / total
    return m * (centred - inner) + (2 - p) / ((p - 1) * norm2) * weights * centred


@sqpnormmax_product.twin
def _(weights: Tensor, p: float, direction: Tensor) -> Tensor:
    weights, direction = weights.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("sqpnormmax_product", direction, weights, direction, float(p), product)
    return product
