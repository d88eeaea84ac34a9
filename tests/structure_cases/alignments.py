"""Alignments: warping paths, bands, gaps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal

SYMMETRIC2 = ((1, 1, 2.0), (1, 0, 1.0), (0, 1, 1.0))
UNIT = ((1, 1, 1.0), (1, 0, 1.0), (0, 1, 1.0))
LONG = ((1, 1, 1.0), (1, 2, 1.5), (2, 1, 0.5))


def alignment_paths(m: int, n: int, steps: Sequence, inside: Callable[[int, int], bool]) -> list[list]:
    """All lists of (i, j, weight) from (0, 0) to (m − 1, n − 1)."""
    found = []

    def walk(path: list) -> None:
        i, j, _ = path[-1]
        if (i, j) == (m - 1, n - 1):
            found.append(path)
        for di, dj, weight in steps:
            if i + di < m and j + dj < n and inside(i + di, j + dj):
                walk([*path, (i + di, j + dj, weight)])

    walk([(0, 0, 1.0)])
    return found


def alignment_members(steps: Sequence) -> Callable[..., list[Parts]]:
    def members(parts: Parts, m: int, n: int) -> list[Parts]:
        found = []
        for path in alignment_paths(m, n, steps, lambda i, j: True):
            y = np.zeros_like(parts[0])
            for i, j, weight in path:
                y[i, j] += weight
            found.append((y,))
        return found

    return members


def alignment_recursion(steps: Sequence) -> Callable[..., float]:
    def recursion(smooth_max: Callable, parts: Parts, m: int, n: int) -> float:
        (theta,) = parts
        values = {(0, 0): theta[0, 0]}
        for i, j in itertools.product(range(m), range(n)):
            into = [(i - di, j - dj, weight) for di, dj, weight in steps]
            reached = [values[a, b] + weight * theta[i, j] for a, b, weight in into if (a, b) in values]
            if reached:
                values[i, j] = smooth_max(reached)
        return values[m - 1, n - 1]

    return recursion


def delannoy(m: int, n: int) -> int:
    return sum(math.comb(m - 1, k) * math.comb(n - 1, k) * 2**k for k in range(min(m, n)))


def long_paths(m: int, n: int) -> int:
    """Orders of a steps (1, 1), b steps (1, 2) and c steps (2, 1)."""
    found = 0
    for b, c in itertools.product(range(m), repeat=2):
        a = m - 1 - b - 2 * c
        if a >= 0 and a + 2 * b + c == n - 1:
            found += math.factorial(a + b + c) // (math.factorial(a) * math.factorial(b) * math.factorial(c))
    return found


BAND = om.BandedAlignment(om.structures.SakoeChiba(1), n_columns=5)  # of 4 rows: |4 i − 3 j| ≤ 4


def in_band(i: int, j: int) -> bool:
    return abs(4 * i - 3 * j) <= 4


def band_cell(i: int, j: int) -> tuple[int, int]:
    return i, j - min(column for column in range(5) if in_band(i, column))


def banded_members(parts: Parts) -> list[Parts]:
    found = []
    for path in alignment_paths(4, 5, UNIT, in_band):
        y = np.zeros_like(parts[0])
        for i, j, _ in path:
            y[band_cell(i, j)] = 1
        found.append((y,))
    return found


def banded_recursion(smooth_max: Callable, parts: Parts) -> float:
    values = {(0, 0): parts[0][0, 0]}
    for i, j in itertools.product(range(4), range(5)):
        tails = [values[a, b] for a, b in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if (a, b) in values]
        if tails and in_band(i, j):
            values[i, j] = smooth_max([tail + parts[0][band_cell(i, j)] for tail in tails])
    return values[3, 4]


def gapped_parts(parts: Parts, pairs: Sequence, x: Sequence[int], y: Sequence[int]) -> Parts:
    """Returns pairs, and unpaired elements of x and y; each gap is a run without a pair inside."""
    found = tuple(np.zeros_like(part) for part in parts)
    for i, j in pairs:
        found[0][i, j] = 1
    for side, alone in ((0, x), (1, y)):
        paired = {pair[side] for pair in pairs}
        for k in alone:
            opens = k - 1 not in alone or (k - 1) in paired
            found[1 + 2 * side + (not opens)][k] = 1
    return found


def monotone_pairs(m: int, n: int) -> list[list[tuple[int, int]]]:
    return [
        list(zip(rows, columns))
        for k in range(min(m, n) + 1)
        for rows in itertools.combinations(range(m), k)
        for columns in itertools.combinations(range(n), k)
    ]


def global_members(parts: Parts, m: int, n: int) -> list[Parts]:
    found = []
    for pairs in monotone_pairs(m, n):
        x = [i for i in range(m) if all(i != a for a, _ in pairs)]
        y = [j for j in range(n) if all(j != b for _, b in pairs)]
        found.append(gapped_parts(parts, pairs, x, y))
    return found


def local_members(parts: Parts, m: int, n: int) -> list[Parts]:
    found = []
    for pairs in monotone_pairs(m, n):
        x, y = [], []
        if pairs:
            x = [i for i in range(pairs[0][0], pairs[-1][0]) if all(i != a for a, _ in pairs)]
            y = [j for j in range(pairs[0][1], pairs[-1][1]) if all(j != b for _, b in pairs)]
        found.append(gapped_parts(parts, pairs, x, y))
    return found


def gapped_recursion(smooth_max: Callable, parts: Parts, m: int, n: int, *, everywhere: bool) -> float:
    """Gotoh's three tables; `everywhere`: an alignment may begin and end in any pair."""
    match, open_x, extend_x, open_y, extend_y = parts
    pair, gap_x, gap_y = {}, {}, {}
    if not everywhere:
        pair[0, 0] = 0.0
    for i, j in itertools.product(range(m + 1), range(n + 1)):
        if i and j:
            before = [table[i - 1, j - 1] for table in (pair, gap_x, gap_y) if (i - 1, j - 1) in table]
            before += [0.0] if everywhere else []
            if before:
                pair[i, j] = smooth_max([b + match[i - 1, j - 1] for b in before])
        opened = [pair[i - 1, j] + open_x[i - 1]] if (i - 1, j) in pair else []
        opened += [gap_x[i - 1, j] + extend_x[i - 1]] if (i - 1, j) in gap_x else []
        if opened:
            gap_x[i, j] = smooth_max(opened)
        opened = [table[i, j - 1] + open_y[j - 1] for table in (pair, gap_x) if (i, j - 1) in table]
        opened += [gap_y[i, j - 1] + extend_y[j - 1]] if (i, j - 1) in gap_y else []
        if opened:
            gap_y[i, j] = smooth_max(opened)
    if everywhere:
        return smooth_max([0.0, *pair.values()])
    return smooth_max([table[m, n] for table in (pair, gap_x, gap_y) if (m, n) in table])


