"""Subsets of a given size, and budgets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal


def budget_members(lo: int, hi: int) -> Callable[..., list[Parts]]:
    def members(parts: Parts, n: int) -> list[Parts]:
        found = []
        for count in range(lo, min(hi, n) + 1):
            for chosen in itertools.combinations(range(n), count):
                y = np.zeros_like(parts[0])
                y[list(chosen)] = 1
                found.append((y,))
        return found

    return members


def budget_recursion(lo: int, hi: int) -> Callable[..., float]:
    def recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
        (theta,) = parts
        values = {0: 0.0}
        for t in range(n):
            after = {}
            for count in range(min(t + 1, hi) + 1):
                choices = [values[count]] if count in values else []
                choices += [values[count - 1] + theta[t]] if count - 1 in values else []
                after[count] = smooth_max(choices)
            values = after
        return smooth_max([values[count] for count in range(lo, min(hi, n) + 1)])

    return recursion


def budget_count(lo: int, hi: int) -> Callable[..., int]:
    return lambda n: sum(math.comb(n, count) for count in range(lo, min(hi, n) + 1))


def row(name: str, structure: om.Structure, lo: int, hi: int, lengths: list[tuple[int, ...]]) -> StructureCase:
    return StructureCase(
        name,
        structure,
        lambda g, b: normal(g, b, 5),
        budget_members(lo, hi),
        budget_recursion(lo, hi),
        budget_count(lo, hi),
        lengths,
        largest_degree=max(2, hi - lo + 1),
        most_heads=6,
        needs_first=lo > 0,
    )


CASES = [
    row("subset", om.Subset(2), 2, 2, [(5,), (2,), (4,)]),
    row("budget", om.Budget(1, 3), 1, 3, [(4,), (1,), (5,)]),
    row("at most two", om.Budget(0, 2), 0, 2, [(5,), (1,), (3,)]),
]
