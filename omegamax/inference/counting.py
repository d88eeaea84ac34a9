"""How many derivations there are, in exact integers, and all of them, where they are few."""

from __future__ import annotations

import itertools

import numpy as np

from omegamax.inference.topology import Topology


def count(topology: Topology, allowed: np.ndarray, goal: int) -> int:
    """Derivations of the goal that use allowed edges only; `allowed` is (edges,) boolean."""
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


def derivations(topology: Topology, allowed: np.ndarray, goal: int) -> list[list[int]]:
    """Every derivation of the goal as a list of edges."""
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
