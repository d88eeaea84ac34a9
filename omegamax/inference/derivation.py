"""The derivation of a given structure: the edges that make up its parts."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.inference.lattice import Lattice
from omegamax.inference.sweeps import inside, outside
from omegamax.operators.shannon import Shannon

_PER_PART = 60.0  # e^−60: a derivation that leaves a part out weighs nothing in float64


def derivation_of(who: str, lattice: Lattice, goals: Tensor, structures: tuple[Tensor, ...]) -> Tensor:
    """Edges (batch, edges), 0/1, of structures given by their parts.

    Only edges whose parts all belong to the structure may be used, and each touched part is rewarded: the best
    derivation covers all of them. Summing over derivations instead of taking the best shows whether it is the only one.
    """
    structures = tuple(part.double() for part in structures)
    given = tuple(torch.where(part > 0, 0.0, -torch.inf) for part in structures)
    rewards = tuple(torch.full_like(part, _PER_PART) for part in structures)
    plain = lattice.unscaled()  # a reward is for being there, whatever the weight
    scores = plain.scores_of_edges(given) + plain.scores_of_edges(rewards)
    found = inside(lattice.topology, scores, Shannon())
    edges, *_ = outside(lattice.topology, found.backpointers, None, Shannon(), goals)
    covered = lattice.sum_over_edges(edges, structures)
    for part, cover in zip(structures, covered):
        if not torch.allclose(part, cover, rtol=0, atol=1e-3):
            wrong = int((part - cover).abs().flatten(1).amax(1).argmax())
            raise ValueError(
                f"{who}: structures must be 0/1 and consist of the parts of exactly one derivation, got something else "
                f"in item {wrong}; take them from map, topk, sample or enumerate, with the same lengths"
            )
    n_parts = torch.stack([part.flatten(1).sum(1) for part in plain.sum_over_edges(edges, structures)]).sum(0)
    value = found.values.gather(1, goals.unsqueeze(1)).squeeze(1)
    log_count = torch.where(n_parts > 0, value - _PER_PART * n_parts, 0)  # of the derivations that cover every part
    if (log_count.abs() > 1e-3).any():
        raise ValueError(
            f"{who}: the parts of a structure must determine its derivation, got parts that several derivations share; "
            "score it by its edges, with a Hypergraph"
        )
    return edges.round()
