"""The k best derivations of a hypergraph, lazily and in exact order.

Every node keeps its derivations found so far, best first, and a heap of candidates: for each incoming edge the first
combination of its tails' derivations that was not taken yet. The next derivation of a node may need the next ones of
its tails, and nothing is computed that the result does not need.

Huang & Chiang, "Better k-best parsing", IWPT 2005 (algorithm 3).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from omegamax import routing


class RankedDerivations(NamedTuple):
    """Derivations of one item, best first."""

    scores: np.ndarray  # (found,)
    edges: np.ndarray  # those of the first, then those of the second, ...
    sizes: np.ndarray  # (found,): how many edges each has
    complete: bool  # there are no others

    def cut(self, n: int, *, complete: bool) -> RankedDerivations:
        """Returns the first n derivations."""
        return RankedDerivations(self.scores[:n], self.edges[: self.sizes[:n].sum()], self.sizes[:n], complete)


def best_derivations(
    tails: np.ndarray,
    first: np.ndarray,
    scores: np.ndarray,
    values: np.ndarray,
    *,
    n_leaves: int,
    goal: int,
    k: int,
) -> RankedDerivations:
    """Finds the k best derivations of a node.

    Arguments:
        tails: (1 or 2, edges) int64, the tails of each edge; node number n_nodes stands for a missing second tail
        first: (nodes + 1,) int64, the first edge into each node
        scores: (edges,) float64
        values: (nodes + 1,) float64, the best score of each node
        n_leaves: the first nodes, which have no incoming edges and score 0
        goal: the node
        k: how many derivations are wanted
    """
    if routing.native is None:
        return KBest(tails, first, scores, values, n_leaves=n_leaves).top(goal, k)
    n_nodes = len(first) - 1
    arrays = tails.ctypes.data, first.ctypes.data
    numbers = scores.ctypes.data, values.ctypes.data
    best, edges, sizes, complete = routing.native.kbest(*arrays, *tails.shape, n_leaves, n_nodes, *numbers, goal, k)
    return RankedDerivations(
        np.frombuffer(best), np.frombuffer(edges, np.int64), np.frombuffer(sizes, np.int64), complete
    )


class Derivation(NamedTuple):
    """A way to derive a node; compares as heaps need: best score first, then the first edge, then low ranks."""

    cost: float  # minus the score
    edge: int
    ranks: tuple[int, ...]  # which derivation of each tail


class KBest:
    """The derivations of one item, found on demand: the specification of csrc/hypergraphs/kbest.hpp."""

    def __init__(
        self, tails: np.ndarray, first: np.ndarray, scores: np.ndarray, values: np.ndarray, *, n_leaves: int
    ) -> None:
        self._tails, self._n_nodes, self._n_leaves = tails, len(first) - 1, n_leaves
        self._first, self._scores, self._values = first, scores, values
        self._best = scores
        for tail in self._tails:  # in the order of the native sums, so that ties are broken alike
            self._best = self._best + values[tail]
        self._found: dict[int, list[Derivation]] = {}
        self._heap: dict[int, list[Derivation]] = {}
        self._pending: dict[int, list[tuple[int, tuple[int, ...]]]] = {}

    def top(self, goal: int, k: int) -> RankedDerivations:
        """Finds the k best derivations of a node."""
        scores: list[float] = []
        edges: list[list[int]] = []
        while len(scores) < k and self._values[goal] > -np.inf:
            derivation = self._nth(goal, len(scores))
            if derivation is None:
                break
            edges.append(self._edges(goal, len(scores)))
            scores.append(-derivation.cost)
        flat = np.array([edge for used in edges for edge in used], dtype=np.int64)
        sizes = np.array([len(used) for used in edges], dtype=np.int64)
        complete = len(scores) < k or self._nth(goal, k) is None
        return RankedDerivations(np.array(scores), flat, sizes, complete)

    def _nth(self, goal: int, rank: int) -> Derivation | None:
        """Returns derivation number `rank` (from 0) of a node, None where there are fewer."""
        stack = [(goal, rank)]  # explicit, because a chain of a thousand tags is a thousand calls deep
        while stack:
            node, wanted = stack[-1]
            if node not in self._found:
                self._open(node)
            if len(self._found[node]) > wanted:
                stack.pop()
                continue
            missing = self._settle(node)
            if missing is not None:
                stack.append(missing)
            elif self._heap[node]:
                self._take(node)
            else:
                stack.pop()
        found = self._found[goal]
        return found[rank] if len(found) > rank else None

    def _edges(self, goal: int, rank: int) -> list[int]:
        """Returns the edges of a derivation that `_nth` has found."""
        edges, stack = [], [(goal, rank)]
        while stack:
            node, chosen = stack.pop()
            if not self._is_inner(node):
                continue
            derivation = self._nth(node, chosen)  # a node's best one may not be built yet: only its score was needed
            assert derivation is not None
            edges.append(derivation.edge)
            stack.extend(zip(self._tails[:, derivation.edge].tolist(), derivation.ranks))
        return edges

    def _is_inner(self, node: int) -> bool:
        return self._n_leaves <= node < self._n_nodes

    def _open(self, node: int) -> None:
        self._found[node], self._heap[node], self._pending[node] = [], [], []
        if not self._is_inner(node):  # a leaf, or a missing tail, has one derivation: nothing
            self._found[node] = [Derivation(0.0, -1, ())]
            return
        edges = np.arange(self._first[node], self._first[node + 1])
        ranks = (0,) * len(self._tails)
        self._heap[node] = [
            Derivation(-score, edge, ranks)
            for edge, score in zip(edges.tolist(), self._best[edges].tolist())
            if score > -np.inf
        ]
        heapq.heapify(self._heap[node])

    def _take(self, node: int) -> None:
        """Moves the best candidate to the derivations, and notes which candidates follow it.

        After (i, j) follow (i, j + 1), and (i + 1, 0) if j = 0: so each combination is noted exactly once.
        """
        taken = heapq.heappop(self._heap[node])
        self._found[node].append(taken)
        first, *second = taken.ranks
        if not any(second):
            self._pending[node].append((taken.edge, (first + 1, *second)))
        if second:
            self._pending[node].append((taken.edge, (first, second[0] + 1)))

    def _settle(self, node: int) -> tuple[int, int] | None:
        """Pushes the noted candidates, or returns which derivation of which node must be found first."""
        noted = self._pending[node]
        while noted:
            edge, ranks = noted[-1]
            costs = [-float(self._scores[edge])]
            for tail, rank in zip(self._tails[:, edge].tolist(), ranks):
                if tail not in self._found:
                    return tail, rank
                if len(self._found[tail]) > rank:
                    costs.append(self._found[tail][rank].cost)
                elif self._heap[tail] or self._pending[tail]:
                    return tail, rank
                else:  # exhausted: this combination does not exist
                    break
            noted.pop()
            if len(costs) == 1 + len(ranks):
                heapq.heappush(self._heap[node], Derivation(sum(costs), edge, ranks))
        return None
