"""Which Ω may smooth a recursion, and at which temperature: DP_{γΩ}(θ) = γ DP_Ω(θ/γ)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.differentiation import marginals_of, value_of
from omegamax.inference.program import Parts, Program
from omegamax.operator_table import regularizers
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.problem import Problem, is_mild
from omegamax.wrong_kinds import instead_of, kind_of


class Smoothing(NamedTuple):
    """An Ω for the recursion, and its temperature."""

    regularizer: Regularizer
    gamma: float | Tensor


def smoothing_of(who: str, regularizer: SmoothMax) -> Smoothing:
    """Takes the temperature off a regularizer, and checks that a recursion can use what is left."""
    gamma: float | Tensor = 1.0
    while isinstance(regularizer, Scaled):
        gamma, regularizer = gamma * regularizer.gamma, regularizer.inner
    if not isinstance(regularizer, Regularizer):
        named = ", and give numbers by their names" if isinstance(regularizer, int) else ""
        raise TypeError(
            f"{who}: regularizer must be a Regularizer, got {kind_of(regularizer)}; "
            f"{instead_of(regularizer, 'om.Shannon()')}{named}"
        )
    if not regularizer.symmetric:
        raise ValueError(
            f"{who}: regularizer must not depend on the order of its row, got {type(regularizer).__name__}; "
            f"use {' or '.join(regularizers(symmetric=True))}"
        )
    for parameter in (*regularizer.parameters(), *([gamma] if isinstance(gamma, Tensor) else [])):
        if parameter.numel() != 1:
            raise ValueError(
                f"{who}: a learnable parameter of the regularizer must be a single number, got shape "
                f"{tuple(parameter.shape)}; one Ω smooths the whole recursion"
            )
    return Smoothing(regularizer, gamma)


def count_samples(who: str, regularizer: Any, n_samples: int | None) -> tuple[SmoothMax, int]:
    """Reads Ω and the number of samples, which may stand in the place of Ω, as in `topk`: Ω is then Shannon."""
    if isinstance(regularizer, int) and not isinstance(regularizer, bool):
        if n_samples is not None:
            raise TypeError(
                f"{who}: the number of samples must be given once, got {regularizer} and n_samples={n_samples}; leave "
                "one of them out"
            )
        regularizer, n_samples = Shannon(), regularizer
    found = 1 if n_samples is None else n_samples
    checks.check_count(who, "n_samples", found)
    return regularizer, found


def smoothed_value(problem: Problem, smoothing: Smoothing) -> Tensor:
    """Computes DP_Ω, (batch,), differentiable in the parts and in the parameters of Ω."""
    if not isinstance(smoothing.gamma, Tensor) and smoothing.gamma == 1:
        return value_of(problem.program(smoothing.regularizer), problem.parts)
    inside = _scaled_inside(problem, smoothing)
    if inside is not None:
        return value_of(inside, problem.parts)
    at, gamma = problem.tempered(smoothing.gamma)
    value = value_of(at.program(smoothing.regularizer), at.parts)
    if not isinstance(gamma, Tensor):
        return value * gamma
    empty = value == -torch.inf
    return torch.where(empty, value, torch.where(empty, 0, value) * gamma.to(value.dtype))


def smoothed_marginals(problem: Problem, smoothing: Smoothing) -> Parts:
    """Computes ∇ DP_Ω, differentiable in the parts and in the parameters of Ω."""
    if not isinstance(smoothing.gamma, Tensor) and smoothing.gamma == 1:
        return marginals_of(problem.program(smoothing.regularizer), problem.parts)
    inside = _scaled_inside(problem, smoothing)
    if inside is not None:
        return marginals_of(inside, problem.parts)
    at = problem.divided(smoothing.gamma)
    return marginals_of(at.program(smoothing.regularizer), at.parts)


def _scaled_inside(problem: Problem, smoothing: Smoothing) -> Program | None:
    """Returns a program that divides by γ itself, where γ is a number and the structure has such a program."""
    if isinstance(smoothing.gamma, Tensor) or not is_mild(smoothing.gamma):
        return None
    return problem.program(smoothing.regularizer).scaled(1 / smoothing.gamma)
