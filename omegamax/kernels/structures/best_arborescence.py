"""The best arborescence (non-projective tree) in O(n²): Chu & Liu (1965), Edmonds (1967), growing one path.

The algorithm is explained in csrc/arborescences/arborescence.hpp. The reference takes the same steps in NumPy, so that
both break ties alike: the lowest node wins, and a contracted node counts as the lowest of its nodes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omegamax.kernels.structures.structure_kernel import launch, search_kernel

_FREE, _ON_PATH, _ATTACHED = range(3)


@search_kernel
def best_arborescence(scores: Tensor, lengths: Tensor, *, single_root: bool) -> tuple[Tensor, Tensor]:
    """Finds the value (batch,) and the arcs (batch, N + 1, N + 1), 0/1, of the best tree of each item.

    An item without a tree has the value −inf and no arcs; one with NaN or +inf among its arcs gives NaN.
    """
    arcs = np.zeros(tuple(scores.shape))
    value = np.full(scores.shape[0], -np.inf)
    for item, (theta, n) in enumerate(zip(scores.detach().double().cpu().numpy(), lengths.tolist())):
        read = theta[: n + 1, 1 : n + 1][np.arange(n + 1)[:, None] != np.arange(1, n + 1)]
        if not (read < np.inf).all():
            value[item], arcs[item] = np.nan, np.nan
            continue
        heads = best_heads(theta[: n + 1, : n + 1], single_root)
        if heads is not None:
            arcs[item, heads, np.arange(1, n + 1)] = 1
            value[item] = theta[heads, np.arange(1, n + 1)].sum()
    return torch.from_numpy(value).to(scores), torch.from_numpy(arcs).to(scores)


@best_arborescence.twin
def _(scores: Tensor, lengths: Tensor, *, single_root: bool) -> tuple[Tensor, Tensor]:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    n_items, size = scores.shape[:2]
    value, arcs = scores.new_empty(n_items), torch.empty_like(scores)
    launch(
        "arborescence_best",
        scores,
        lengths,
        size,
        int(single_root),
        value,
        arcs,
        itemsize=scores.element_size(),
        n_items=n_items,
        cost=8 * size**2,
    )
    return value, arcs


def best_heads(theta: np.ndarray, single_root: bool) -> np.ndarray | None:
    """Finds the heads of words 1..n, from scores [head, modifier]; None where there is no tree."""
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
        self.node = list(range(size))  # the node in each slot
        self.taken = [0.0] * size  # the score of the arc chosen into each node; contracted nodes follow the words
        self.enters = [-1] * size
        self.up = [-1] * size
        self.members: dict[int, list[int]] = {}

    def choose(self, slot: int) -> int | None:
        """Chooses the best head; with a single root, the root only if no word can be the head."""
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
        """Expands contracted nodes, the outermost first: the arc into a node replaces a cycle's arc into that word."""
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
