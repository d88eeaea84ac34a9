"""Matchings, square and not, and with rows and columns that may stay unmatched."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch

import omegamax as om
from structure_cases.case import OracleCase, Parts, normal


def matching_members(parts: Parts, r: int, c: int) -> list[Parts]:
    """Each row of the smaller side gets one of the other side's."""
    (theta,) = parts
    found = []
    for partners in itertools.permutations(range(max(r, c)), min(r, c)):
        y = np.zeros_like(theta)
        pairs = zip(range(r), partners) if r <= c else zip(partners, range(c))
        for row, column in pairs:
            y[row, column] = 1
        found.append((y,))
    return found


def nullable_members(parts: Parts, r: int, c: int) -> list[Parts]:
    found = []
    for columns in itertools.product(range(-1, c), repeat=r):
        taken = [column for column in columns if column >= 0]
        if len(set(taken)) < len(taken):
            continue
        pairs, rows, alone = (np.zeros_like(part) for part in parts)
        alone[:c] = 1
        for row, column in enumerate(columns):
            if column < 0:
                rows[row] = 1
            else:
                pairs[row, column], alone[column] = 1, 0
        found.append((pairs, rows, alone))
    return found


def draw_nullable(generator: torch.Generator, batch: int) -> Any:
    return om.structures.NullableScores(
        normal(generator, batch, 3, 4), normal(generator, batch, 3), normal(generator, batch, 4)
    )


CASES = [
    OracleCase(
        "matching",
        om.Matching(),
        lambda g, b: normal(g, b, 4, 4),
        matching_members,
        lambda r, c: math.factorial(max(r, c)) // math.factorial(abs(r - c)),
        [(4, 4), (1, 1), (3, 3)],
    ),
    OracleCase(
        "rectangular matching",
        om.Matching(),
        lambda g, b: normal(g, b, 3, 5),
        matching_members,
        lambda r, c: math.factorial(max(r, c)) // math.factorial(abs(r - c)),
        [(3, 5), (3, 2), (1, 4), (3, 3)],
    ),
    OracleCase(
        "matching with null",
        om.Matching(),
        draw_nullable,
        nullable_members,
        lambda r, c: sum(math.comb(r, k) * math.comb(c, k) * math.factorial(k) for k in range(min(r, c) + 1)),
        [(3, 4), (2, 4), (3, 1)],
    ),
]
