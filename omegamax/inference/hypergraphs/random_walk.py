"""Random structures: from the goal down, every visited node draws one of its edges by the local weights q.

For the entropy this draws from the Gibbs distribution; for a sparse Ω only structures of non-zero probability appear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.hypergraphs.topology import Topology


class RandomDerivations(NamedTuple):
    """Random derivations, as lists of edges: sample by sample, and within a sample item by item."""

    edges: np.ndarray  # those of the first, then those of the second, ...
    sizes: np.ndarray  # (n_samples · batch,): how many edges each has; none where there is no structure


def walk(
    topology: Topology, backpointers: Tensor, goals: Tensor, n_samples: int, generator: torch.Generator | None
) -> RandomDerivations:
    """Draws random derivations of every item's goal."""
    batch = backpointers.shape[0]
    tails = topology.tails_on(backpointers.device)
    visits = backpointers.new_zeros(n_samples * batch, topology.n_nodes + 1, dtype=torch.int32)
    visits.scatter_(1, goals.repeat(n_samples).unsqueeze(1), 1)
    one = visits.new_ones(())
    walkers, edges = [goals[:0]], [goals[:0]]
    for stage in reversed(topology.stages):
        here = visits[:, stage.nodes]
        while True:  # more than once where a derivation visits a node more than once
            walker, node = here.nonzero(as_tuple=True)
            if not len(walker):
                break
            here[walker, node] -= 1
            local = backpointers[:, stage.edges].unflatten(1, (stage.n_nodes, stage.degree))[walker % batch, node]
            has_edge = local.sum(-1) > 0
            chosen = (stage.edges.start + node * stage.degree + draw(local, generator))[has_edge]
            walker = walker[has_edge]
            for tail in tails:
                visits.index_put_((walker, tail[chosen]), one, accumulate=True)
            walkers.append(walker)
            edges.append(chosen)
    order = torch.cat(walkers).argsort(stable=True)
    sizes = torch.bincount(torch.cat(walkers), minlength=n_samples * batch)
    return RandomDerivations(torch.cat(edges)[order].cpu().numpy(), sizes.cpu().numpy())


def draw(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draws one index per row with probability proportional to its weight; never one of weight zero."""
    total = weights.double().cumsum(-1)
    level = torch.rand(weights.shape[0], 1, generator=generator, dtype=torch.float64, device=weights.device)
    # The comparison is strict, so an entry of weight zero, whose total equals its predecessor's, is never first.
    return (total > level * total[:, -1:]).to(torch.uint8).argmax(-1)
