"""The smoothed maximum and its gradient: section 2 of the paper on the regularized framework."""

from __future__ import annotations

import math

import torch

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, at_least, at_most, finds, near, same, short
from omegamax.reproductions.numerical_checks import differences, far_from_kinks, largest, normal, on_simplex

_LINEUP: dict[str, om.SmoothMax] = {
    "softmax": om.Shannon(),
    "sparsemax": om.SquaredNorm(),
    "sq-pnorm-max": om.SquaredPNorm(1.5),
    "fusedmax": om.Fused(0.1),
    "oscarmax": om.Oscar(0.05),
}


def maximum(published: Published) -> Outcome:
    """The supremum of a linear form over the simplex is at a corner; its argument jumps."""
    scores, points = normal(50, 6), on_simplex(2000, 6)
    best = om.hardmax(scores)
    t = torch.tensor([[-1e-9, 0.0], [1e-9, 0.0]], dtype=torch.float64)
    step = om.hardmax(t)[:, 0]
    corner = bool(((best == 0) | (best == 1)).all() and (best.sum(-1) == 1).all())
    return Outcome(
        [
            same("max(x) − <argmax(x), x>", largest(scores.amax(-1) - (best * scores).sum(-1))),
            finds("argmax(x) is a corner e_i", "always", "in all of 50 draws" if corner else "not always", corner),
            at_most("<y, x> − max(x) at 2000 points y", 0, float((points @ scores.T - scores.amax(-1)).max())),
            near("jump of Π([t, 0])₁ at t = 0 (Heaviside)", 1, float(step[1] - step[0]), 0),
        ]
    )


def conjugate(published: Published) -> Outcome:
    """max*(y) = sup_x <y, x> − max(x): 0 on the simplex, infinite elsewhere."""
    scores = torch.cat([normal(500, 4, scale=3), torch.zeros(1, 4, dtype=torch.float64)])
    inside = on_simplex(200, 4) @ scores.T - scores.amax(-1)  # one row for each y
    rows = [near("sup over x, y on the simplex (200 points)", 0, largest(inside.amax(-1)), 1e-12)]
    outside = {
        "y = (0.5, 0.6), sum above 1": ([0.5, 0.6], [1.0, 1.0]),
        "y = (0.5, 0.4), sum below 1": ([0.5, 0.4], [-1.0, -1.0]),
        "y = (1.2, −0.2), an entry below 0": ([1.2, -0.2], [0.0, -1.0]),
    }
    for name, (y, towards) in outside.items():
        direction = torch.tensor(towards, dtype=torch.float64)
        grows = [float(torch.tensor(y).double() @ (s * direction) - (s * direction).max()) for s in (1e2, 1e4, 1e6)]
        said = ", ".join(f"{value:g}" for value in grows)
        rows.append(
            finds(f"{name}: at 10², 10⁴, 10⁶ along a ray", "∞", said, grows[0] > 0 and grows[2] > 1e3 * grows[0])
        )
    return Outcome(rows)


def gradient_map(published: Published) -> Outcome:
    """Π_Ω = ∇ max_Ω, by differences of max_Ω."""
    rows = []
    for name, smooth in _LINEUP.items():
        error = max(
            largest(differences(smooth.max, x) - smooth.argmax(x)) for x in far_from_kinks(smooth.argmax, normal(20, 5))
        )
        rows.append(same(f"{name}: ∇max_Ω and Π_Ω", error, 1e-7))
    return Outcome(rows)


def smoothness(published: Published) -> Outcome:
    """‖Π_Ω(x) − Π_Ω(y)‖ ≤ ‖x − y‖_* / (γβ), for every pair; and nothing of the kind without strong convexity."""
    rows = []
    cases = {
        "softmax, 1-norm and ∞-norm": (om.Shannon(), 1.0, 1.0),
        "sparsemax, 2-norm": (om.SquaredNorm(), 2.0, 1.0),
        "sq-pnorm-max, p = 1.5 and q = 3": (om.SquaredPNorm(1.5), 1.5, 0.5),
        "fusedmax, 2-norm": (om.Fused(0.1), 2.0, 1.0),
        "oscarmax, 2-norm": (om.Oscar(0.05), 2.0, 1.0),
    }
    for name, (smooth, order, beta) in cases.items():
        for gamma in (1.0, 0.5):
            steepest = _steepest(om.Scaled(smooth, gamma), order)
            rows.append(at_most(f"{name}, γ = {gamma:g}: steepest Π_Ω", 1 / (gamma * beta), steepest, 1e-6))
    beside = torch.tensor([[-1e-9, 0.0], [1e-9, 0.0]], dtype=torch.float64)
    jump = torch.linalg.vector_norm(om.hardmax(beside).diff(dim=0)) / torch.linalg.vector_norm(beside.diff(dim=0))
    rows.append(at_least("without Ω: steepest Π, 10⁻⁹ to both sides of a tie", 1e8, float(jump)))
    return Outcome(rows)


