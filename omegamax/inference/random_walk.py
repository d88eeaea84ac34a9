"""Random structures: from the goal down, every visited node draws one of its edges with the local weights q.

For the entropy this draws from the Gibbs distribution; for a sparse Ω only structures of non-zero probability appear.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.inference.topology import Topology


def walk(
    topology: Topology, backpointers: Tensor, goals: Tensor, n_samples: int, generator: torch.Generator | None
) -> Tensor:
    """Counts of edges, shape (n_samples, batch, edges). An item without any structure gives zeros."""
    batch = backpointers.shape[0]
    tails = topology.tails_on(backpointers.device)
    edges = backpointers.new_zeros(n_samples * batch, topology.n_edges)
    visits = backpointers.new_zeros(n_samples * batch, topology.n_nodes + 1, dtype=torch.int32)
    visits.scatter_(1, goals.repeat(n_samples).unsqueeze(1), 1)
    for stage in reversed(topology.stages):
        here = visits[:, stage.nodes]
        while (here > 0).any():  # more than once where a derivation visits a node more than once
            walker, node = here.nonzero(as_tuple=True)
            local = backpointers[:, stage.edges].unflatten(1, (stage.n_nodes, stage.degree))[walker % batch, node]
            chosen = stage.edges.start + node * stage.degree + draw(local, generator)
            alive = local.sum(-1) > 0
            walker, node, chosen = walker[alive], node[alive], chosen[alive]
            edges.index_put_((walker, chosen), edges.new_ones(()), accumulate=True)
            one = visits.new_ones(())
            for tail in tails:
                visits.index_put_((walker, tail[chosen]), one, accumulate=True)
            here -= (here > 0).to(here.dtype)
    return edges.unflatten(0, (n_samples, batch))


def draw(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index per row, with probability proportional to its weight; never one of weight zero."""
    total = weights.double().cumsum(-1)
    level = torch.rand(weights.shape[0], 1, generator=generator, dtype=torch.float64, device=weights.device)
    # The comparison is strict, so an entry of weight zero, whose total equals its predecessor's, is never first.
    return (total > level * total[:, -1:]).to(torch.uint8).argmax(-1)
