"""A user's own dynamic program: nodes, and edges that derive one node (the head) from one or two others (the tails).

    potentials (..., E): one score per edge, in the order in which the edges were added

A structure is a derivation of the goal from the leaves, as 0/1 per edge (counts, where it visits a node
twice).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Sizes


@dataclass(frozen=True, eq=False)
class Hypergraph(DynamicProgram):
    """Derivations in a hypergraph; made by `HypergraphBuilder`.

    Arguments:
        graph: what the builder builds
        goal: the node that a derivation ends in
    """

    graph: Lattice
    goal: int

    event_ndim = 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_nodes={self.graph.topology.n_nodes}, n_edges={self.n_edges}, goal={self.goal})"

    @property
    def n_edges(self) -> int:
        """The number of edges, which is that of potentials."""
        return self.graph.topology.n_edges

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating(self._name, potentials)
        checks.check_event(self._name, "potentials", potentials, (self.n_edges,), f"(..., {self.n_edges} edges)")
        return ((potentials, 1),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return ()

    def build(self, sizes: Sizes) -> Lattice:
        return self.graph

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        return torch.tensor([self.goal])

    def lattice(self, sizes: Sizes) -> Lattice:
        return self.graph


class HypergraphBuilder:
    """Collects nodes and edges in any order.

    >>> builder = HypergraphBuilder()
    >>> left, right, whole = builder.leaf(), builder.leaf(), builder.node()
    >>> builder.edge(whole, left, right), builder.edge(whole, left)
    (0, 1)
    >>> builder.build(goal=whole).count(torch.zeros(2))
    2
    """

    def __init__(self) -> None:
        self._is_leaf: list[bool] = []
        self._heads: list[int] = []
        self._tails: list[tuple[int, int]] = []

    def leaf(self) -> int:
        """Adds a node that needs no derivation; its value is 0."""
        self._is_leaf.append(True)
        return len(self._is_leaf) - 1

    def node(self) -> int:
        """Adds a node to be derived by edges."""
        self._is_leaf.append(False)
        return len(self._is_leaf) - 1

    def edge(self, head: int, *tails: int) -> int:
        """Adds an edge that derives `head` from one or two tails; returns its number."""
        if len(tails) not in (1, 2):
            raise ValueError(
                f"HypergraphBuilder.edge: an edge has one or two tails, got {len(tails)}; split it with a node"
            )
        for node in (head, *tails):
            if not isinstance(node, int) or not 0 <= node < len(self._is_leaf):
                raise ValueError(
                    f"HypergraphBuilder.edge: nodes must come from leaf() or node(), got {node}; there are "
                    f"{len(self._is_leaf)} so far"
                )
        if self._is_leaf[head]:
            raise ValueError(f"HypergraphBuilder.edge: a head must not be a leaf, got leaf {head}; make it with node()")
        self._heads.append(head)
        self._tails.append((tails[0], tails[1] if len(tails) == 2 else -1))
        return len(self._heads) - 1

    def build(self, goal: int) -> Hypergraph:
        """Returns the hypergraph; raises for a cycle, a node without derivation, or one the goal does not need."""
        return Hypergraph(compile_edges("HypergraphBuilder", self._is_leaf, self._heads, self._tails, goal), goal)


@torch.inference_mode(False)  # a graph made in inference mode may be used in training
def compile_edges(
    who: str, is_leaf: Sequence[bool], heads: Sequence[int], tails: Sequence[tuple[int, ...]], goal: int
) -> Lattice:
    """Builds a lattice whose parts are the edges, in their own order."""
    n_nodes = len(is_leaf)
    if not isinstance(goal, int) or not 0 <= goal < n_nodes:
        raise ValueError(f"{who}: goal must be one of the {n_nodes} nodes, got {goal}; pass the number of a node")
    levels = _levels(who, is_leaf, heads, tails)
    _check_all_needed(who, n_nodes, heads, tails, goal)
    if not heads:
        raise ValueError(f"{who}: there must be at least one edge, got none; add one that leads to the goal")
    leaves = np.flatnonzero(is_leaf)
    both = np.array(tails, dtype=np.int64).reshape(len(heads), -1)
    both = both[:, :1] if both.shape[1] == 2 and (both[:, 1] < 0).all() else both
    topology = Topology.from_edges(levels, heads, both, leaves)
    return Lattice.from_parts(topology, [np.arange(len(heads))], [len(heads)], parts_are_edges=True)


def _levels(who: str, is_leaf: Sequence[bool], heads: Sequence[int], tails: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Returns the longest distance from the leaves, by Kahn's algorithm, which also finds cycles."""
    n_nodes = len(is_leaf)
    waiting = np.zeros(n_nodes, dtype=np.int64)
    leaving: list[list[int]] = [[] for _ in range(n_nodes)]
    for head, below in zip(heads, tails):
        for tail in below:
            if tail >= 0:
                waiting[head] += 1
                leaving[tail].append(head)
    barren = [node for node in range(n_nodes) if waiting[node] == 0 and not is_leaf[node]]
    if barren:
        raise ValueError(
            f"{who}: every node but the leaves must be the head of an edge, got none into node {barren[0]}; "
            "add an edge, or leave the node out"
        )
    levels = np.zeros(n_nodes, dtype=np.int64)
    ready = [node for node in range(n_nodes) if waiting[node] == 0]
    n_done = 0
    while ready:
        node = ready.pop()
        n_done += 1
        for head in leaving[node]:
            levels[head] = max(levels[head], levels[node] + 1)
            waiting[head] -= 1
            if waiting[head] == 0:
                ready.append(head)
    if n_done < n_nodes:
        stuck = int(np.flatnonzero(waiting > 0)[0])
        raise ValueError(
            f"{who}: edges must not form a cycle, got one through or before node {stuck}; remove an edge of it"
        )
    return levels


def _check_all_needed(
    who: str, n_nodes: int, heads: Sequence[int], tails: Sequence[tuple[int, ...]], goal: int
) -> None:
    into: dict[int, list[tuple[int, ...]]] = {}
    for head, below in zip(heads, tails):
        into.setdefault(head, []).append(below)
    seen, stack = {goal}, [goal]
    while stack:
        for below in into.get(stack.pop(), []):
            for tail in below:
                if tail >= 0 and tail not in seen:
                    seen.add(tail)
                    stack.append(tail)
    if len(seen) < n_nodes:
        dangling = min(set(range(n_nodes)) - seen)
        raise ValueError(
            f"{who}: the goal must be reachable from every node, got node {dangling}, from which it is not; "
            "add an edge, or leave the node out"
        )
