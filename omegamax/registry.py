"""Names for the command line, configurations and plots: a string to a regularizer. Below there are no strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omegamax import checks
from omegamax.operators import Fused, GroupLasso, Hard, Oscar, Scaled, Shannon, SquaredNorm, SquaredPNorm, Tsallis
from omegamax.smoothmax import SmoothMax

OPERATORS: dict[str, Callable[..., SmoothMax]] = {
    "hardmax": Hard,
    "softmax": Shannon,
    "sparsemax": SquaredNorm,
    "entmax15": lambda: Tsallis(1.5),
    "entmax": Tsallis,
    "sqpnormmax": SquaredPNorm,
    "fusedmax": Fused,
    "oscarmax": Oscar,
    "groupmax": GroupLasso,
}


def regularizer(name: str, *, gamma: float = 1.0, **options: Any) -> SmoothMax:
    """The regularizer whose argmax has this name, e.g. `regularizer("fusedmax", strength=0.1)`."""
    if name not in OPERATORS:
        raise ValueError(f"regularizer: name must be one of {', '.join(OPERATORS)}, got {name!r}; choose one of these")
    checks.check_gamma("regularizer", gamma)
    smooth = OPERATORS[name](**options)
    return smooth if gamma == 1 else Scaled(smooth, gamma)


def lineup(columns: int, groups: Sequence[int] | None = None) -> dict[str, SmoothMax]:
    """One of each operator for a row of this many scores, for tables and pictures; groups of three by default."""
    groups = [position // 3 for position in range(columns)] if groups is None else groups
    return {
        "hardmax": Hard(),
        "softmax": Shannon(),
        "entmax15": Tsallis(1.5),
        "sparsemax": SquaredNorm(),
        "sqpnormmax": SquaredPNorm(1.5),
        "fusedmax": Fused(0.1),
        "oscarmax": Oscar(0.05),
        "groupmax": GroupLasso(groups, 0.4),
    }
