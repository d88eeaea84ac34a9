"""The best arborescence (non-projective tree) in O(n²): Chu & Liu (1965), Edmonds (1967), growing one path.

The native search is in csrc/arborescence.hpp, where the algorithm is explained; here is its twin, step for step, so
that both break ties alike: the lowest node wins, and a contracted node counts as the lowest of its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept

_FREE, _ON_PATH, _ATTACHED = range(3)


@dataclass(frozen=True, eq=False)
class BestArborescenceProgram(Program):
    """The hard program over arcs (batch, N + 1, N + 1): the score of the best tree, and the tree."""

    single_root: bool
    lengths: Tensor  # (batch,), int64, on the CPU

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Of the best tree; the tree is the state."""
        scores = parts[0].contiguous()
        if not routing.in_native_memory(scores):
            return self._by_twin(scores)
        value, arcs = scores.new_empty(scores.shape[0]), torch.empty_like(scores)
        size, lengths = scores.shape[1], self.lengths.contiguous()
        routing.native.arborescence_best(
            scores.element_size(),
            routing.address(scores),
            routing.address(lengths),
            routing.address(value),
            routing.address(arcs),
            size,
            int(self.single_root),
            scores.shape[0],
            8 * size**2,  # the cost of an item
            torch.get_num_threads(),
        )
        return value, (arcs,)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """The tree."""
        return Swept((state[0].clone(),), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """The best tree does not move; where it is NaN, so is its derivative."""
        return Swept((0 * state[0],), (), ())

    def _by_twin(self, scores: Tensor) -> tuple[Tensor, State]:
        arcs = np.zeros(tuple(scores.shape))
        value = np.full(scores.shape[0], -np.inf)
        for item, (theta, n) in enumerate(zip(scores.detach().double().cpu().numpy(), self.lengths.tolist())):
            read = theta[: n + 1, 1 : n + 1][np.arange(n + 1)[:, None] != np.arange(1, n + 1)]
            if not (read < np.inf).all():
                value[item], arcs[item] = np.nan, np.nan
                continue
            heads = best_heads(theta[: n + 1, : n + 1], self.single_root)
            if heads is not None:
                arcs[item, heads, np.arange(1, n + 1)] = 1
                value[item] = theta[heads, np.arange(1, n + 1)].sum()
        return torch.from_numpy(value).to(scores), (torch.from_numpy(arcs).to(scores),)


def best_heads(theta: np.ndarray, single_root: bool) -> np.ndarray | None:
    """The heads of words 1..n, from scores [head, modifier]; None where there is no tree."""
    n = len(theta) - 1
    graph = _Contracted(theta, single_root)
    root_is_taken = False
    for start in range(1, n + 1):
        if graph.state[start] != _FREE:
            continue
        path = [start]
        graph.state[start] = _ON_PATH
        while path:
            head = graph.choose(path[-1])
            if head is None or (head == 0 and single_root and root_is_taken):
                return None
            root_is_taken |= head == 0
            if head == 0 or graph.state[head] == _ATTACHED:
                graph.state[path] = _ATTACHED
                path = []
            elif graph.state[head] == _FREE:
                graph.state[head] = _ON_PATH
                path.append(head)
            else:
                begin = path.index(head)
                path = [*path[:begin], graph.contract(path[begin:])]
    return graph.heads()


class _Contracted:
    """A graph whose nodes sit in slots; a contracted node takes the lowest slot of its nodes."""

    def __init__(self, theta: np.ndarray, single_root: bool) -> None:
        size = len(theta)
        self.single_root = single_root
        self.gain = theta.T.copy()  # [slot, head]: what the best arc from one node to the other gains
        np.fill_diagonal(self.gain, -np.inf)
        self.arc = np.arange(size * size).reshape(size, size).T.copy()  # and which it is, as head · size + modifier
        self.state = np.full(size, _FREE)
        self.active = list(range(1, size))
        self.node = list(range(size))  # in each slot
        self.taken = [0.0] * size  # per node, contracted ones behind the words
        self.enters = [-1] * size
        self.up = [-1] * size
        self.members: dict[int, list[int]] = {}

    def choose(self, slot: int) -> int | None:
        """The best head; with a single root among words first."""
        places = self.active if self.single_root else [0, *self.active]
        head = places[int(self.gain[slot, places].argmax())]
        if self.gain[slot, head] == -np.inf:
            head = 0
        if self.gain[slot, head] == -np.inf:
            return None
        node = self.node[slot]
        self.taken[node], self.enters[node] = float(self.gain[slot, head]), int(self.arc[slot, head])
        return head

    def contract(self, cycle: list[int]) -> int:
        """Makes one node of the slots in a cycle; returns its slot."""
        slot, made = min(cycle), len(self.taken)
        self.members[made] = [self.node[s] for s in cycle]
        for node in self.members[made]:
            self.up[node] = made
        into, names = self.gain[slot] - self.taken[self.node[slot]], self.arc[slot]
        for other in cycle:
            gain = self.gain[other] - self.taken[self.node[other]]
            better = (gain > into) & (other != slot)
            into, names = np.where(better, gain, into), np.where(better, self.arc[other], names)
        self.active = [s for s in self.active if s == slot or s not in cycle]
        rest = [s for s in self.active if s != slot]
        for other in cycle:
            better = self.gain[rest, other] > self.gain[rest, slot]
            self.gain[rest, slot] = np.where(better, self.gain[rest, other], self.gain[rest, slot])
            self.arc[rest, slot] = np.where(better, self.arc[rest, other], self.arc[rest, slot])
        self.gain[slot], self.arc[slot] = into, names
        self.gain[slot, slot] = -np.inf
        self.node[slot] = made
        self.taken.append(0.0)
        self.enters.append(-1)
        self.up.append(-1)
        return slot

    def heads(self) -> np.ndarray:
        """From the outermost nodes in: the arc into a node replaces that of the cycle into the same word."""
        size = len(self.gain)
        found = np.full(size, -1)
        waiting = [self.node[slot] for slot in self.active]
        while waiting:
            outer = waiting.pop()
            head, inner = divmod(self.enters[outer], size)
            found[inner] = head
            while inner != outer:
                waiting += [node for node in self.members[self.up[inner]] if node != inner]
                inner = self.up[inner]
        return found[1:]
