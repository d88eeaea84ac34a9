"""Operators on rows: entmax at the edges of its order, rows of −inf, and what oscarmax maximises."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional, proximal
from omegamax.compat import entmax as ours
from omegamax.operators.oscar import Oscar
from omegamax.reproductions.upstream.case import Finding, find


def _shown(row: Tensor) -> str:
    return "[" + ", ".join(f"{float(entry):.4f}" for entry in row.detach()) + "]"


def entmax_at_one() -> list[Finding]:
    """The scores of the report, and the derivative of the largest weight in α, whose limit is known."""
    scores = torch.tensor([0.0, 0.0, 1.0])
    softmax = scores.softmax(-1)
    p = scores.double().softmax(-1)
    log = p.log()
    limit = float(-0.5 * p[2] * (log[2].square() - (p * log.square()).sum()))  # as α goes to 1

    def theirs(alpha: float) -> Tensor:
        from entmax import entmax_bisect

        return entmax_bisect(scores, alpha)

    def slope(package: str) -> float:
        if package == "entmax":
            from entmax import entmax_bisect as function
        else:
            function = ours.entmax_bisect
        alpha = torch.tensor(1.0001, requires_grad=True)
        function(scores, alpha)[2].backward()
        return float(alpha.grad)  # type: ignore[arg-type]

    return [
        find(
            "α = 1",
            _shown(softmax),
            lambda: theirs(1.0),
            lambda: ours.entmax_bisect(scores, 1.0),
            lambda row: torch.allclose(row, softmax, atol=1e-5),
            _shown,
        ),
        find(
            "∂p₃/∂α at α = 1.0001, float32",
            f"{limit:.4f}",
            lambda: slope("entmax"),
            lambda: slope("omegamax"),
            lambda found: abs(found - limit) < 1e-3,
            lambda found: f"{found:.4f}",
        ),
    ]


def entmax_large_alpha() -> list[Finding]:
    """Weights of (x, 0) for growing x at α = 10, in float32: how often they decrease."""
    grid = torch.linspace(-0.2, 0.2, 2001)
    rows = torch.stack([grid, torch.zeros_like(grid)], -1)

    def drops(weights: Tensor) -> int:
        return int((weights[:, 0].diff() < 0).sum())

    def theirs() -> int:
        from entmax import entmax_bisect

        return drops(entmax_bisect(rows, 10.0))

    return [
        find("decreases among 2000 steps", "0", theirs, lambda: drops(ours.entmax_bisect(rows, 10.0)), lambda n: n == 0)
    ]


def entmax_nothing_allowed() -> list[Finding]:
    """The second row has nothing."""
    rows = torch.tensor([[0.0, 1.0], [-torch.inf, -torch.inf]])

    def theirs() -> Tensor:
        from entmax import entmax15

        return entmax15(rows)[1]

    return [
        find(
            "weights", "[0.0000, 0.0000]", theirs, lambda: ours.entmax15(rows)[1], lambda row: (row == 0).all(), _shown
        )
    ]


def entmax_ignore_index() -> list[Finding]:
    """The second target is −1, which is to be ignored."""
    rows, target = torch.tensor([[0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, -1])
    alone = float(ours.entmax15_loss(rows[:1], target[:1]))

    def theirs() -> float:
        from entmax import Entmax15Loss

        return float(Entmax15Loss(ignore_index=-1)(rows, target))

    return [
        find(
            "mean loss",
            f"{alone:.4f}",
            theirs,
            lambda: float(ours.Entmax15Loss(ignore_index=-1)(rows, target)),
            lambda found: abs(found - alone) < 1e-6,
            lambda found: f"{found:.4f}",
        )
    ]


def oscarmax_optimality() -> list[Finding]:
    """A thousand normal rows: how often the objective is worse than at the exact solution."""
    rows = torch.randn(1000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    strength = 0.1

    def objective(weights: Tensor) -> Tensor:
        return (weights * rows).sum(-1) - Oscar(strength).omega(weights)

    best = objective(functional.oscarmax(rows, strength=strength))

    def worse(weights: Tensor) -> int:
        return int((objective(weights) < best - 1e-9).sum())

    return [
        find(
            "rows of 1000 with a better point",
            "0",
            lambda: worse(proximal.project_simplex(proximal.prox_oscar(rows, strength))),
            lambda: worse(functional.oscarmax(rows, strength=strength)),
            lambda n: n == 0,
        )
    ]
