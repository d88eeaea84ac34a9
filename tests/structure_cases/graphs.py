"""A graph and a hypergraph of a user's."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import omegamax as om
from structure_cases.case import Parts, StructureCase, normal

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


CASES = [
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
]
