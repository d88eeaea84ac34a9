"""Derivations of a hypergraph: how many there are, all of them where they are few, and that of a given structure."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.sweeps import inside, outside
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.operators.shannon import Shannon

_PER_PART = 60.0  # e^−60: a derivation that leaves a part out weighs nothing in float64


def count_derivations(topology: Topology, allowed: np.ndarray, goal: int) -> int:
    """Counts the derivations of the goal that use allowed edges only; `allowed` is (edges,) boolean."""
    ways = np.zeros(topology.n_nodes + 1, dtype=object)
    ways[: topology.n_leaves] = 1
    ways[-1] = 1
    tails = topology.tails.numpy()
    for stage in topology.stages:
        product = allowed[stage.edges].astype(object)
        for tail in tails:
            product = product * ways[tail[stage.edges]]
        ways[stage.nodes] = product.reshape(stage.n_nodes, stage.degree).sum(1)
        if stage.nodes.start <= goal < stage.nodes.stop:
            break
    return int(ways[goal])


def list_derivations(topology: Topology, allowed: np.ndarray, goal: int) -> list[list[int]]:
    """Lists every derivation of the goal as a list of edges."""
    known: dict[int, list[list[int]]] = {node: [[]] for node in (*range(topology.n_leaves), topology.n_nodes)}
    tails = topology.tails.numpy()
    for stage in topology.stages:
        edge = stage.edges.start
        for node in range(stage.nodes.start, stage.nodes.stop):
            found = []
            for number in range(edge, edge + stage.degree):
                if allowed[number]:
                    below = (known.get(tail, []) for tail in tails[:, number].tolist())
                    found += [[number, *itertools.chain(*chosen)] for chosen in itertools.product(*below)]
            known[node] = found
            edge += stage.degree
            if node == goal:
                return found
    return known.get(goal, [])


def derivation_of(who: str, lattice: Lattice, goals: Tensor, structures: tuple[Tensor, ...]) -> Tensor:
    """Finds the edges (batch, edges), 0/1, of structures given by their parts.

    Only edges whose parts all belong to the structure may be used, and each touched part is rewarded: the best
    derivation covers all of them. Summing over derivations instead of taking the best shows whether it is the only one.
    """
    structures = tuple(part.double() for part in structures)
    edges, value = _covering(lattice, goals, structures)
    derived = _covers(lattice, edges, structures)
    if not bool(derived.all()):
        raise ValueError(
            f"{who}: structures must be 0/1 and consist of the parts of exactly one derivation, got something else "
            f"in item {int((~derived).nonzero()[0])}; take them from map, topk, sample or enumerate, with the same "
            "lengths"
        )
    n_parts = torch.stack(
        [part.flatten(1).sum(1) for part in lattice.unscaled().sum_over_edges(edges, structures)]
    ).sum(0)
    log_count = torch.where(n_parts > 0, value - _PER_PART * n_parts, 0)  # of the derivations that cover every part
    if (log_count.abs() > 1e-3).any():
        raise ValueError(
            f"{who}: the parts of a structure must determine its derivation, got parts that several derivations share; "
            "score it by its edges, with a Hypergraph"
        )
    return edges.round()


def is_derived(lattice: Lattice, goals: Tensor, structures: tuple[Tensor, ...]) -> Tensor:
    """Says whether the parts are those of a derivation, (batch,)."""
    structures = tuple(part.double() for part in structures)
    return _covers(lattice, _covering(lattice, goals, structures)[0], structures)


def _covering(lattice: Lattice, goals: Tensor, structures: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Returns the expected edges of derivations that use given parts only, and the log of their sum.

    Each part counts as a reward.
    """
    given = tuple(torch.where(part > 0, 0.0, -torch.inf) for part in structures)
    rewards = tuple(torch.full_like(part, _PER_PART) for part in structures)
    plain = lattice.unscaled()  # the reward of a part does not depend on its scale
    scores = plain.scores_of_edges(given) + plain.scores_of_edges(rewards)
    found = inside(lattice.topology, scores, Shannon())
    edges, *_ = outside(lattice.topology, found.backpointers, None, Shannon(), goals)
    return edges, found.values.gather(1, goals.unsqueeze(1)).squeeze(1)


def _covers(lattice: Lattice, edges: Tensor, structures: tuple[Tensor, ...]) -> Tensor:
    covered = lattice.sum_over_edges(edges, structures)
    close = [((part - cover).abs() <= 1e-3).flatten(1).all(1) for part, cover in zip(structures, covered)]
    return torch.stack(close).all(0)
