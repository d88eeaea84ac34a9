"""Entropic transport for the potentials of a matching, which become bordered matrices for the solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.matchings.transport import Transport
from omegamax.inference.program import Parts
from omegamax.structures.problem import Problem

MAX_ITER, ATOL = 1000, 1e-10


class Plan(NamedTuple):
    """The solution of a transport problem, differentiable."""

    parts: Parts  # as those of the problem
    value: Tensor  # (batch,)


def check_transport(who: str, gamma: Any, max_iter: Any, atol: Any) -> None:
    """Checks that there is one temperature, and a rule to stop."""
    checks.check_gamma(who, gamma)
    if isinstance(gamma, Tensor) and gamma.numel() != 1:
        raise ValueError(
            f"{who}: gamma must be a single number, got shape {tuple(gamma.shape)}; divide the scores for one "
            "temperature per item"
        )
    checks.check_count(who, "max_iter", max_iter)
    checks.check_gap(who, "atol", atol)


def transport_plan(problem: Problem, gamma: float | Tensor, max_iter: int, atol: float) -> Plan:
    """Maximises <P, θ> − γ Σ P log P, in double precision."""
    divided, scale = problem.tempered(gamma)
    pairs, *unmatched = (part.double() for part in divided.parts)
    scores = torch.nn.functional.pad(pairs, (0, 1, 0, 1), value=-torch.inf)
    if unmatched:
        rows, columns = unmatched
        right = torch.nn.functional.pad(rows, (0, 1), value=-torch.inf).unsqueeze(2)
        scores = torch.cat([torch.cat([pairs, columns.unsqueeze(1)], 1), right], 2)
    row_lengths, column_lengths = problem.lengths
    smooth = Transport((row_lengths, column_lengths), bool(unmatched), max_iter, atol)
    value, weights = smooth.max_and_argmax(scores)
    found = (weights[:, :-1, :-1], weights[:, :-1, -1], weights[:, -1, :-1])[: len(problem.parts)]
    scale = scale.double() if isinstance(scale, Tensor) else scale
    empty = value == -torch.inf
    return Plan(found, torch.where(empty, value, torch.where(empty, 0, value) * scale))
