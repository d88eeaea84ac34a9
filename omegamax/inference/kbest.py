"""The k best derivations of a hypergraph, lazily and in exact order.

Every node keeps its derivations found so far, best first, and a heap of candidates: for each incoming edge the first
combination of its tails' derivations that was not taken yet. Asking a node for its next derivation may ask its tails
for theirs, and nothing is computed that the answer does not need.

Huang & Chiang, "Better k-best parsing", IWPT 2005 (algorithm 3).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.sweeps import inside
from omegamax.inference.topology import Topology
from omegamax.operators.hard import Hard


class Derivation(NamedTuple):
    """A way to derive a node; compares as heaps need: best score first, then the first edge, then low ranks."""

    cost: float  # minus the score
    edge: int
    ranks: tuple[int, ...]  # which derivation of each tail


class KBest:
    """Derivations of one item, on demand.

    `scores` is (edges,), `values` (nodes + 1,) the best score of each node, `first` (nodes + 1,) its first
    incoming edge.
    """

    def __init__(self, topology: Topology, first: np.ndarray, scores: np.ndarray, values: np.ndarray) -> None:
        self._tails, self._n_nodes, self._n_leaves = topology.tails.numpy(), topology.n_nodes, topology.n_leaves
        self._first, self._scores = first, scores
        self._best = scores + values[self._tails].sum(0)
        self._found: dict[int, list[Derivation]] = {}
        self._heap: dict[int, list[Derivation]] = {}
        self._pushed: dict[int, set[tuple[int, tuple[int, ...]]]] = {}
        self._successors: dict[int, list[tuple[int, tuple[int, ...]]]] = {}

    def nth(self, goal: int, rank: int) -> Derivation | None:
        """Derivation number `rank` (from 0) of a node, None where there are fewer."""
        stack = [(goal, rank)]  # explicit, because a chain of a thousand tags is a thousand calls deep
        while stack:
            node, wanted = stack[-1]
            if node not in self._found:
                self._open(node)
            if len(self._found[node]) > wanted:
                stack.pop()
                continue
            missing = self._settle_successors(node)
            if missing is not None:
                stack.append(missing)
            elif self._heap[node]:
                self._take(node)
            else:
                stack.pop()
        found = self._found[goal]
        return found[rank] if len(found) > rank else None

    def edges(self, goal: int, rank: int) -> list[int]:
        """The edges of a derivation that `nth` has found."""
        edges, stack = [], [(goal, rank)]
        while stack:
            node, chosen = stack.pop()
            if not self._is_inner(node):
                continue
            derivation = self.nth(node, chosen)  # a best one may not have been asked for: its score was known
            assert derivation is not None
            edges.append(derivation.edge)
            stack.extend(zip(self._tails[:, derivation.edge].tolist(), derivation.ranks))
        return edges

    def _is_inner(self, node: int) -> bool:
        return self._n_leaves <= node < self._n_nodes

    def _open(self, node: int) -> None:
        self._found[node], self._successors[node] = [], []
        if not self._is_inner(node):  # a leaf, or a missing tail, has one derivation: nothing
            self._found[node] = [Derivation(0.0, -1, ())]
            self._heap[node], self._pushed[node] = [], set()
            return
        edges = np.arange(self._first[node], self._first[node + 1])
        ranks = (0,) * len(self._tails)
        self._heap[node] = [
            Derivation(-score, edge, ranks)
            for edge, score in zip(edges.tolist(), self._best[edges].tolist())
            if score > -np.inf
        ]
        heapq.heapify(self._heap[node])
        self._pushed[node] = set()

    def _take(self, node: int) -> None:
        """Moves the best candidate to the derivations, and notes which candidates follow it."""
        taken = heapq.heappop(self._heap[node])
        self._found[node].append(taken)
        for place in range(len(taken.ranks)):
            ranks = (*taken.ranks[:place], taken.ranks[place] + 1, *taken.ranks[place + 1 :])
            if (taken.edge, ranks) not in self._pushed[node]:
                self._pushed[node].add((taken.edge, ranks))
                self._successors[node].append((taken.edge, ranks))

    def _settle_successors(self, node: int) -> tuple[int, int] | None:
        """Pushes the noted candidates; or says which derivation of which node must be known first."""
        noted = self._successors[node]
        while noted:
            edge, ranks = noted[-1]
            cost: float | None = -float(self._scores[edge])
            for tail, rank in zip(self._tails[:, edge].tolist(), ranks):
                if tail not in self._found:
                    return tail, rank
                if len(self._found[tail]) <= rank:
                    if self._heap[tail] or self._successors[tail]:
                        return tail, rank
                    cost = None  # exhausted: this combination does not exist
                    break
                cost = cost + self._found[tail][rank].cost  # type: ignore[operator]
            noted.pop()
            if cost is not None:
                heapq.heappush(self._heap[node], Derivation(cost, edge, ranks))
        return None


class Ranked(NamedTuple):
    """Derivations of one item, best first."""

    edges: list[list[int]]
    scores: list[float]
    complete: bool  # there are no others


class Ranking:
    """k-best for every item of a batch; asking for more goes on where it stopped."""

    def __init__(self, topology: Topology, scores: Tensor, goals: Tensor) -> None:
        scores = scores.detach().double().cpu()
        values = inside(topology, scores, Hard()).values.numpy()
        heads = topology.heads().numpy()
        first = np.searchsorted(heads, np.arange(topology.n_nodes + 1))
        self._goals = goals.tolist()
        self._items = [
            KBest(topology, first, s, v) if np.isfinite(v[goal]) else None
            for s, v, goal in zip(scores.numpy(), values, self._goals)
        ]

    def top(self, item: int, k: int) -> Ranked:
        """The k best derivations of one item."""
        kbest, goal = self._items[item], self._goals[item]
        edges: list[list[int]] = []
        scores: list[float] = []
        if kbest is None:
            return Ranked(edges, scores, True)
        while len(scores) < k:
            derivation = kbest.nth(goal, len(scores))
            if derivation is None:
                return Ranked(edges, scores, True)
            edges.append(kbest.edges(goal, len(scores)))
            scores.append(-derivation.cost)
        return Ranked(edges, scores, kbest.nth(goal, k) is None)


def as_edges(derivations: list[list[int]], n_edges: int, like: Tensor) -> Tensor:
    """Lists of edges as counts, shape (derivations, edges)."""
    counts = torch.zeros(len(derivations), n_edges, dtype=like.dtype)
    for row, edges in zip(counts, derivations):
        row.index_add_(0, torch.tensor(edges, dtype=torch.long), torch.ones(len(edges), dtype=like.dtype))
    return counts.to(like.device)
