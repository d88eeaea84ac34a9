"""Jacobians of Π_Ω: section 2.3, Proposition 1 and Proposition 3 of the paper, against differences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, Row, finds, near, same
from omegamax.reproductions.numerical_checks import differences, far_from_kinks, largest, normal, on_simplex


def sparsemax(published: Published) -> Outcome:
    """The Jacobian of sparsemax is (diag(s) − s sᵀ/‖s‖₁)/γ, where s marks the support."""
    rows = []
    for gamma in (1.0, 0.5):
        error = 0.0
        for x in far_from_kinks(om.sparsemax, normal(30, 6)):
            formula = _projection(om.sparsemax(x, gamma=gamma)) / gamma
            error = max(error, largest(formula - differences(lambda row: om.sparsemax(row, gamma=gamma), x)))  # noqa: B023
        rows.append(same(f"γ = {gamma:g}: formula and differences, d = 6", error, 1e-7))
    return Outcome(rows)


def _projection(weights: Tensor) -> Tensor:
    """Returns the Jacobian of the projection onto the simplex at a projected point."""
    support = (weights > 0).to(weights)
    return torch.diag(support) - torch.outer(support, support) / support.sum()


def at_kinks(published: Published) -> Outcome:
    """At [1, 0] sparsemax bends; any mean of the Jacobians beside it may be taken (Clarke)."""
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)
    move = torch.tensor([1e-6, 0.0], dtype=torch.float64)
    below, above = (differences(om.sparsemax, x + side * move, 1e-7) for side in (-1, 1))
    ours = torch.autograd.functional.jacobian(om.sparsemax, x)
    share = float(ours[0, 0] / below[0, 0])
    return Outcome(
        [
            near("slope of Π₁ below the kink", 0.5, float(below[0, 0]), 1e-6),
            near("slope of Π₁ above the kink", 0.0, float(above[0, 0]), 1e-6),
            finds("share of the one below in our derivative at the kink", "in [0, 1]", f"{share:.2f}", 0 <= share <= 1),
            same("our derivative and that mean", largest(ours - share * below - (1 - share) * above), 1e-6),
        ]
    )


def proposition_1(published: Published) -> Outcome:
    """(I + A(B − I)) J = A with A the projection's Jacobian at y* − γ∇Ω(y*) + x and B = γ H_Ω(y*)."""
    rows = []
    family = {
        "negative entropy": (om.Shannon(), lambda y: torch.special.xlogy(y, y).sum()),
        "½‖y‖²": (om.SquaredNorm(), lambda y: 0.5 * y.square().sum()),
        "½‖y‖_p², p = 1.5": (om.SquaredPNorm(1.5), lambda y: 0.5 * y.pow(1.5).sum().pow(4 / 3)),
        "Tsallis, α = 1.5": (om.Tsallis(1.5), lambda y: (y.pow(1.5).sum() - 1) / 0.75),
    }
    for name, (smooth, omega) in family.items():
        for gamma in (1.0, 0.7):
            scaled = om.Scaled(smooth, gamma)
            solved = fixed = 0.0
            for x in far_from_kinks(scaled.argmax, normal(12, 5, scale=0.6)):
                solved, fixed = (max(pair) for pair in zip((solved, fixed), _by_proposition_1(scaled, omega, gamma, x)))
            rows.append(same(f"{name}, γ = {gamma:g}: J of the system and differences", solved, 1e-5))
            rows.append(same(f"{name}, γ = {gamma:g}: y* and P(y* − γ∇Ω(y*) + x)", fixed, 1e-8))
    return Outcome(rows)


def _by_proposition_1(
    smooth: om.SmoothMax, omega: Callable[[Tensor], Tensor], gamma: float, x: Tensor
) -> tuple[float, float]:
    """Returns the distance of the solution of the system from differences, and of y* from its fixed point.

    Ω has infinite slopes at zero for some members; there the weights are zero, A's rows and columns vanish, and a
    point just inside stands for the limit.
    """
    weights = smooth.argmax(x)
    inside = weights.clamp(min=1e-12)
    slope = torch.autograd.functional.jacobian(omega, inside)
    curvature = torch.autograd.functional.hessian(omega, inside)
    point = weights - gamma * slope + x
    landed = om.project_simplex(point)
    a, identity = _projection(landed), torch.eye(x.numel(), dtype=x.dtype)
    jacobian = torch.linalg.solve(identity + a @ (gamma * curvature - identity), a)
    return largest(jacobian - differences(smooth.argmax, x)), largest(landed - weights)


