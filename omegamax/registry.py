"""Finds regularizers by name, for the command line, configurations and plots. Modules below this one take no names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegamax import checks, operators
from omegamax.operator_table import OPERATORS as OPERATORS
from omegamax.operator_table import TABLE, OperatorFacts
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax


def regularizer(name: str, *, gamma: float = 1.0, **options: Any) -> SmoothMax:
    """Makes the regularizer whose argmax has this name, e.g. `regularizer("fusedmax", strength=0.1)`."""
    if name not in OPERATORS:
        raise ValueError(f"regularizer: name must be one of {', '.join(OPERATORS)}, got {name!r}; choose one of these")
    checks.check_gamma("regularizer", gamma)
    smooth = _build(OPERATORS[name], options)
    return smooth if gamma == 1 else Scaled(smooth, gamma)


def _build(facts: OperatorFacts, options: dict[str, Any]) -> SmoothMax:
    fixed = {} if facts.parameter is None or facts.fixed is None else {facts.parameter.name: facts.fixed}
    return getattr(operators, facts.regularizer)(**fixed, **options)


def lineup(columns: int, groups: Sequence[int] | None = None) -> dict[str, SmoothMax]:
    """Makes one of each operator for a row of this many scores, for tables and pictures; groups of three by default."""
    groups = [position // 3 for position in range(columns)] if groups is None else groups
    found = {}
    for facts in TABLE:
        if facts.is_listed:
            options: dict[str, Any] = {"groups": groups} if facts.grouped else {}
            if facts.parameter is not None and facts.in_lineups is not None:
                options[facts.parameter.name] = facts.in_lineups
            found[facts.function] = _build(facts, options)
    return found
