"""Fusedmax and oscarmax: section 3.2 of the paper, Proposition 2 and what follows from it.

    fusedmax   argmin over the simplex of ½‖y − x/γ‖² + λ Σ |y_{i+1} − y_i|
    oscarmax   argmin over the simplex of ½‖y − x/γ‖² + λ Σ_{i<j} max(y_i, y_j)

Both penalties are maxima of linear forms <v, y>, so any such v proves a lower bound, min_y ½‖y − z‖² + <v, y>, and a
point that reaches a bound is optimal: no other solver is needed to know what solves the problem.
"""

from __future__ import annotations

import torch
from torch import Tensor

import omegamax as om
from omegamax.kernels.oscarmax import default_strength
from omegamax.reproductions.claim import Outcome, Published, at_least, at_most, finds, near, same
from omegamax.reproductions.numerical_checks import largest, normal


def fused_objective(y: Tensor, z: Tensor, strength: float) -> Tensor:
    """Returns the objective that fusedmax minimises."""
    return 0.5 * (y - z).square().sum(-1) + strength * y.diff(dim=-1).abs().sum(-1)


def oscar_objective(y: Tensor, z: Tensor, strength: float) -> Tensor:
    """Returns the objective that oscarmax minimises on the simplex."""
    pairs = torch.maximum(y.unsqueeze(-1), y.unsqueeze(-2)).triu(1).sum((-2, -1))
    return 0.5 * (y - z).square().sum(-1) + strength * pairs


def _bound(z: Tensor, form: Tensor) -> Tensor:
    """Computes min over the simplex of ½‖y − z‖² + <form, y>, for a form that the penalty dominates."""
    y = om.project_simplex(z - form)
    return 0.5 * (y - z).square().sum(-1) + (form * y).sum(-1)


def proposition_2_fusedmax(published: Published) -> Outcome:
    """P_Δ(P_TV(x/γ)) solves the problem: a bound from the residual of P_TV proves it."""
    rows = []
    for gamma, strength in ((1.0, 0.1), (0.5, 0.1), (1.0, 0.6)):
        z = normal(500, 8) / gamma
        prox = om.prox_tv1d(z, strength)
        composed = om.project_simplex(prox)
        flow = (z - prox).cumsum(-1)[..., :-1]  # the residual is the divergence of a flow of at most λ
        gap = fused_objective(composed, z, strength) - _bound(z, z - prox)
        name = f"γ = {gamma:g}, λ = {strength:g}"
        rows.append(at_most(f"{name}: flow of the bound", strength, largest(flow)))
        rows.append(same(f"{name}: objective of the composition and a lower bound", largest(gap)))
        rows.append(
            same(f"{name}: the composition and om.fusedmax", largest(composed - om.fusedmax(z, strength=strength)))
        )
    return Outcome(rows)


def proposition_2_oscarmax(published: Published) -> Outcome:
    """P_Δ(P_OSC(x/γ)) is above the optimum of the problem in most draws."""
    example = torch.tensor([0.5, -0.5, 0.0], dtype=torch.float64)
    composed, exact = om.project_simplex(om.prox_oscar(example, 0.25)), om.oscarmax(example, strength=0.25)
    reached, possible = (float(y @ example - om.Oscar(0.25).omega(y)) for y in (composed, exact))
    rows = [near("<y, x> − Ω(y) of the composition, x = (0.5, −0.5, 0), λ = 0.25", possible, reached, 1e-9)]
    rows.append(
        finds(
            "its weights, and those that solve the problem",
            _row(exact),
            _row(composed),
            largest(exact - composed) < 1e-9,
        )
    )
    for strength in (0.1, 0.01):
        z = normal(10_000, 6)
        exact = om.oscarmax(z, strength=strength)
        gap = oscar_objective(exact, z, strength) - _bound(z, _oscar_form(z, strength))
        rows.append(same(f"λ = {strength:g}: objective of om.oscarmax and a lower bound", largest(gap)))
        composed = om.project_simplex(om.prox_oscar(z, strength))
        above = oscar_objective(composed, z, strength) - oscar_objective(exact, z, strength)
        rows.append(
            near(
                f"λ = {strength:g}: suboptimal draws of 10 000, d = 6 (%)",
                0,
                100 * float((above > 1e-9).double().mean()),
                0,
            )
        )
    z = normal(1000, 6) + 10
    composed = om.project_simplex(om.prox_oscar(z, 0.1))
    rows.append(
        same(
            "where all scores are far above 0: composition and om.oscarmax",
            largest(composed - om.oscarmax(z, strength=0.1)),
        )
    )
    return Outcome(rows)


def _oscar_form(z: Tensor, strength: float) -> Tensor:
    """Returns the linear form of the bound: λ(d − 1, ..., 0) in the order of the scores, averaged over pools.

    Averages of permutations of (d − 1, ..., 0) are dominated by the penalty.
    """
    d = z.shape[-1]
    order = z.argsort(-1, descending=True)
    tilt = strength * torch.arange(d - 1, -1, -1, dtype=z.dtype)
    ordered = z.gather(-1, order)
    pooled = om.isotonic_regression(ordered - tilt, increasing=False)
    return torch.empty_like(z).scatter_(-1, order, ordered - pooled)


def _row(weights: Tensor) -> str:
    return "(" + ", ".join(f"{weight:.4f}" for weight in weights.tolist()) + ")"


