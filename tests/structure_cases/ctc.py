"""CTC: targets 1 1 2 and 2 and none at all, with blank 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal

CTC_TARGETS, CTC_SIZES = torch.tensor([[1, 1, 2], [2, 0, 0], [0, 0, 0], [1, 2, 1]]), torch.tensor([3, 1, 0, 3])


def draw_ctc(generator: torch.Generator, batch: int) -> Any:
    log_probs = normal(generator, 5, batch, 3).log_softmax(-1)
    return om.CTC.from_log_probs(log_probs, CTC_TARGETS, CTC_SIZES)


def ctc_members(parts: Parts, n: int) -> list[Parts]:
    """Every sequence of states; kept if it starts, moves and ends as the potentials allow."""
    _, skips, ends = parts
    found = []
    for states in itertools.product(range(len(ends)), repeat=n):
        moves = [after - before for before, after in itertools.pairwise(states)]
        skipped = [after for (_, after), move in zip(itertools.pairwise(states), moves) if move == 2]
        legal = states[0] < 2 and all(0 <= move <= 2 for move in moves) and all(skips[s] == 0 for s in skipped)
        if legal and ends[states[-1]] == 0:
            y = tuple(np.zeros_like(part) for part in parts)
            for time, state in enumerate(states):
                y[0][time, state] = 1
            for state in skipped:
                y[1][state] += 1
            y[2][states[-1]] = 1
            found.append(y)
    return found


def ctc_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, skips, ends = parts
    states = range(len(ends))
    values = [emissions[0, s] if s < 2 else -np.inf for s in states]
    for time in range(1, n):
        values = [
            emissions[time, s] + smooth_max([values[s - b] + (skips[s] if b == 2 else 0) for b in range(3) if s >= b])
            for s in states
        ]
    return smooth_max([values[s] + ends[s] for s in states])


CASES = [
    StructureCase(
        "ctc",
        om.CTC(),
        draw_ctc,
        ctc_members,
        ctc_recursion,
        None,
        [(5,), (3,), (4,), (3,)],
        largest_degree=3,
        most_heads=6,
    ),
]
