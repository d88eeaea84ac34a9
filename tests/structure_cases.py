"""THE TABLE of structures: potentials, all members by brute force, and the recursion once more in plain Python.

A row's `members` knows nothing of hypergraphs: it lists the structures from their definition. Its `recursion` writes
the dynamic program down as a textbook does, over a `smooth_max` of a list of numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om

Parts = tuple[np.ndarray, ...]  # the components of one item's potentials, or of one structure


@dataclass(frozen=True, eq=False)
class StructureCase:
    name: str
    structure: om.Structure
    draw: Callable[[torch.Generator, int], Any]  # (generator, batch) -> float64 potentials
    members: Callable[..., list[Parts]]  # (parts of one item, *its lengths) -> every structure
    recursion: Callable[..., float]  # (smooth_max, parts of one item, *its lengths) -> DP_Ω
    n_members: Callable[..., int]  # (*lengths) -> the closed form
    lengths: Sequence[tuple[int, ...]]  # one tuple per item of the batch; () where the structure has no lengths
    largest_degree: int  # of a node, for the bounds
    most_heads: int  # nodes in one derivation, for the bounds

    def __str__(self) -> str:
        return self.name

    def potentials(self, seed: int = 0) -> Any:
        return self.draw(torch.Generator().manual_seed(seed), len(self.lengths))

    def options(self) -> dict[str, Any]:
        """The keyword `lengths`, where the structure has any."""
        n_axes = len(self.lengths[0])
        if n_axes == 0:
            return {}
        tensors = tuple(torch.tensor(axis) for axis in zip(*self.lengths))
        return {"lengths": tensors[0] if n_axes == 1 else tensors}


def parts_of(potentials: Any) -> tuple[Tensor, ...]:
    """The tensors that make up potentials, or weights."""
    return (potentials,) if isinstance(potentials, Tensor) else tuple(potentials)


def like(potentials: Any, parts: Sequence[Tensor]) -> Any:
    """Tensors as the type of the potentials."""
    return parts[0] if isinstance(potentials, Tensor) else type(potentials)(*parts)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# Chains.


def chain_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for tags in itertools.product(range(theta.shape[-1]), repeat=n):
        y = np.zeros_like(theta)
        for place, tag in enumerate(tags):
            y[place, tags[place - 1] if place else 0, tag] = 1
        found.append((y,))
    return found


def chain_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values = [theta[0, 0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + theta[place, i, j] for i in tags]) for j in tags]
    return smooth_max(values)


def factored_members(parts: Parts, n: int) -> list[Parts]:
    found = []
    for tags in itertools.product(range(parts[0].shape[-1]), repeat=n):
        emissions, transitions, start, end = (np.zeros_like(part) for part in parts)
        for place, tag in enumerate(tags):
            emissions[place, tag] = 1
            if place:
                transitions[tags[place - 1], tag] += 1
        start[tags[0]] = end[tags[-1]] = 1
        found.append((emissions, transitions, start, end))
    return found


def factored_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, transitions, start, end = parts
    tags = range(len(start))
    values = [start[j] + emissions[0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + transitions[i, j] + emissions[place, j] for i in tags]) for j in tags]
    return smooth_max([values[j] + end[j] for j in tags])


def draw_factored(generator: torch.Generator, batch: int) -> Any:
    emissions, transitions = normal(generator, batch, 4, 3), normal(generator, batch, 3, 3)
    return om.Chain.from_emissions(emissions, transitions, normal(generator, batch, 3), normal(generator, batch, 3))


# A graph and a hypergraph of a user's.

DAG_EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (3, 4), (2, 4)]


def dag_members(parts: Parts) -> list[Parts]:
    found: list[Parts] = []
    for chosen in itertools.product([0, 1], repeat=len(DAG_EDGES)):
        used = [edge for edge, on in zip(DAG_EDGES, chosen) if on]
        node, walked = 0, 0
        while any(tail == node for tail, _ in used) and walked < len(used):
            leaving = [head for tail, head in used if tail == node]
            if len(leaving) != 1:
                break
            node, walked = leaving[0], walked + 1
        if node == 4 and walked == len(used):
            found.append((np.array(chosen, dtype=float),))
    return found


def dag_recursion(smooth_max: Callable, parts: Parts) -> float:
    values = {0: 0.0}
    for node in range(1, 5):
        into = [(tail, score) for (tail, head), score in zip(DAG_EDGES, parts[0]) if head == node]
        values[node] = smooth_max([values[tail] + score for tail, score in into])
    return values[4]


def build_hypergraph() -> om.Hypergraph:
    """Edges of one and of two tails, a node that only some derivations need."""
    builder = om.HypergraphBuilder()
    a, b = builder.leaf(), builder.leaf()
    x, y, z, goal = builder.node(), builder.node(), builder.node(), builder.node()
    builder.edge(goal, x, z)  # 0
    builder.edge(x, a, b)  # 1
    builder.edge(x, a)  # 2
    builder.edge(z, y, b)  # 3
    builder.edge(y, b)  # 4
    builder.edge(goal, z)  # 5
    builder.edge(y, a, a)  # 6
    builder.edge(z, a)  # 7
    return builder.build(goal)


def hypergraph_members(parts: Parts) -> list[Parts]:
    of_x, of_y = [[1], [2]], [[4], [6]]
    of_z = [[3, *y] for y in of_y] + [[7]]
    of_goal = [[0, *x, *z] for x in of_x for z in of_z] + [[5, *z] for z in of_z]
    return [(np.bincount(edges, minlength=8).astype(float),) for edges in of_goal]


def hypergraph_recursion(smooth_max: Callable, parts: Parts) -> float:
    (s,) = parts
    x, y = smooth_max([s[1], s[2]]), smooth_max([s[4], s[6]])
    z = smooth_max([s[3] + y, s[7]])
    return smooth_max([s[0] + x + z, s[5] + z])


# Trees.


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
        "chain",
        om.Chain(),
        lambda g, b: normal(g, b, 4, 3, 3),
        chain_members,
        chain_recursion,
        lambda n: 3**n,
        [(4,), (1,), (3,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "factored chain",
        om.Chain(),
        draw_factored,
        factored_members,
        factored_recursion,
        lambda n: 3**n,
        [(3,), (1,), (4,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "dag",
        om.Dag.from_edges(DAG_EDGES),
        lambda g, b: normal(g, b, len(DAG_EDGES)),
        dag_members,
        dag_recursion,
        lambda: 6,
        [(), ()],
        largest_degree=3,
        most_heads=4,
    ),
    StructureCase(
        "hypergraph",
        build_hypergraph(),
        lambda g, b: normal(g, b, 8),
        hypergraph_members,
        hypergraph_recursion,
        lambda: 9,
        [(), ()],
        largest_degree=2,
        most_heads=4,
    ),
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
