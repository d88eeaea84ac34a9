"""Lattices: a structure gives the engine a topology whose edges are scored by parts.

    score of edge e = Σ over the components of the potentials of scale_e · (the part that e touches)

The scale is 1 unless the structure says otherwise (the step weights of an alignment). A part may be touched by many
edges (a transition by every position, a span by every split) or by none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.hypergraphs.topology import Topology


class Incidence(NamedTuple):
    """Says which edges touch which part of one component; an edge touches at most one."""

    edges: Tensor | None  # (touching,), None where every edge touches one
    parts: Tensor  # (touching,): places in the flattened component
    n_parts: int
    scales: Tensor | None = None  # (touching,) float64, None where all are 1


@dataclass(frozen=True, eq=False)
class Lattice:
    """A topology and one incidence per component of the potentials."""

    topology: Topology
    components: tuple[Incidence, ...]
    parts_are_edges: bool = (
        False  # every part is touched by exactly one edge: marginals of parts determine those of edges
    )
    _on_device: dict[torch.device, tuple[Incidence, ...]] = field(default_factory=dict, repr=False)
    _remembered: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list, repr=False)

    @classmethod
    def from_parts(
        cls,
        topology: Topology,
        parts: list[np.ndarray],
        sizes: list[int],
        *,
        parts_are_edges: bool = False,
        scales: np.ndarray | None = None,
    ) -> Lattice:
        """Makes a lattice from the part that each edge of the description touches, per component; −1 for none.

        `scales` (edges,) multiply the scores of the first component.
        """
        order = topology.edge_order.numpy()
        components = []
        for number, (part, size) in enumerate(zip(parts, sizes)):
            part = np.asarray(part)[order]
            touching = part >= 0
            edges = None if touching.all() else torch.from_numpy(np.flatnonzero(touching))
            scaled = None
            if number == 0 and scales is not None:
                scaled = torch.from_numpy(np.asarray(scales, dtype=np.float64)[order][touching])
            components.append(Incidence(edges, torch.from_numpy(part[touching]), size, scaled))
        return cls(topology, tuple(components), parts_are_edges)

    def scores_of_edges(self, parts: tuple[Tensor, ...]) -> Tensor:
        """Maps parts, each (batch, *event), to edges (batch, edges) in float64; differentiable."""
        total = None
        for part, (edges, index, _, scales) in zip(parts, self._components_on(parts[0].device)):
            found = part.flatten(1).index_select(1, index).to(_summed_in(part))
            if scales is not None:  # a forbidden part stays forbidden at scale 0
                found = torch.where(found == -torch.inf, found, found * scales.to(found.dtype))
            if edges is not None:
                found = found.new_zeros(found.shape[0], self.topology.n_edges).index_copy(1, edges, found)
            total = found if total is None else total + found
        assert total is not None
        return total

    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Lists the parts of every edge, numbered over all components: (edges + 1,) first entries, parts, scales."""
        if not self._remembered:
            edges, parts, scales, before = [], [], [], 0
            for touching, index, size, scaled in self.components:
                edges.append(torch.arange(self.topology.n_edges) if touching is None else touching)
                parts.append(index + before)
                scales.append(torch.ones(len(index), dtype=torch.float64) if scaled is None else scaled)
                before += size
            edge, order = torch.cat(edges).sort(stable=True)
            first = torch.searchsorted(edge, torch.arange(self.topology.n_edges + 1))
            self._remembered.append((first, torch.cat(parts)[order], torch.cat(scales)[order]))
        return self._remembered[0]

    def unscaled(self) -> Lattice:
        """Returns the same lattice with every scale 1."""
        if all(component.scales is None for component in self.components):
            return self
        return replace(
            self, components=tuple(c._replace(scales=None) for c in self.components), _on_device={}, _remembered=[]
        )

    def sum_over_edges(self, edges: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Maps edges (batch, edges) to parts shaped as `like`: the adjoint of `scores_of_edges`; differentiable."""
        found = []
        for part, (touching, index, size, scales) in zip(like, self._components_on(edges.device)):
            chosen = edges if touching is None else edges.index_select(1, touching)
            if scales is not None:
                chosen = chosen * scales.to(chosen.dtype)
            total = edges.new_zeros(edges.shape[0], size).index_add(1, index, chosen)
            found.append(total.reshape(edges.shape[0], *part.shape[1:]))
        return tuple(found)

    def sum_over_lists(self, edges: np.ndarray, sizes: np.ndarray, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Does the same for derivations given as lists: `sizes` says how many of the edges each one has."""
        row = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
        used = torch.from_numpy(np.ascontiguousarray(edges))
        found = []
        for part, (touching, index, size, scales) in zip(like, self.components):
            at, place = row, used
            if touching is not None:  # the place of each used edge among those that touch the component
                place = torch.searchsorted(touching, used).clamp(max=len(touching) - 1) if len(touching) else used[:0]
                touches = touching[place] == used if len(touching) else torch.zeros_like(used, dtype=torch.bool)
                at, place = row[touches], place[touches] if len(touching) else place
            weight = torch.ones(len(place), dtype=part.dtype) if scales is None else scales[place].to(part.dtype)
            total = torch.zeros(len(sizes), size, dtype=part.dtype).index_put_(
                (at, index[place]), weight, accumulate=True
            )
            found.append(total.reshape(len(sizes), *part.shape[1:]).to(part.device))
        return tuple(found)

    def _components_on(self, device: torch.device) -> tuple[Incidence, ...]:
        if device not in self._on_device:
            with torch.inference_mode(False):  # a copy made in inference mode could not be used in training
                self._on_device[device] = tuple(
                    Incidence(
                        None if edges is None else edges.to(device),
                        index.to(device),
                        size,
                        None if scales is None else scales.to(device),
                    )
                    for edges, index, size, scales in self.components
                )
        return self._on_device[device]


def _summed_in(part: Tensor) -> torch.dtype:
    """Returns the type in which scores add up: float64, or float32 on devices without it."""
    return torch.float32 if part.device.type == "mps" else torch.float64
