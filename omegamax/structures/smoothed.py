"""A structure and an Ω: the smoothed maximum that losses and attention layers are made from.

Ω_DP is defined on the marginals of *edges*: DP_Ω(θ) = <E, θ> − Σ_i ē_i Ω(E_i / ē_i), where E_i are the edges into node
i and ē_i is their sum. Where parts are edges this is a function of the weights. Where several edges share a part it is
not: then Ω_DP is known at a structure (zero), and a soft target is given by its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.inference.hypergraphs.derivations import derivation_of
from omegamax.inference.hypergraphs.sweeps import inside
from omegamax.operators.hard import Hard
from omegamax.smoothmax import SmoothMax, ValueAndWeights
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem
from omegamax.structures.smoothing import smoothing_of
from omegamax.structures.structure import Structure, check_structure


@dataclass(frozen=True, eq=False)
class Smoothed(SmoothMax):
    """max and argmax of a structure under a local Ω: `structure.max(potentials, regularizer)` as one object.

    Its methods take `mask`, `lengths` and `positions` as those of the structure do.
    """

    structure: Structure
    regularizer: SmoothMax

    def __post_init__(self) -> None:
        check_structure("Smoothed", self.structure)
        smoothing_of(type(self.structure).__name__, self.regularizer)

    @property
    def event_ndim(self) -> int:  # type: ignore[override]
        return self.structure.event_ndim

    def max(self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None) -> Tensor:
        """Computes DP_Ω. The marginals are computed when its gradient is needed."""
        return self.structure.max(scores, self.regularizer, lengths=lengths, mask=mask, positions=positions)

    def argmax(self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None) -> Any:
        """Computes ∇ DP_Ω, the expected structure."""
        return self.structure.argmax(scores, self.regularizer, lengths=lengths, mask=mask, positions=positions)

    def max_and_argmax(
        self, scores: Any, *, mask: Any = None, lengths: Any = None, positions: Any = None
    ) -> ValueAndWeights:
        options = {"mask": mask, "lengths": lengths, "positions": positions}
        return ValueAndWeights(self.max(scores, **options), self.argmax(scores, **options))

    def omega(
        self,
        weights: Any,
        *,
        lengths: Any = None,
        target_edges: Tensor | None = None,
        scores: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Tensor:
        """Computes Ω_DP at marginals of parts, or at `target_edges` (*batch, edges), ordered as in `backpointers`.

        Where `scores` are given, edges that they (or the mask) forbid are left out. This matters to an Ω that counts
        the entries of a row: Oscar.
        """
        problem = self.structure.bind(weights, lengths, positions=positions).compacted()
        smoothing = smoothing_of(type(self.structure).__name__, self.regularizer)
        regularizer = smoothing.regularizer
        if target_edges is None and not (
            isinstance(self.structure, DynamicProgram) and problem.lattice.parts_are_edges
        ):
            self._check_whole(problem)
            if regularizer.zero_at_corners:
                return problem.per_item(problem.parts[0].new_zeros(problem.n_items))
            parts = tuple(torch.where(part == -torch.inf, 0, part) for part in problem.parts)
            edges = derivation_of(type(self.structure).__name__, problem.lattice, problem.goals, parts)
            edges = edges.to(problem.parts[0].dtype)
        else:
            edges = _edges_of(problem) if target_edges is None else target_edges.reshape(problem.n_items, -1)
        out = None if scores is None else _forbidden(self.structure.bind(scores, lengths, mask, positions).compacted())
        total = edges.new_zeros(problem.n_items)
        for stage in problem.lattice.topology.stages:
            flow = edges[:, stage.edges].unflatten(1, (stage.n_nodes, stage.degree))
            visits = flow.sum(-1)
            visited = visits > 0
            share = flow / torch.where(visited, visits, 1).unsqueeze(-1)
            if out is None:
                omega = regularizer.omega(share)
            else:
                omega = regularizer.omega_without(
                    share, out[:, stage.edges].unflatten(1, (stage.n_nodes, stage.degree))
                )
            total = total + torch.where(visited, visits * omega, 0).sum(-1)
        gamma = smoothing.gamma.reshape(()) if isinstance(smoothing.gamma, Tensor) else smoothing.gamma
        return problem.per_item(gamma * total)

    def _check_whole(self, problem: Problem) -> None:
        for part in problem.parts:
            if not torch.equal(part, part.round()):
                raise ValueError(
                    f"{type(self.structure).__name__}: several edges share a part, so Ω is no function of soft "
                    "marginals of parts, got some that are not whole; pass target_edges="
                )


@torch.no_grad()
def _forbidden(problem: Problem) -> Tensor:
    """Returns the edges (batch, edges) that no allowed derivation of their head begins with."""
    topology, scores = problem.lattice.topology, problem.scores_of_edges()
    values = inside(topology, scores, Hard()).values
    return scores + values[:, topology.tails_on(scores.device)].sum(1) == -torch.inf


def _edges_of(problem: Problem) -> Tensor:
    """Returns marginals of edges from those of parts.

    An edge without a part (into the goal) gets what the other edges leave of its tail's marginal.
    """
    lattice, topology = problem.lattice, problem.lattice.topology
    known = lattice.scores_of_edges(problem.parts)
    touched = lattice.components[0].edges
    if touched is None:
        return known
    heads, tail = topology.heads().to(known.device), topology.tails_on(known.device)[0]
    left = known.new_zeros(problem.n_items, topology.n_nodes + 1)
    left = left.index_add(1, heads, known).index_add(1, tail, -known)
    free = torch.ones(topology.n_edges, dtype=torch.bool, device=known.device)
    free[touched.to(known.device)] = False
    into_goal = free & (heads == problem.goals.unsqueeze(1))
    return torch.where(into_goal, left.index_select(1, tail), known)
