"""Maximising <p, θ> − Ω(p) over the simplex for any smooth, strongly convex Ω, rows side by side.

A primal–dual interior-point method finds a face, and Newton steps on it follow. Letters: g = θ − ∇Ω(p) is the gradient
of the objective, ν the multiplier of Σ p = 1, s ≥ 0 the slacks of p ≥ 0. The optimum is where

    g + s = ν,    p_i s_i = 0,    Σ p = 1

and the duality gap max g − <g, p> certifies it (the Frank–Wolfe gap bounds the distance to the maximum at any p).
Interior points never touch p = 0, so an Ω that is a barrier there (an entropy) needs no special case; a weight becomes
exactly zero at the end, if the gradient measured there says that it stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Omega = Callable[[Tensor], Tensor]
HessianVector = Callable[[Tensor], Tensor]


class Maximum(NamedTuple):
    """The result of `maximize`, per row."""

    weights: Tensor
    value: Tensor
    gap: Tensor
    tolerance: Tensor


class Point(NamedTuple):
    """The current point of the interior-point method: weights, multiplier, slacks."""

    p: Tensor
    nu: Tensor
    s: Tensor


def maximize(omega: Omega, scores: Tensor, *, rtol: float, max_iter: int) -> Maximum:
    """Solves every row; −inf scores are left out, undefined rows become NaN."""
    if scores.numel() == 0:
        empty = scores.new_full(scores.shape[:-1], -torch.inf)
        return Maximum(torch.zeros_like(scores), empty, torch.zeros_like(empty), torch.zeros_like(empty))
    rows = scores.reshape(-1, scores.shape[-1])
    undefined = (rows.isnan() | (rows == torch.inf)).any(-1, keepdim=True)
    allowed = (rows > -torch.inf) & ~undefined
    count = allowed.sum(-1, keepdim=True)
    top = torch.where(allowed, rows, -torch.inf).amax(-1, keepdim=True)
    x = torch.where(allowed, rows - top, 0)  # a shift of the scores only shifts the value
    p = torch.where(allowed, 1 / count.clamp(min=1).to(rows.dtype), 0)

    p = _interior_point(omega, x, p, allowed, rtol, max_iter)
    p = _polish(omega, x, p, allowed, rtol)

    objective, g, _ = _derivatives(omega, x, p)
    gap, tolerance = _gap(g, p, allowed, rtol)
    weights = p.masked_fill(undefined, torch.nan)
    value = (objective + top).masked_fill(count == 0, -torch.inf).masked_fill(undefined, torch.nan)
    columns = (value, gap.masked_fill(count <= 1, 0), tolerance)
    return Maximum(weights.reshape(scores.shape), *(column.reshape(scores.shape[:-1]) for column in columns))


def certified_gap(omega: Omega, scores: Tensor, weights: Tensor) -> Tensor:
    """Computes max g − <g, p> at a point of the simplex: an upper bound on max_Ω(θ) − (<p, θ> − Ω(p))."""
    allowed = scores > -torch.inf
    _, g, _ = _derivatives(omega, torch.where(allowed, scores, 0), weights)
    return _gap(g, weights, allowed, 0.0)[0].squeeze(-1)


def solve_on_face(omega: Omega, point: Tensor, direction: Tensor) -> Tensor:
    """J v: the y on the support of `point` with Σ y = 0 and H y = v up to a constant."""
    _, _, hessian_vector = _derivatives(omega, torch.zeros_like(point), point)
    product = _face_step(hessian_vector, point, direction)
    return torch.where(point.isnan(), torch.nan, product)


def _face_step(hessian_vector: HessianVector, p: Tensor, v: Tensor) -> Tensor:
    """Solves H y + ν = v, Σ y = 0 on the support of p.

    For a norm, H p = 0: then H is singular, and if some weights are small, so is nearly H on {Σ y = 0}, although y is
    well determined. So we write y = z + β p with z = 0 at the largest weight, k. Without k, H is well conditioned, and

        H z = v − β h − ν  outside k,    h·z + β p·h + ν = p·v,    Σ z + β = 0,    h = H p

    is stable whether or not h is zero. Where Ω is flat in some direction outside k (it may be, along a direction
    that changes Σ y), the constrained conjugate gradients leave the smaller residual, and are taken instead.
    """
    eps, tiny = torch.finfo(p.dtype).eps, torch.finfo(p.dtype).tiny
    free = p > 0
    p = p / p.sum(-1, keepdim=True).clamp(min=tiny)
    v = torch.where(free, v - (p * v).sum(-1, keepdim=True), 0)  # now p·v = 0
    diagonal = _diagonal(hessian_vector, p, free)
    h = hessian_vector(torch.where(free, p, 0))
    largest = torch.zeros_like(free).scatter(-1, p.argmax(-1, keepdim=True), True)
    others = free & ~largest

    def solve(right: Tensor, among: Tensor, normal: float) -> Tensor:
        return _projected_cg(hessian_vector, torch.zeros_like(p), diagonal, normal, among, right, 4 * eps)

    def total(a: Tensor) -> Tensor:
        return a.sum(-1, keepdim=True)

    by_h, by_one = solve(h, others, 0), solve(torch.ones_like(v), others, 0)
    # Two equations for β and ν: a β + b ν = ..., c β + d ν = ...
    a, b, c, d = total(h * (p - by_h)), 1 - total(h * by_one), 1 - total(by_h), -total(by_one)
    determinant = a * d - b * c
    y = torch.zeros_like(p)
    for _ in range(3):  # the second and third solve for the residual of the first
        rest = torch.where(free, v - hessian_vector(y), 0)
        rest = torch.where(free, rest - total(p * rest), 0)
        by_v = solve(rest, others, 0)
        first, second = -total(h * by_v), -total(y) - total(by_v)
        beta, nu = (first * d - b * second) / determinant, (a * second - first * c) / determinant
        y = y + by_v - beta * by_h - nu * by_one + beta * p

    def residual(y: Tensor) -> Tensor:
        rest = torch.where(free, v - hessian_vector(y), 0)
        rest = rest - total(p * rest)
        return total(p * rest.abs()).nan_to_num(torch.inf)

    error = residual(y)
    if bool((error > 100 * eps * total(p * v.abs())).any()):
        constrained = solve(v, free, 1)
        y = torch.where(error <= 100 * residual(constrained), y, constrained)
    return torch.where(free & (free.sum(-1, keepdim=True) > 1), y, 0)


def _interior_point(omega: Omega, x: Tensor, p: Tensor, allowed: Tensor, rtol: float, max_iter: int) -> Tensor:
    _, g, hessian_vector = _derivatives(omega, x, p)
    count = allowed.sum(-1, keepdim=True).clamp(min=1)
    highest = torch.where(allowed, g, -torch.inf).amax(-1, keepdim=True).nan_to_num(0, neginf=0)
    spread = highest - torch.where(allowed, g, torch.inf).amin(-1, keepdim=True).nan_to_num(0, posinf=0)
    nu = highest + 0.1 * spread + 0.1
    s = torch.where(allowed, nu - g, 0)
    for _ in range(max_iter):
        gap, tolerance = _gap(g, p, allowed, rtol)
        late = (gap > 0.1 * tolerance) & (count > 1)
        if not bool(late.any()):
            break
        mu = (p * s).sum(-1, keepdim=True) / count
        sigma = torch.where(mu < 1e-3, 0.01, 0.2)  # near the end Newton's step is accurate: aim at a small gap
        inverse = torch.where(allowed, 1 / torch.where(allowed, p, 1), 0)
        barrier = s * inverse
        right = torch.where(allowed, g - nu + sigma * mu * inverse, 0)
        step_p = _projected_cg(
            hessian_vector, barrier, _diagonal(hessian_vector, p, allowed) + barrier, 1, allowed, right, 1e-8
        )
        # The multiplier follows from the rows of the Newton system, averaged where they are best conditioned.
        rest = right - hessian_vector(step_p) - barrier * step_p
        step_nu = (p * rest).sum(-1, keepdim=True)
        step_s = torch.where(allowed, sigma * mu * inverse - s - barrier * step_p, 0)
        length = torch.minimum(_longest(p, step_p), _longest(s, step_s))
        here, step = Point(p, nu, s), Point(step_p, step_nu, step_s)
        (p, nu, s), g, hessian_vector = _advance(omega, x, g, here, step, length, late, sigma * mu)
    return p


def _advance(
    omega: Omega, x: Tensor, g: Tensor, here: Point, step: Point, length: Tensor, late: Tensor, target: Tensor
) -> tuple[Point, Tensor, HessianVector]:
    """Takes the step in the rows that are late, halved until the optimality conditions are not violated much more."""
    allowed = here.p > 0

    def violation(g: Tensor, at: Point) -> Tensor:
        dual = torch.where(allowed, g + at.s - at.nu, 0)
        complement = torch.where(allowed, at.p * at.s - target, 0)
        # Dual residuals count by the weight they move, or a nearly empty position would block the step.
        return ((at.p * dual).abs() + complement.abs()).sum(-1, keepdim=True)

    before = violation(g, here)
    for attempt in range(8):
        moved = Point(*(torch.where(late, a + length * b, a) for a, b in zip(here, step)))
        moved = moved._replace(p=moved.p / moved.p.sum(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny))
        _, moved_g, hessian_vector = _derivatives(omega, x, moved.p)
        worse = violation(moved_g, moved) > 1.5 * before
        if attempt == 7 or not bool((worse & late).any()):
            break
        length = torch.where(worse, length / 2, length)
    return moved, moved_g, hessian_vector


def _longest(position: Tensor, step: Tensor) -> Tensor:
    """Returns the longest step up to 1 that keeps positions positive, with a margin."""
    falling = (step < 0) & (position > 0)
    ratio = torch.where(falling, -position / torch.where(falling, step, -1), torch.inf)
    return (0.99 * ratio.amin(-1, keepdim=True)).clamp(max=1)


def _polish(omega: Omega, x: Tensor, p: Tensor, allowed: Tensor, rtol: float) -> Tensor:
    """Makes small weights exactly zero where that is stable, and takes Newton steps on what is left.

    A step leaves each weight at least a tenth of itself: where the gradient of Ω is steep at zero (p^0.3), Newton's
    step from too large a weight would lead below zero, and a small weight must not shorten the step of the others.
    """
    _, g, _ = _derivatives(omega, x, p)
    nu = torch.where(p > 0, p * g, 0).sum(-1, keepdim=True)
    zero = allowed & (p < nu - g)  # the slack outweighs the weight
    trial = torch.where(zero, 0, p)
    trial = trial / trial.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    _, g, _ = _derivatives(omega, x, trial)
    nu = torch.where(trial > 0, trial * g, 0).sum(-1, keepdim=True)
    p = torch.where(zero & (g <= nu), 0, p)
    p = p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    _, g, hessian_vector = _derivatives(omega, x, p)
    before, gap = p, _gap(g, p, allowed, rtol)[0]
    error, mean = _stationarity(g, p, allowed)
    for _ in range(30):
        free = p > 0
        step = _face_step(hessian_vector, p, torch.where(free, g, 0))
        moved = torch.where(free, torch.maximum(p + step, 0.1 * p), p)
        moved = moved / moved.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        _, moved_g, _ = _derivatives(omega, x, moved)
        moved_error, moved_mean = _stationarity(moved_g, moved, allowed)
        floor = _gap(moved_g, moved, allowed, 8 * torch.finfo(p.dtype).eps)[1]
        # At the rounding floor a step is noise, and small weights must not get better at the cost of large ones.
        better = (moved_error < error) & (moved_mean <= torch.maximum(mean, floor))
        if not bool(better.any()):
            break
        p, error = torch.where(better, moved, p), torch.where(better, moved_error, error)
        mean = torch.where(better, moved_mean, mean)
        _, g, hessian_vector = _derivatives(omega, x, p)
    moved_gap, tolerance = _gap(g, p, allowed, rtol)
    return torch.where(moved_gap <= torch.maximum(gap, 0.1 * tolerance), p, before)


def _stationarity(g: Tensor, p: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Returns how far g is from ν on the support, or above it elsewhere: the maximum, and the mean by weight."""
    nu = torch.where(p > 0, p * g, 0).sum(-1, keepdim=True)
    error = torch.where(p > 0, (g - nu).abs(), torch.where(allowed, (g - nu).clamp(min=0), 0))
    most, mean = error.amax(-1, keepdim=True), (p * error).sum(-1, keepdim=True)
    return most.nan_to_num(torch.inf), mean.nan_to_num(torch.inf)


