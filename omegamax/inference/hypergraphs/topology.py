"""The shape of a dynamic program: nodes in topological order, and hyperedges with one head and one or two tails.

Nodes and edges are renumbered so that a sweep reads and writes slices. A *stage* is a set of nodes that do not depend
on each other and have the same number of incoming edges, so that its edges form a matrix (nodes, degree), and the local
problems of a stage are rows for a regularizer: no padding, no ragged loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Stage(NamedTuple):
    """Nodes of one level and one degree; `edges` reads as a (nodes, degree) matrix."""

    nodes: slice
    edges: slice
    degree: int

    @property
    def n_nodes(self) -> int:
        return self.nodes.stop - self.nodes.start


@dataclass(frozen=True, eq=False)
class Topology:
    """Leaves (value 0) come first, then barren nodes (no way in: value −inf), then the stages."""

    n_leaves: int
    n_nodes: int
    stages: tuple[Stage, ...]
    tails: Tensor  # (1 or 2, edges): nodes; a missing second tail is node number n_nodes, whose value is 0
    node_number: Tensor  # (nodes,): number here of each node of the description
    edge_order: Tensor  # (edges,): edge of the description at each place here
    _on_device: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False)

    @property
    def n_edges(self) -> int:
        return self.tails.shape[1]

    @property
    def first_head(self) -> int:
        """The number of the first node that has incoming edges."""
        return self.stages[0].nodes.start if self.stages else self.n_nodes

    def tails_on(self, device: torch.device) -> Tensor:
        """Returns `tails` on a device, to which they are copied once."""
        return self._indices_on(device)[0]

    def heads_on(self, device: torch.device) -> Tensor:
        """Returns `heads()` on a device, to which they are copied once."""
        return self._indices_on(device)[1]

    def _indices_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self._on_device:
            with torch.inference_mode(False):  # a copy made in inference mode could not be used in training
                self._on_device[device] = self.tails.to(device), self.heads().to(device)
        return self._on_device[device]

    def heads(self) -> Tensor:
        """Returns the head of every edge, (edges,)."""
        heads = torch.empty(self.n_edges, dtype=torch.long)
        for nodes, edges, degree in self.stages:
            heads[edges] = torch.arange(nodes.start, nodes.stop).repeat_interleave(degree)
        return heads

    def first_edges(self) -> Tensor:
        """Returns the first edge into each node, and after the last node the number of edges: (nodes + 1,)."""
        return torch.searchsorted(self.heads(), torch.arange(self.n_nodes + 1))

    @classmethod
    def from_edges(
        cls,
        levels: Sequence[int] | np.ndarray,
        heads: Sequence[int] | np.ndarray,
        tails: np.ndarray,
        leaves: Sequence[int] | np.ndarray,
    ) -> Topology:
        """Makes a topology from its edges.

        `levels` (nodes,) is larger at a head than at its tails; `tails` is (edges, 1 or 2) with −1 for a missing
        second tail. Edges into one node keep their order: ties of the hard maximum go to the first.
        """
        levels, heads = np.asarray(levels, dtype=np.int64), np.asarray(heads, dtype=np.int64)
        n_nodes = len(levels)
        degree = np.bincount(heads, minlength=n_nodes)
        is_leaf = np.zeros(n_nodes, dtype=bool)
        is_leaf[np.asarray(leaves, dtype=np.int64)] = True
        kind = np.where(is_leaf, 0, np.where(degree == 0, 1, 2))
        node_order = np.lexsort((np.arange(n_nodes), degree, np.where(kind == 2, levels, 0), kind))
        node_number = np.empty(n_nodes, dtype=np.int64)
        node_number[node_order] = np.arange(n_nodes)
        edge_order = np.lexsort((np.arange(len(heads)), node_number[heads]))
        numbered = np.where(tails >= 0, node_number[tails], n_nodes)[edge_order]
        return cls(
            n_leaves=int(is_leaf.sum()),
            n_nodes=n_nodes,
            stages=_stages(kind[node_order], levels[node_order], degree[node_order]),
            tails=torch.from_numpy(np.ascontiguousarray(numbered.T)),
            node_number=torch.from_numpy(node_number),
            edge_order=torch.from_numpy(edge_order),
        )


def _stages(kind: np.ndarray, levels: np.ndarray, degree: np.ndarray) -> tuple[Stage, ...]:
    """Cuts the ordered nodes where level or degree changes."""
    first = int(np.searchsorted(kind, 2))
    if first == len(kind):
        return ()
    change = (np.diff(levels[first:]) != 0) | (np.diff(degree[first:]) != 0)
    starts = first + np.concatenate([[0], np.flatnonzero(change) + 1])
    stops = np.append(starts[1:], len(kind))
    stages, edge = [], 0
    for start, stop in zip(starts.tolist(), stops.tolist()):
        d = int(degree[start])
        stages.append(Stage(slice(start, stop), slice(edge, edge + d * (stop - start)), d))
        edge += d * (stop - start)
    return tuple(stages)
