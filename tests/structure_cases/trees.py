"""Constituency trees, grammars, projective dependency trees."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
import torch

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal


def bracketings(i: int, j: int) -> list[list[tuple[int, int]]]:
    """The spans of every binary tree over words i..j."""
    if i == j:
        return [[(i, j)]]
    return [
        [(i, j), *left, *right] for k in range(i, j) for left in bracketings(i, k) for right in bracketings(k + 1, j)
    ]


def constituency_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for spans in bracketings(0, n - 1):
        for labels in itertools.product(range(theta.shape[-1]), repeat=len(spans)):
            y = np.zeros_like(theta)
            for (i, j), label in zip(spans, labels):
                y[i, j, label] = 1
            found.append((y,))
    return found


def constituency_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts

    def value(i: int, j: int) -> float:
        split = smooth_max([value(i, k) + value(k + 1, j) for k in range(i, j)]) if i < j else 0.0
        return smooth_max([score + split for score in theta[i, j]])

    return value(0, n - 1)


def grammar_members(parts: Parts, n: int) -> list[Parts]:
    root, _, terms = parts
    nt, n_tags = len(root), terms.shape[-1]
    found = []
    for spans in bracketings(0, n - 1):
        choices = [range(nt, nt + n_tags) if i == j else range(nt) for i, j in spans]
        for symbols in itertools.product(*choices):
            symbol = dict(zip(spans, symbols))
            counts = tuple(np.zeros_like(part) for part in parts)
            counts[0][symbol[0, n - 1]] = 1
            for i, j in spans:
                if i == j:
                    counts[2][i, symbol[i, i] - nt] = 1
                else:
                    k = next(k for k in range(i, j) if (i, k) in symbol and (k + 1, j) in symbol)
                    counts[1][symbol[i, j], symbol[i, k], symbol[k + 1, j]] += 1
            found.append(counts)
    return found


def grammar_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    root, rules, terms = parts
    nt, n_symbols = len(root), rules.shape[-1]

    def value(i: int, j: int, symbol: int) -> float:
        if i == j:
            return terms[i, symbol - nt]
        return smooth_max(
            [
                rules[symbol, b, c] + value(i, k, b) + value(k + 1, j, c)
                for k in range(i, j)
                for b in (range(nt, n_symbols) if k == i else range(nt))
                for c in (range(nt, n_symbols) if k + 1 == j else range(nt))
            ]
        )

    return smooth_max([root[a] + value(0, n - 1, a) for a in range(nt)])


def draw_grammar(generator: torch.Generator, batch: int) -> Any:
    return om.Grammar(normal(generator, batch, 2), normal(generator, batch, 2, 4, 4), normal(generator, batch, 3, 2))


def is_projective_tree(heads: Sequence[int]) -> bool:
    """heads[m − 1] is the head of word m; every word below an arc descends from its head."""

    def descends(word: int, head: int) -> bool:
        for _ in range(len(heads) + 1):
            if word == head:
                return True
            word = heads[word - 1] if word else 0
        return False

    words = range(1, len(heads) + 1)
    return all(descends(m, 0) for m in words) and all(
        descends(w, heads[m - 1]) for m in words for w in range(min(m, heads[m - 1]) + 1, max(m, heads[m - 1]))
    )


def projective_members(single_root: bool) -> Callable[..., list[Parts]]:
    def members(parts: Parts, n: int) -> list[Parts]:
        found = []
        for heads in itertools.product(range(n + 1), repeat=n):
            if is_projective_tree(heads) and (heads.count(0) == 1 or not single_root):
                y = np.zeros_like(parts[0])
                y[list(heads), range(1, n + 1)] = 1
                found.append((y,))
        return found

    return members


def projective_recursion(single_root: bool) -> Callable[..., float]:
    def recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
        (theta,) = parts

        def right(s: int, t: int) -> float:
            if s == t:
                return 0.0
            return smooth_max([theta[s, k] + both(s, k) + right(k, t) for k in range(s + 1, t + 1)])

        def left(s: int, t: int) -> float:
            if s == t:
                return 0.0
            return smooth_max([left(s, k) + both(k, t) + theta[t, k] for k in range(s, t)])

        def both(s: int, t: int) -> float:
            if s == 0 and single_root:
                return left(1, t)
            return smooth_max([right(s, k) + left(k + 1, t) for k in range(s, t)])

        return right(0, n)

    return recursion


def catalan(n: int) -> int:
    return comb(2 * n, n) // (n + 1)


CASES = [
    StructureCase(
        "labelled constituency tree",
        om.ConstituencyTree(),
        lambda g, b: normal(g, b, 3, 3, 2),
        constituency_members,
        constituency_recursion,
        lambda n: catalan(n - 1) * 2 ** (2 * n - 1),
        [(3,), (1,), (2,)],
        largest_degree=2,
        most_heads=7,
    ),
    StructureCase(
        "constituency tree",
        om.ConstituencyTree(),
        lambda g, b: om.ConstituencyTree.from_scores(normal(g, b, 5, 5)),
        constituency_members,
        constituency_recursion,
        lambda n: catalan(n - 1),
        [(5,), (1,), (4,)],
        largest_degree=4,
        most_heads=13,
    ),
    StructureCase(
        "grammar",
        om.Pcfg(),
        draw_grammar,
        grammar_members,
        grammar_recursion,
        lambda n: catalan(n - 1) * 2 ** (n - 1) * 2**n,
        [(3,), (2,)],
        largest_degree=8,
        most_heads=6,
    ),
    StructureCase(
        "projective tree",
        om.ProjectiveTree(),
        lambda g, b: normal(g, b, 5, 5),
        projective_members(True),
        projective_recursion(True),
        lambda n: comb(3 * n - 2, n - 1) // n,
        [(4,), (1,), (3,)],
        largest_degree=4,
        most_heads=12,
    ),
    StructureCase(
        "projective tree, any roots",
        om.ProjectiveTree(single_root=False),
        lambda g, b: normal(g, b, 4, 4),
        projective_members(False),
        projective_recursion(False),
        lambda n: comb(3 * n, n) // (2 * n + 1),
        [(3,), (1,), (2,)],
        largest_degree=3,
        most_heads=12,
    ),
]
