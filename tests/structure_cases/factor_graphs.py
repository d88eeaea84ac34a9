"""Tables, a factor graph without cycles, and one with cycles whose relaxation is tight."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import omegamax as om
from structure_cases.case import OracleCase, Parts, StructureCase, normal
from structure_cases.graph_hulls import assignments


def table_members(parts: Parts) -> list[Parts]:
    found = []
    for i, j in itertools.product(range(2), range(3)):
        table = np.zeros((2, 3))
        table[i, j] = 1
        found.append((np.concatenate([np.eye(2)[i], np.eye(3)[j]]), table))
    return found


def table_recursion(smooth_max: Callable, parts: Parts) -> float:
    values, table = parts
    return smooth_max([values[i] + values[2 + j] + table[i, j] for i in range(2) for j in range(3)])


def factor_tree() -> om.FactorGraph:
    """Entries: x (3,), then t (2, 3). Scores: the pair's, then the table's (3, 3)."""
    builder = om.FactorGraphBuilder()
    x, t = builder.binary("x", 3), builder.variable("t", 3, 2)
    builder.xor([x[0], ~x[1], t[0][1]])
    builder.pair(x[1], ~x[2], name="pair")
    builder.dense([t[0], t[1]], name="table")
    return builder.build()


def tree_recursion(smooth_max: Callable, parts: Parts) -> float:
    """Computes, from the leaves to x₀, the value of everything below each value of each variable."""
    entries, scores = parts
    x, t, pair, table = entries[:3], entries[3:].reshape(2, 3), scores[0], scores[1:].reshape(3, 3)
    below_x1 = [
        smooth_max([0.0, x[2]]),  # x₁ off: the pair scores nothing
        x[1] + smooth_max([pair, x[2]]),  # x₁ on: it scores x₂ off
    ]
    below_t0 = [t[0, k] + smooth_max([table[k, j] + t[1, j] for j in range(3)]) for k in range(3)]
    none = smooth_max([below_x1[1] + below_t0[k] for k in (0, 2)])  # no literal but x₀ is true
    one = smooth_max([below_x1[1] + below_t0[1], *(below_x1[0] + below_t0[k] for k in (0, 2))])
    return smooth_max([one, x[0] + none])


def xor_matching() -> om.FactorGraph:
    """A matching as one xor per row and per column: cycles, and a polytope with whole corners."""
    builder = om.FactorGraphBuilder()
    x = builder.binary("x", (3, 3))
    for line in (*x, *x.T):
        builder.xor(line)
    return builder.build()


def matching_members(parts: Parts) -> list[Parts]:
    return [(np.eye(3)[list(order)].ravel(),) for order in itertools.permutations(range(3))]


TREE_MEMBERS = assignments(factor_tree())

CASES = [
    StructureCase(
        "table",
        om.structures.Table((2, 3)),
        lambda g, b: om.structures.TableScores(normal(g, b, 5), normal(g, b, 2, 3)),
        table_members,
        table_recursion,
        lambda: 6,
        [(), ()],
        largest_degree=6,
        most_heads=2,
    ),
    StructureCase(
        "factor tree",
        factor_tree(),
        lambda g, b: om.structures.FactorGraphScores(normal(g, b, 9), normal(g, b, 10)),
        lambda parts: list(TREE_MEMBERS),
        tree_recursion,
        lambda: 30,
        [(), ()],
        largest_degree=3,
        most_heads=12,
    ),
]

ORACLE_CASES = [
    OracleCase(
        "factor graph",
        xor_matching(),
        lambda g, b: normal(g, b, 9),
        matching_members,
        lambda: 6,
        [(), ()],
    ),
]