def _steepest(smooth: om.SmoothMax, order: float) -> float:
    """Returns the largest ratio of distances over pairs near and far; `order` is that of the norm of weights."""
    dual = math.inf if order == 1 else order / (order - 1)
    x = torch.cat([normal(3000, 3), torch.zeros(1, 3, dtype=torch.float64)])
    steepest = 0.0
    for distance in (1e-7, 1e-2, 1.0):
        move = distance * torch.cat([normal(3000, 3, seed=1), torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float64)])
        moved = smooth.argmax(x + move) - smooth.argmax(x)
        ratio = torch.linalg.vector_norm(moved, order, -1) / torch.linalg.vector_norm(move, dual, -1)
        steepest = max(steepest, float(ratio.max()))
    return steepest


def softmax(published: Published) -> Outcome:
    """Ω the negative entropy: γ log-sum-exp(x/γ), and the softmax of temperature γ."""
    scores, rows = normal(100, 7, scale=3), []
    for gamma in (1.0, 0.3):
        smooth = om.Scaled(om.Shannon(), gamma)
        rows.append(
            same(
                f"γ = {gamma}: max_Ω and γ log Σ exp(x/γ)",
                largest(smooth.max(scores) - gamma * torch.logsumexp(scores / gamma, -1)),
            )
        )
        rows.append(
            same(
                f"γ = {gamma}: Π_Ω and exp(x/γ) / Σ exp(x/γ)",
                largest(smooth.argmax(scores) - (scores / gamma).softmax(-1)),
            )
        )
    t = torch.linspace(-6, 6, 121, dtype=torch.float64)
    pairs = torch.stack([t, torch.zeros_like(t)], -1)
    rows.append(
        same("max_Ω([t, 0]) and softplus(t)", largest(om.Shannon().max(pairs) - torch.nn.functional.softplus(t)))
    )
    rows.append(same("Π_Ω([t, 0])₁ and sigmoid(t)", largest(om.softmax(pairs)[:, 0] - t.sigmoid())))
    return Outcome(rows)


def sparsemax(published: Published) -> Outcome:
    """Ω = ½‖y‖²: the Euclidean projection of x/γ; the smaller γ, the sparser."""
    scores, points = normal(200, 10), on_simplex(5000, 10)
    rows = []
    for gamma in (1.0, 0.4):
        ours = om.sparsemax(scores, gamma=gamma)
        rows.append(
            same(f"γ = {gamma:g}: Π_Ω(x) and the projection, by bisection", largest(ours - _projected(scores / gamma)))
        )
        nearer = torch.cdist(scores / gamma, points).amin(-1) - (ours - scores / gamma).norm(dim=-1)
        rows.append(at_least(f"γ = {gamma:g}: how much farther 5000 other points are", 0, float(nearer.min())))
    sizes = [float((om.sparsemax(scores, gamma=gamma) > 0).sum(-1).double().mean()) for gamma in (4.0, 1.0, 0.25, 0.05)]
    said = ", ".join(f"{size:.2f}" for size in sizes)
    rows.append(
        finds("mean support of 10 at γ = 4, 1, 0.25, 0.05", "falls with γ", said, sizes == sorted(sizes, reverse=True))
    )
    dense = float((om.softmax(scores) == 0).sum())
    rows.append(near("zeros of softmax", 0, dense, 0))
    return Outcome(rows)


def _projected(rows: torch.Tensor) -> torch.Tensor:
    """Projects onto the simplex by bisection for τ in Σ max(x − τ, 0) = 1, which shares no code with ours."""
    high = rows.amax(-1, keepdim=True)
    low = high - 1
    for _ in range(100):
        middle = (low + high) / 2
        too_much = (rows - middle).clamp(min=0).sum(-1, keepdim=True) > 1
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    return (rows - (low + high) / 2).clamp(min=0)


def figure_2(published: Published) -> Outcome:
    """max_Ω([t, 0]) looks like a ReLU, and Π_Ω([t, 0])₁ like a sigmoid."""
    t = torch.linspace(-4, 4, 801, dtype=torch.float64)
    pairs, corner = torch.stack([t, torch.zeros_like(t)], -1), torch.tensor([1.0, 0.0], dtype=torch.float64)
    rows = []
    for name, smooth in _LINEUP.items():
        if name == "oscarmax":
            continue
        weight, value = smooth.argmax(pairs)[:, 0], smooth.max(pairs) + smooth.omega(corner)
        above = float((value - t.clamp(min=0)).abs()[[0, -1]].max())
        rows.append(near(f"{name}: max_Ω([±4, 0]) + constant − max", 0, above, 0.02))
        rises = bool((weight.diff() >= -1e-12).all()) and abs(float(weight[400]) - 0.5) < 1e-12
        rows.append(finds(f"{name}: Π_Ω([t, 0])₁", "rises, ½ at 0", "rises, ½ at 0" if rises else "does not", rises))
        reached = t[weight == 1]
        where = f"from t = {short(float(reached[0]))}" if reached.numel() else "never"
        rows.append(
            finds(
                f"{name}: exactly 1",
                "never" if name == "softmax" else "yes",
                where,
                bool(reached.numel()) != (name == "softmax"),
            )
        )
    equal = largest(om.fusedmax(pairs, strength=0.1) - om.oscarmax(pairs, strength=0.2))
    rows.append(same("fusedmax(λ) and oscarmax(2λ) in two dimensions", equal))

    def draw() -> object:
        from omegamax import plots

        return plots.figure2()

    return Outcome(rows, draw)