def not_in_general(published: Published) -> Outcome:
    """Composing proximal operators fails for the group lasso, and for fusedmax in the other order."""
    z, groups = normal(2000, 6), [0, 0, 1, 1, 2, 2]
    smooth = om.GroupLasso(groups, 0.3)
    composed = om.project_simplex(om.prox_group(z, groups, 0.3))
    below = smooth.max(z) - ((composed * z).sum(-1) - smooth.omega(composed))
    turned = om.prox_tv1d(om.sparsemax(z), 0.1)
    above = fused_objective(turned, z, 0.1) - fused_objective(om.fusedmax(z, strength=0.1), z, 0.1)
    shares = [float((gap > 1e-9).double().mean()) for gap in (below, above)]
    return Outcome(
        [
            at_least("P_Δ ∘ prox of the group lasso: share of suboptimal draws", 0.01, shares[0]),
            at_least("P_TV ∘ P_Δ instead of P_Δ ∘ P_TV: share of suboptimal draws", 0.01, shares[1]),
        ]
    )


def groups_of_fusedmax(published: Published) -> Outcome:
    """Each run of equal neighbours in P_TV(x) is shifted by one number, or set to zero."""
    z = normal(1000, 9)
    prox, weights = om.prox_tv1d(z, 0.2), om.fusedmax(z, strength=0.2)
    shift = (prox - weights).masked_fill(weights == 0, torch.nan).nanmedian(-1, keepdim=True).values
    joined = prox.diff(dim=-1) == 0
    return Outcome(
        [
            same("weights and max(P_TV(x) − θ, 0)", largest(weights - (prox - shift).clamp(min=0))),
            near(
                "neighbours joined by P_TV whose weights differ",
                0,
                float((joined & (weights.diff(dim=-1) != 0)).sum()),
                0,
            ),
            at_least("neighbours joined by P_TV", 1, float(joined.sum())),
        ]
    )


def groups_of_oscarmax(published: Published) -> Outcome:
    """Groups of P_OSC are of equal *absolute* value: with both signs they have no common value to shift."""
    x = torch.tensor([0.5, -0.5, 0.0], dtype=torch.float64)
    prox = om.prox_oscar(x, 0.25)
    weights = om.project_simplex(prox)
    said = f"{weights[0]:.4f} and {weights[1]:.4f}"
    rows = [
        finds(
            "x = (0.5, −0.5, 0), λ = 0.25: weights of the group of 1 and 2",
            "one value",
            said,
            bool(weights[0] == weights[1]),
        )
    ]
    z = normal(2000, 6)
    prox = om.prox_oscar(z, 0.1)
    weights = om.project_simplex(prox)
    together = (prox.abs().unsqueeze(-1) == prox.abs().unsqueeze(-2)) & (prox != 0).unsqueeze(-1)
    torn = (together & ((weights.unsqueeze(-1) - weights.unsqueeze(-2)).abs() > 1e-9)).any((-2, -1))
    rows.append(near("draws of 2000 (d = 6, λ = 0.1) with a group torn apart", 0, float(torn.sum()), 0))
    return Outcome(rows)


def strengths(published: Published) -> Outcome:
    """As λ grows, fusedmax and oscarmax go from sparsemax to one group of all positions."""
    z, rows = normal(300, 8), []
    for name, operator, path in (
        ("fusedmax", om.fusedmax, (0.0, 0.1, 0.3, 1.0, 100.0)),
        ("oscarmax", om.oscarmax, (0.0, 0.01, 0.1, 0.3, 100.0)),
    ):
        levels = [_levels(operator(z, strength=strength)) for strength in path]
        said = ", ".join(f"{level:.2f}" for level in levels)
        rows.append(same(f"{name}, λ = 0 and sparsemax", largest(operator(z, strength=0.0) - om.sparsemax(z))))
        rows.append(same(f"{name}, λ = 100 and uniform weights", largest(operator(z, strength=100.0) - 1 / 8)))
        at = ", ".join(f"{strength:g}" for strength in path)
        rows.append(
            finds(
                f"{name}: different weights above 0 per row at λ = {at}",
                "falls",
                said,
                levels == sorted(levels, reverse=True),
            )
        )
    return Outcome(rows)


def _levels(weights: Tensor) -> float:
    """Returns the mean number of different positive weights in a row."""
    return sum(row[row > 0].unique().numel() for row in weights) / len(weights)


def segments(published: Published) -> Outcome:
    """Figure 1 in words: zeros are exact, and only fusedmax gives neighbours equal weights."""
    scores, rows = normal(2000, 16), []
    for name, weights in (
        ("softmax", om.softmax(scores)),
        ("sparsemax", om.sparsemax(scores)),
        ("fusedmax", om.fusedmax(scores)),
    ):
        zeros = int((weights == 0).sum())
        equal = int(((weights.diff(dim=-1) == 0) & (weights[:, 1:] > 0)).sum())
        error = largest(weights.sum(-1) - 1)
        rows.append(same(f"{name}: sum of a row and 1", error))
        rows.append(
            finds(
                f"{name}: weights of exactly 0",
                "never" if name == "softmax" else "yes",
                str(zeros),
                (zeros == 0) == (name == "softmax"),
            )
        )
        rows.append(
            finds(
                f"{name}: neighbours of equal weight above 0",
                "yes" if name == "fusedmax" else "never",
                str(equal),
                (equal > 0) == (name == "fusedmax"),
            )
        )
    return Outcome(rows)


def defaults(published: Published) -> Outcome:
    """The defaults are γ = 1, p = 1.5 and the two λ of the paper."""
    ours = {
        "fusedmax λ": om.Fused().strength,
        "oscarmax λ": default_strength(100),
        "sq-pnorm-max p": om.SquaredPNorm().p,
    }
    ours["γ"] = om.Scaled(om.Hard()).gamma
    return Outcome([near(name, value, float(ours[name]), 0) for name, value in published.items()])
