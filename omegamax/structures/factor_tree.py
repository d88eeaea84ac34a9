"""The hypergraph of a factor graph without cycles: every assignment is one derivation.

A component is rooted at its first variable. X[v, k] is the value of everything below variable v, given that it has
the value k; F[f, k] is that of everything below factor f, given the value k of the variable above it:

    X[v, k] = θ[v, k] + Σ over the factors f below v of F[f, k]
    F[f, k] = max_Ω over values of the variables below f of (score + Σ X)             tables
    S[j, n] = max_Ω over values k of the j-th variable below f of (S[j − 1, n − true(k)] + X[j, k])
    F[f, k] = max_Ω over n with least ≤ n + true(k) ≤ most of S[last, n]              counts of literals
    value   = Σ over components of max_Ω over k of X[root, k]

A factor that counts needs no more nodes than its width times its bound. Under Shannon this is sum-product, under Hard
max-sum; under another Ω the order of variables and factors is part of the definition.
Kschischang, Frey & Loeliger, "Factor graphs and the sum-product algorithm", 2001.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.factors import Count, TableFactor, Variable

TreeFactor = Count | TableFactor


def variables_of(factor: TreeFactor) -> list[int]:
    """Returns the numbers of the variables a factor sees, each once, in order."""
    if isinstance(factor, TableFactor):
        return list(factor.variables)
    return list(dict.fromkeys(literal.variable for literal in factor.literals))


def cycle_of(n_variables: int, factors: Sequence[TreeFactor]) -> list[tuple[str, int]] | None:
    """Finds a cycle as alternating ("factor", number) and ("variable", number), or None."""
    above: dict[tuple[str, int], tuple[str, int] | None] = {}
    below: dict[int, list[int]] = {v: [] for v in range(n_variables)}
    for number, factor in enumerate(factors):
        for variable in variables_of(factor):
            below[variable].append(number)
    for root in range(n_variables):
        if ("variable", root) in above:
            continue
        above["variable", root] = None
        reached: list[tuple[str, int]] = [("variable", root)]
        for node in reached:  # grows while it is read: breadth first finds short cycles
            kind, number = node
            near = below[number] if kind == "variable" else variables_of(factors[number])
            other = "factor" if kind == "variable" else "variable"
            for each in near:
                neighbour = (other, each)
                if neighbour == above[node]:
                    continue
                if neighbour in above:
                    return _cycle_through(above, node, neighbour)
                above[neighbour] = node
                reached.append(neighbour)
    return None


def _cycle_through(
    above: dict[tuple[str, int], tuple[str, int] | None], one: tuple[str, int], other: tuple[str, int]
) -> list[tuple[str, int]]:
    """Returns the cycle that an edge between two nodes of a tree closes."""
    up: list[tuple[str, int]] = [one]
    while above[up[-1]] is not None:
        up.append(above[up[-1]])  # type: ignore[arg-type]
    down: list[tuple[str, int]] = [other]
    while down[-1] not in up:
        down.append(above[down[-1]])  # type: ignore[arg-type]
    return up[: up.index(down[-1]) + 1] + down[-2::-1]


class _LatticeBuilder:
    """Collects nodes and edges, bottom up: a node is complete before it is a tail."""

    def __init__(self) -> None:
        self.levels = [0]  # node 0 is the leaf
        self.heads: list[int] = []
        self.tails: list[tuple[int, int]] = []
        self.entries: list[int] = []
        self.scores: list[int] = []

    def node(self) -> int:
        self.levels.append(1)
        return len(self.levels) - 1

    def edge(self, head: int, tails: Sequence[int], entry: int = -1, score: int = -1) -> None:
        below = [tail for tail in tails if tail != 0] or [0]
        self.levels[head] = max(self.levels[head], *(1 + self.levels[tail] for tail in below))
        self.heads.append(head)
        self.tails.append((below[0], below[1] if len(below) > 1 else -1))
        self.entries.append(entry)
        self.scores.append(score)

    def both(self, nodes: Sequence[int]) -> list[int]:
        """Returns at most two nodes that stand for all of these."""
        found = [node for node in nodes if node != 0]
        while len(found) > 2:
            joint = self.node()
            self.edge(joint, found[:2])
            found = [joint, *found[2:]]
        return found


def build(variables: Sequence[Variable], factors: Sequence[TreeFactor], n_entries: int, n_scores: int) -> Lattice:
    """Builds the lattice over entries and, where there are any, scores; its goal is the last node."""
    grown = _LatticeBuilder()
    touching: list[list[int]] = [[] for _ in variables]
    for number, factor in enumerate(factors):
        for variable in variables_of(factor):
            touching[variable].append(number)
    goals = []
    seen: set[int] = set()
    for root in range(len(variables)):
        if root in seen:
            continue
        nodes = _below(grown, root, variables, factors, touching, seen)
        goal = grown.node()
        for node in nodes:
            grown.edge(goal, [node])
        goals.append(goal)
    goals = grown.both(goals)
    grown.edge(grown.node(), goals)
    tails = np.array(grown.tails, dtype=np.int64).reshape(-1, 2)
    tails = tails[:, :1] if (tails[:, 1] < 0).all() else tails
    topology = Topology.from_edges(grown.levels, grown.heads, tails, leaves=[0])
    parts = [np.array(grown.entries), np.array(grown.scores)][: 1 + (n_scores > 0)]
    return Lattice.from_parts(topology, parts, [n_entries, n_scores][: len(parts)])


def _below(
    grown: _LatticeBuilder,
    root: int,
    variables: Sequence[Variable],
    factors: Sequence[TreeFactor],
    touching: list[list[int]],
    seen: set[int],
) -> list[int]:
    """Makes the nodes X[root, ·]; everything below is made before what is above it, without recursion."""
    order, above = [root], {root: -1}
    for variable in order:  # grows while it is read
        for number in touching[variable]:
            if number != above[variable]:
                for child in variables_of(factors[number]):
                    if child != variable:
                        above[child] = number
                        order.append(child)
    seen.update(order)
    best: dict[int, list[int]] = {}
    for variable in reversed(order):
        messages = [
            _message(grown, factors[number], variable, variables, best)
            for number in touching[variable]
            if number != above[variable]
        ]
        nodes = []
        for value in range(variables[variable].n_values):
            node = grown.node()
            grown.edge(node, grown.both([message[value] for message in messages]), variables[variable].entry(value))
            nodes.append(node)
        best[variable] = nodes
    return best[root]


def _message(
    grown: _LatticeBuilder, factor: TreeFactor, parent: int, variables: Sequence[Variable], best: dict[int, list[int]]
) -> list[int]:
    """Makes the nodes F[f, ·]."""
    children = [variable for variable in variables_of(factor) if variable != parent]
    if isinstance(factor, TableFactor):
        return _table(grown, factor, parent, [best[child] for child in children])
    true = {
        variable: [
            sum((value == each.value) != each.negated for each in factor.literals if each.variable == variable)
            for value in range(variables[variable].n_values)
        ]
        for variable in (parent, *children)
    }
    largest = sum(max(true[variable]) for variable in (parent, *children))
    bounded = factor.most < largest
    cap = factor.most if bounded else max(factor.least, 0)  # without an upper bound, counts above `least` are all alike
    states = {0: 0}
    for child in children:
        after: dict[int, int] = {}
        for so_far, node in states.items():
            for value, below in enumerate(best[child]):
                total = so_far + true[child][value]
                if bounded and total > cap:
                    continue
                total = min(total, cap)
                if total not in after:
                    after[total] = grown.node()
                grown.edge(after[total], [node, below])
        states = dict(sorted(after.items()))
    nodes = []
    for value in range(variables[parent].n_values):
        nodes.append(grown.node())
        for so_far, node in states.items():
            total = so_far + true[parent][value]
            if factor.least <= total and (total <= factor.most or not bounded):
                grown.edge(nodes[-1], [node])
    return nodes


def _table(grown: _LatticeBuilder, factor: TableFactor, parent: int, below: list[list[int]]) -> list[int]:
    places = np.moveaxis(factor.array, factor.variables.index(parent), 0)
    nodes = []
    combined: list[int] = below[0] if below else [0]  # all assignments of the variables but the last, in order
    for each in below[1:-1]:
        joint = []
        for one in combined:
            for other in each:
                joint.append(grown.node())
                grown.edge(joint[-1], [one, other])
        combined = joint
    last = below[-1] if len(below) > 1 else [0]
    for row in places.reshape(places.shape[0], -1):
        nodes.append(grown.node())
        for place, score in enumerate(row.tolist()):
            grown.edge(nodes[-1], [combined[place // len(last)], last[place % len(last)]], score=score)
    return nodes