def squared_p_norms(published: Published) -> Outcome:
    """∇Ω and H_Ω = diag(d) + u uᵀ of ½‖y‖_p² on the simplex, and p = 2."""
    rows = []
    for p in (1.1, 1.5, 1.9):
        gradient = hessian = 0.0
        for y in on_simplex(10, 5):
            norm = y.pow(p).sum().pow(1 / p)
            d = (p - 1) / norm ** (p - 2) * y ** (p - 2)
            u = ((2 - p) / norm ** (2 * p - 2)) ** 0.5 * y ** (p - 1)

            def omega(y: Tensor, p: float = p) -> Tensor:
                return 0.5 * y.pow(p).sum().pow(2 / p)

            slope = y ** (p - 1) / norm ** (p - 2)
            gradient = max(gradient, largest(slope - torch.autograd.functional.jacobian(omega, y)))
            curvature = torch.diag(d) + torch.outer(u, u)
            hessian = max(hessian, largest((curvature - torch.autograd.functional.hessian(omega, y)) / curvature))
        rows.append(same(f"p = {p}: ∇Ω and automatic differentiation", gradient))
        rows.append(same(f"p = {p}: H_Ω and automatic differentiation (relative)", hessian))
    scores = normal(200, 8)
    rows.append(same("p = 2 and sparsemax", largest(om.sqpnormmax(scores, p=2.0) - om.sparsemax(scores))))
    share = float((om.sqpnormmax(scores, p=1.5) == 0).double().mean())
    rows.append(finds("weights of exactly zero at p = 1.5", "some", f"{100 * share:.0f} %", share > 0))
    bend = {p: _bend(p) for p in (2.0, 1.5)}
    said = f"{bend[2.0]:.2f} and {bend[1.5]:.2f}"
    rows.append(
        finds(
            "fall of the slope of Π([t, 0])₁ within 0.001 of t = 1, p = 2 and 1.5",
            "smoother at 1.5",
            said,
            bend[1.5] < 0.2 * bend[2.0],
        )
    )
    return Outcome(rows)


def _bend(p: float) -> float:
    t = torch.tensor([0.999, 1.001], dtype=torch.float64)
    pairs = torch.stack([t, torch.zeros_like(t)], -1)
    before, after = (differences(lambda row: om.sqpnormmax(row, p=p), pair, 1e-6)[0, 0] for pair in pairs)
    return float(before - after)


def printed_p_norm(published: Published) -> Outcome:
    """Computes both sides of the display ½‖y‖_p² = (Σ y_i^p)^(2/p) at y = (½, ½), p = 1.5."""
    y = torch.tensor([0.5, 0.5], dtype=torch.float64)
    right = float(y.pow(1.5).sum().pow(2 / 1.5))
    left = 0.5 * float(torch.linalg.vector_norm(y, 1.5)) ** 2
    return Outcome(
        [
            near("½‖y‖_p² and (Σ y_i^p)^(2/p) at (½, ½)", right, left, 1e-9),
            near("½ (Σ y_i^p)^(2/p)", left, right / 2, 1e-9),
        ]
    )


def proposition_3(published: Published) -> Outcome:
    """The Jacobians of both proximal operators are means over groups, with signs for OSCAR."""
    rows = []
    for strength in (0.1, 0.5):
        for name, prox, jacobian in (
            ("P_TV", lambda row: om.prox_tv1d(row, strength), _contiguous),  # noqa: B023
            ("P_OSC", lambda row: om.prox_oscar(row, strength), _by_size),  # noqa: B023
        ):
            kept = far_from_kinks(prox, normal(30, 6))
            error = max(largest(jacobian(prox(x)) - differences(prox, x)) for x in kept)
            rows.append(same(f"{name}, λ = {strength:g}: formula and differences ({len(kept)} rows)", error, 1e-7))
    return Outcome(rows)


def _contiguous(z: Tensor) -> Tensor:
    """Returns the matrix with 1/|G_i| inside runs of equal neighbours."""
    run = torch.cat([z.new_zeros(1), (z.diff() != 0).to(z)]).cumsum(0)
    together = (run.unsqueeze(-1) == run).to(z)
    return together / together.sum(-1, keepdim=True)


def _by_size(z: Tensor) -> Tensor:
    """Returns sign(z_i z_j)/|G_i| among entries of equal absolute value, and 0 where that value is 0."""
    together = (z.abs().unsqueeze(-1) == z.abs()).to(z)
    return torch.outer(z.sign(), z.sign()) * together / together.sum(-1, keepdim=True)


def chain_rule_fusedmax(published: Published) -> Outcome:
    """J of fusedmax = J of the projection · J of P_TV, over γ."""
    return Outcome([_chain_rule("fusedmax", gamma, 0.1) for gamma in (1.0, 0.5)])


def chain_rule_oscarmax(published: Published) -> Outcome:
    """J of oscarmax = J of the projection · J of P_OSC, over γ, against differences of oscarmax's own problem."""
    return Outcome([_chain_rule("oscarmax", gamma, 0.1) for gamma in (1.0, 0.5)])


def _chain_rule(name: str, gamma: float, strength: float) -> Row:
    prox, groups = (om.prox_tv1d, _contiguous) if name == "fusedmax" else (om.prox_oscar, _by_size)
    exact = om.fusedmax if name == "fusedmax" else om.oscarmax

    def solve(row: Tensor) -> Tensor:
        return exact(row, gamma=gamma, strength=strength)

    wrong = worst = 0.0
    kept = far_from_kinks(solve, normal(60, 6))
    for x in kept:
        z = prox(x / gamma, strength)
        chained = _projection(om.project_simplex(z)) @ groups(z) / gamma
        error = largest(chained - differences(solve, x))
        wrong, worst = wrong + (error > 1e-6), max(worst, error)
    return same(f"γ = {gamma:g}: chain rule and differences (off in {wrong:.0f} of {len(kept)} rows)", worst, 1e-6)
