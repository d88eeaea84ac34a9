"""Paths in a directed acyclic graph that the user gives.

    potentials (..., E): one score per edge, in the order in which the edges were given

A structure is a path from the source to the goal, 0/1 per edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any

import torch
from torch import Tensor

from omegamax.structures.hypergraph import Hypergraph, compile_edges
from omegamax.structures.plain_lists import plain_lists


@dataclass(frozen=True, eq=False, repr=False)
class Dag(Hypergraph):
    """Paths from one node to another; made by `Dag.from_edges`.

    Arguments:
        graph: what `from_edges` builds
        goal: the last node
    """

    @staticmethod
    def from_edges(
        edges: Tensor | Sequence[tuple[int, int]],
        *,
        n_nodes: int | None = None,
        source: int | None = None,
        goal: int | None = None,
    ) -> Dag:
        """Makes a graph of edges (tail, head); by default paths go from node 0, the source, to the last node, the goal.

        Arguments:
            edges: pairs (tail, head), tails before heads in some order
            n_nodes: how many nodes there are; None takes the largest number
            source: where paths begin; None is node 0
            goal: where paths end; None is the last node

        >>> diamond = Dag.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
        >>> diamond.map(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0., 1., 0., 1.])
        """
        pairs = [(index(tail), index(head)) for tail, head in plain_lists(edges)]
        if n_nodes is None:
            n_nodes = 1 + max((max(pair) for pair in pairs), default=0)
        for tail, head in pairs:
            if not (0 <= tail < n_nodes and 0 <= head < n_nodes):
                raise ValueError(
                    f"Dag.from_edges: nodes are numbered from 0 to {n_nodes - 1}, got edge ({tail}, {head}); "
                    "renumber the nodes or raise n_nodes"
                )
        source = 0 if source is None else index(source)
        if not 0 <= source < n_nodes:
            raise ValueError(
                f"Dag.from_edges: source must be one of the {n_nodes} nodes, got {source}; pass its number"
            )
        entered = [edge for edge in pairs if edge[1] == source]
        if entered:
            raise ValueError(
                f"Dag.from_edges: no edge may enter the source, got {entered[0]} into {source}; name another source"
            )
        goal = n_nodes - 1 if goal is None else index(goal)
        is_leaf = [node == source for node in range(n_nodes)]
        graph = compile_edges("Dag.from_edges", is_leaf, [h for _, h in pairs], [(t,) for t, _ in pairs], goal)
        return Dag(graph, goal)

    def from_path(self, nodes: Sequence[Any] | Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """Makes a structure (edges,), 0/1, from the nodes of a path, in order; a list of paths gives a batch.

        Where several edges join two nodes, the first of them is taken.

        >>> diamond = Dag.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
        >>> diamond.from_path([0, 2, 3])
        tensor([0., 1., 0., 1.])
        """
        path = plain_lists(nodes)
        if path and isinstance(path[0], list):
            return torch.stack([self.from_path(one, dtype=dtype) for one in path])
        topology = self.graph.topology
        node_of = {number: node for node, number in enumerate(topology.node_number.tolist())}
        ends = zip(topology.tails[0].tolist(), topology.heads().tolist(), self.graph.components[0].parts.tolist())
        edge_of: dict[tuple[int, int], int] = {}
        for tail, head, edge in sorted(ends, key=lambda end: -end[2]):
            edge_of[node_of[tail], node_of[head]] = edge
        missing = [pair for pair in pairwise(path) if pair not in edge_of]
        source = node_of[0]  # the only leaf
        if missing or not path or (path[0], path[-1]) != (source, self.goal):
            raise ValueError(
                f"Dag.from_path: a path goes along edges from the source {source} to the goal {self.goal}, got {path}; "
                + (f"there is no edge {missing[0]}" if missing else "let it begin and end there")
            )
        structure = torch.zeros(self.n_edges, dtype=dtype)
        structure[[edge_of[pair] for pair in pairwise(path)]] = 1
        return structure