def _derivatives(omega: Omega, x: Tensor, p: Tensor) -> tuple[Tensor, Tensor, HessianVector]:
    """Returns the objective, its gradient g, and v → H v on the positive weights; zeros are moved just inside first."""
    with torch.enable_grad():
        inside = p.detach().clamp(min=torch.finfo(p.dtype).tiny).requires_grad_()
        value = omega(inside)
        if not value.requires_grad:
            raise ValueError(
                "Differentiable: fn must be differentiable in the weights, got a result that does not depend on them; "
                "compute it from its argument with PyTorch, without detaching"
            )
        (slope,) = torch.autograd.grad(value.sum(), inside, create_graph=True)

    def hessian_vector(v: Tensor) -> Tensor:
        if not slope.requires_grad:  # a linear Ω
            return torch.zeros_like(v)
        (product,) = torch.autograd.grad(slope, inside, v, retain_graph=True, allow_unused=True)
        return torch.zeros_like(v) if product is None else torch.where(p > 0, product, 0)

    objective = ((p * x).sum(-1) - value.detach()).unsqueeze(-1)
    return objective, x - slope.detach(), hessian_vector


def _gap(g: Tensor, p: Tensor, allowed: Tensor, rtol: float) -> tuple[Tensor, Tensor]:
    """Returns the gap and its tolerance: a few roundings of the largest gradient that has weight."""
    nu = torch.where(p > 0, p * g, 0).sum(-1, keepdim=True)
    best = torch.where(allowed, g, -torch.inf).amax(-1, keepdim=True)
    scale = torch.where(p > 1e-6, g.abs(), 0).amax(-1, keepdim=True)
    return (best - nu).nan_to_num(torch.inf, neginf=0).clamp(min=0), rtol * (1 + scale)


