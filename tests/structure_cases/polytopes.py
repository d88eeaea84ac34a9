"""A row for polytopes that a user's function knows: runs of neighbours in a row."""

from __future__ import annotations

import numpy as np
import torch

import omegamax as om
from structure_cases.case import OracleCase, Parts, normal

SIZE = 5


def members(parts: Parts) -> list[Parts]:
    """Every run first..last of ones."""
    found = []
    for first in range(SIZE):
        for last in range(first, SIZE):
            run = np.zeros(SIZE)
            run[first : last + 1] = 1
            found.append((run,))
    return found


def best(scores: torch.Tensor) -> torch.Tensor:
    """The best run by Kadane's algorithm."""
    top, here, start, span = -torch.inf, 0.0, 0, (0, 1)
    for i, score in enumerate(scores.tolist()):
        if here <= 0:
            start, here = i, 0.0
        here += score
        if here > top:
            top, span = here, (start, i + 1)
    vertex = torch.zeros(len(scores))
    vertex[span[0] : span[1]] = 1
    return vertex


CASES = [
    OracleCase(
        name="a user's polytope",
        structure=om.Polytope.from_oracle(best),
        draw=lambda generator, batch: normal(generator, batch, SIZE),
        members=members,
        n_members=lambda: SIZE * (SIZE + 1) // 2,
        lengths=[(), (), ()],
    )
]