def draw_gapped(generator: torch.Generator, batch: int) -> Any:
    sizes = [(3, 4), (3,), (3,), (4,), (4,)]
    return om.structures.GappedScores(*(normal(generator, batch, *size) for size in sizes))


CASES = [
    StructureCase(
        "alignment",
        om.Alignment(),
        lambda g, b: normal(g, b, 4, 3),
        alignment_members(UNIT),
        alignment_recursion(UNIT),
        delannoy,
        [(4, 3), (1, 3), (3, 1), (2, 3), (1, 1)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "alignment, symmetric2",
        om.Alignment(SYMMETRIC2),
        lambda g, b: normal(g, b, 3, 4),
        alignment_members(SYMMETRIC2),
        alignment_recursion(SYMMETRIC2),
        delannoy,
        [(3, 4), (2, 1), (2, 2)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "alignment, long steps",
        om.Alignment(LONG),
        lambda g, b: normal(g, b, 6, 5),
        alignment_members(LONG),
        alignment_recursion(LONG),
        long_paths,
        [(6, 5), (4, 4), (5, 5)],
        largest_degree=3,
        most_heads=6,
    ),
    StructureCase(
        "banded alignment",
        BAND,
        lambda g, b: normal(g, b, 4, 3),
        banded_members,
        banded_recursion,
        lambda: len(alignment_paths(4, 5, UNIT, in_band)),
        [(), ()],
        largest_degree=3,
        most_heads=8,
    ),
    StructureCase(
        "global alignment",
        om.GlobalAlignment(),
        draw_gapped,
        global_members,
        lambda *arguments: gapped_recursion(*arguments, everywhere=False),
        lambda m, n: math.comb(m + n, m),
        [(3, 4), (1, 1), (3, 1), (1, 2)],
        largest_degree=3,
        most_heads=8,
        needs_first=False,
    ),
    StructureCase(
        "local alignment",
        om.LocalAlignment(),
        draw_gapped,
        local_members,
        lambda *arguments: gapped_recursion(*arguments, everywhere=True),
        lambda m, n: math.comb(m + n, m),
        [(3, 3), (1, 4), (3, 1), (1, 1)],
        largest_degree=13,
        most_heads=8,
        needs_first=False,
    ),
]