def _diagonal(hessian_vector: HessianVector, p: Tensor, free: Tensor) -> Tensor:
    """Estimates the diagonal of H: the root mean square of (H v)_i / v_i over four v = ± p.

    Each ratio is the diagonal itself where Ω is separable, and close to it after a low-rank addition. One of them may
    vanish by cancellation (H p is zero for a norm, and has zeros for many quadratic forms), four do not.
    """
    place = torch.arange(p.shape[-1], device=p.device)
    total = torch.zeros_like(p)
    for signs in (0 * place, place, place // 2, place * place // 3):
        v = torch.where(free, torch.where(signs % 2 == 0, p, -p), 0)
        total = torch.hypot(total, hessian_vector(v) / torch.where(free, p, 1))
    return total / 2


def _projected_cg(
    hessian_vector: HessianVector,
    barrier: Tensor,
    diagonal: Tensor,
    normal: float,
    free: Tensor,
    v: Tensor,
    rtol: float,
) -> Tensor:
    """Conjugate gradients for (H + diag(barrier)) y = v − ν a, a·y = 0 on the free set, with a = `normal`.

    The preconditioner is `diagonal`, that of H + barrier: it takes out the huge spread of an entropy's curvature 1/p.
    """
    usable = free & (diagonal > 0) & (diagonal < torch.inf)
    inverse = torch.where(usable, 1 / torch.where(usable, diagonal, 1), torch.where(free, 1.0, 0.0).to(v.dtype))
    slide = inverse * normal
    mass = (slide * normal).sum(-1, keepdim=True).clamp(min=torch.finfo(v.dtype).tiny)

    def centred(r: Tensor) -> Tensor:
        """Removes multiples of a, which only change the multiplier; their rounding would hide a small residual."""
        return torch.where(free, r - normal * ((slide * r).sum(-1, keepdim=True) / mass), 0)

    y = torch.zeros_like(v)
    r = centred(torch.where(free, v, 0))
    d = inverse * r
    rz = (inverse * r.square()).sum(-1, keepdim=True)
    goal = rz * rtol**2
    for _ in range(2 * v.shape[-1] + 10):
        hd = torch.where(free, hessian_vector(d) + barrier * d, 0)
        curvature = (d * hd).sum(-1, keepdim=True)
        going = (rz > goal) & (curvature > 0)
        if not bool(going.any()):
            break
        length = torch.where(going, rz / torch.where(going, curvature, 1), 0)
        y = y + length * d
        r = centred(r - length * hd)
        rz_new = (inverse * r.square()).sum(-1, keepdim=True)
        d = torch.where(going, inverse * r + rz_new / torch.where(going, rz, 1) * d, d)
        rz = torch.where(going, rz_new, rz)
    y = y - slide * ((normal * y).sum(-1, keepdim=True) / mass)  # what rounding added to a·y
    return torch.where(free, y, 0)
