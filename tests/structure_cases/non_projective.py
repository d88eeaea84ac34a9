"""Non-projective dependency trees."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch

import omegamax as om
from structure_cases.case import OracleCase, Parts, normal


def is_tree(heads: Sequence[int]) -> bool:
    """heads[m − 1] is the head of word m; following heads leads to the root."""
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return True


def arborescence_members(single_root: bool) -> Callable[..., list[Parts]]:
    def members(parts: Parts, n: int) -> list[Parts]:
        found = []
        for heads in itertools.product(range(n + 1), repeat=n):
            if is_tree(heads) and (heads.count(0) == 1 or not single_root):
                y = np.zeros_like(parts[0])
                y[list(heads), range(1, n + 1)] = 1
                found.append((y,))
        return found

    return members


CASES = [
    OracleCase(
        "arborescence",
        om.Arborescence(),
        lambda g, b: normal(g, b, 5, 5),
        arborescence_members(True),
        lambda n: n ** (n - 1),
        [(4,), (1,), (3,)],
    ),
    OracleCase(
        "arborescence, any roots",
        om.Arborescence(single_root=False),
        lambda g, b: normal(g, b, 5, 5),
        arborescence_members(False),
        lambda n: (n + 1) ** (n - 1),
        [(4,), (2,), (1,)],
    ),
]


def drawn(case, seed, scale=1.0, forbidden=0.0, dtype=torch.float64):
    """Potentials of a row with some arcs forbidden."""
    generator = torch.Generator().manual_seed(seed)
    potentials = (scale * case.draw(generator, len(case.lengths))).to(dtype)
    keep = torch.rand(potentials.shape, generator=generator) >= forbidden
    return torch.where(keep, potentials, -torch.inf)


def expected(case, potentials, item):
    """All trees with their probabilities, and the log-partition; numpy only."""
    every = [y[0] for y in case.members((potentials[item].numpy(),), *case.lengths[item])]
    scores = np.array([float(potentials[item].numpy()[y > 0].sum()) for y in every])
    if not (scores > -np.inf).any():
        return None
    total = np.logaddexp.reduce(scores)
    return np.stack(every), np.exp(scores - total), total, scores
