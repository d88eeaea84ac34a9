"""A topology whose edges are scored by parts: what a structure gives to the engine.

    score of edge e = Σ over the components of the potentials of the part that e touches

A part may be touched by many edges (a transition by every position, a span by every split) or by none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.topology import Topology


class Incidence(NamedTuple):
    """Which edges touch which part of one component; at most one part per edge."""

    edges: Tensor | None  # (touching,), None where every edge touches one
    parts: Tensor  # (touching,): places in the flattened component
    n_parts: int


@dataclass(frozen=True, eq=False)
class Lattice:
    """A topology and one incidence per component of the potentials."""

    topology: Topology
    components: tuple[Incidence, ...]
    parts_are_edges: bool = (
        False  # every part is touched by exactly one edge: marginals of parts determine those of edges
    )
    _on_device: dict[torch.device, tuple[Incidence, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def from_parts(
        cls, topology: Topology, parts: list[np.ndarray], sizes: list[int], *, parts_are_edges: bool = False
    ) -> Lattice:
        """`parts` gives, per component, the part that each edge of the description touches, −1 for none."""
        order = topology.edge_order.numpy()
        components = []
        for part, size in zip(parts, sizes):
            part = np.asarray(part)[order]
            touching = part >= 0
            edges = None if touching.all() else torch.from_numpy(np.flatnonzero(touching))
            components.append(Incidence(edges, torch.from_numpy(part[touching]), size))
        return cls(topology, tuple(components), parts_are_edges)

    def scores_of_edges(self, parts: tuple[Tensor, ...]) -> Tensor:
        """Parts, each (batch, *event), to edges (batch, edges); differentiable."""
        total = None
        for part, (edges, index, _) in zip(parts, self._components_on(parts[0].device)):
            found = part.flatten(1).index_select(1, index)
            if edges is not None:
                found = found.new_zeros(found.shape[0], self.topology.n_edges).index_copy(1, edges, found)
            total = found if total is None else total + found
        assert total is not None
        return total

    def sum_over_edges(self, edges: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The adjoint: what edges (batch, edges) amount to on parts shaped as `like`; differentiable."""
        found = []
        for part, (touching, index, size) in zip(like, self._components_on(edges.device)):
            chosen = edges if touching is None else edges.index_select(1, touching)
            total = edges.new_zeros(edges.shape[0], size).index_add(1, index, chosen)
            found.append(total.reshape(edges.shape[0], *part.shape[1:]))
        return tuple(found)

    def _components_on(self, device: torch.device) -> tuple[Incidence, ...]:
        if device not in self._on_device:
            self._on_device[device] = tuple(
                Incidence(None if edges is None else edges.to(device), index.to(device), size)
                for edges, index, size in self.components
            )
        return self._on_device[device]
