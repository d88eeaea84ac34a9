"""THE TABLE of structures: potentials, all members by brute force, and the recursion once more in plain Python.

A row's `members` knows nothing of hypergraphs: it lists the structures from their definition. Its `recursion` writes
the dynamic program down as a textbook does, over a `smooth_max` of a list of numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om

Parts = tuple[np.ndarray, ...]  # the components of one item's potentials, or of one structure


@dataclass(frozen=True, eq=False)
class StructureCase:
    name: str
    structure: om.Structure
    draw: Callable[[torch.Generator, int], Any]  # (generator, batch) -> float64 potentials
    members: Callable[..., list[Parts]]  # (parts of one item, *its lengths) -> every structure
    recursion: Callable[..., float]  # (smooth_max, parts of one item, *its lengths) -> DP_Ω
    n_members: Callable[..., int]  # (*lengths) -> the closed form
    lengths: Sequence[tuple[int, ...]]  # one tuple per item of the batch; () where the structure has no lengths
    largest_degree: int  # of a node, for the bounds
    most_heads: int  # nodes in one derivation, for the bounds

    def __str__(self) -> str:
        return self.name

    def potentials(self, seed: int = 0) -> Any:
        return self.draw(torch.Generator().manual_seed(seed), len(self.lengths))

    def options(self) -> dict[str, Any]:
        """The keyword `lengths`, where the structure has any."""
        n_axes = len(self.lengths[0])
        if n_axes == 0:
            return {}
        tensors = tuple(torch.tensor(axis) for axis in zip(*self.lengths))
        return {"lengths": tensors[0] if n_axes == 1 else tensors}


def parts_of(potentials: Any) -> tuple[Tensor, ...]:
    """The tensors that make up potentials, or weights."""
    return (potentials,) if isinstance(potentials, Tensor) else tuple(potentials)


def like(potentials: Any, parts: Sequence[Tensor]) -> Any:
    """Tensors as the type of the potentials."""
    return parts[0] if isinstance(potentials, Tensor) else type(potentials)(*parts)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# Chains.


def chain_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    found = []
    for tags in itertools.product(range(theta.shape[-1]), repeat=n):
        y = np.zeros_like(theta)
        for place, tag in enumerate(tags):
            y[place, tags[place - 1] if place else 0, tag] = 1
        found.append((y,))
    return found


def chain_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values = [theta[0, 0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + theta[place, i, j] for i in tags]) for j in tags]
    return smooth_max(values)


def factored_members(parts: Parts, n: int) -> list[Parts]:
    found = []
    for tags in itertools.product(range(parts[0].shape[-1]), repeat=n):
        emissions, transitions, start, end = (np.zeros_like(part) for part in parts)
        for place, tag in enumerate(tags):
            emissions[place, tag] = 1
            if place:
                transitions[tags[place - 1], tag] += 1
        start[tags[0]] = end[tags[-1]] = 1
        found.append((emissions, transitions, start, end))
    return found


def factored_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    emissions, transitions, start, end = parts
    tags = range(len(start))
    values = [start[j] + emissions[0, j] for j in tags]
    for place in range(1, n):
        values = [smooth_max([values[i] + transitions[i, j] + emissions[place, j] for i in tags]) for j in tags]
    return smooth_max([values[j] + end[j] for j in tags])


def draw_factored(generator: torch.Generator, batch: int) -> Any:
    emissions, transitions = normal(generator, batch, 4, 3), normal(generator, batch, 3, 3)
    return om.Chain.from_emissions(emissions, transitions, normal(generator, batch, 3), normal(generator, batch, 3))


# Semi-Markov chains.


def semi_markov_members(parts: Parts, n: int) -> list[Parts]:
    (theta,) = parts
    k, c = theta.shape[1], theta.shape[-1]
    found = []
    for cuts in itertools.product([0, 1], repeat=n - 1):
        ends = [*(place for place, cut in enumerate(cuts) if cut), n - 1]
        durations = np.diff([-1, *ends])
        if max(durations) > k:
            continue
        for tags in itertools.product(range(c), repeat=len(ends)):
            y = np.zeros_like(theta)
            for number, (last, duration, tag) in enumerate(zip(ends, durations, tags)):
                y[last, duration - 1, tags[number - 1] if number else 0, tag] = 1
            found.append((y,))
    return found


def semi_markov_recursion(smooth_max: Callable, parts: Parts, n: int) -> float:
    (theta,) = parts
    tags = range(theta.shape[-1])
    values: list[list[float]] = []
    for last in range(n):
        here = []
        for j in tags:
            scores = []
            for k in range(min(theta.shape[1], last + 1)):
                if k == last:
                    scores.append(theta[last, k, 0, j])
                else:
                    scores += [values[last - k - 1][i] + theta[last, k, i, j] for i in tags]
            here.append(smooth_max(scores))
        values.append(here)
    return smooth_max(values[n - 1])


def semi_markov_count(n: int, k: int = 2, c: int = 2) -> int:
    """f(n) = c Σ_d f(n − d): the first segment, then the rest."""
    ways = [1]
    for m in range(1, n + 1):
        ways.append(c * sum(ways[m - d] for d in range(1, min(k, m) + 1)))
    return ways[n]


# A graph and a hypergraph of a user's.

DAG_EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (3, 4), (2, 4)]


def dag_members(parts: Parts) -> list[Parts]:
    found: list[Parts] = []
    for chosen in itertools.product([0, 1], repeat=len(DAG_EDGES)):
        used = [edge for edge, on in zip(DAG_EDGES, chosen) if on]
        node, walked = 0, 0
        while any(tail == node for tail, _ in used) and walked < len(used):
            leaving = [head for tail, head in used if tail == node]
            if len(leaving) != 1:
                break
            node, walked = leaving[0], walked + 1
        if node == 4 and walked == len(used):
            found.append((np.array(chosen, dtype=float),))
    return found


def dag_recursion(smooth_max: Callable, parts: Parts) -> float:
    values = {0: 0.0}
    for node in range(1, 5):
        into = [(tail, score) for (tail, head), score in zip(DAG_EDGES, parts[0]) if head == node]
        values[node] = smooth_max([values[tail] + score for tail, score in into])
    return values[4]


def build_hypergraph() -> om.Hypergraph:
    """Edges of one and of two tails, a node that only some derivations need."""
    builder = om.HypergraphBuilder()
    a, b = builder.leaf(), builder.leaf()
    x, y, z, goal = builder.node(), builder.node(), builder.node(), builder.node()
    builder.edge(goal, x, z)  # 0
    builder.edge(x, a, b)  # 1
    builder.edge(x, a)  # 2
    builder.edge(z, y, b)  # 3
    builder.edge(y, b)  # 4
    builder.edge(goal, z)  # 5
    builder.edge(y, a, a)  # 6
    builder.edge(z, a)  # 7
    return builder.build(goal)


def hypergraph_members(parts: Parts) -> list[Parts]:
    of_x, of_y = [[1], [2]], [[4], [6]]
    of_z = [[3, *y] for y in of_y] + [[7]]
    of_goal = [[0, *x, *z] for x in of_x for z in of_z] + [[5, *z] for z in of_z]
    return [(np.bincount(edges, minlength=8).astype(float),) for edges in of_goal]


def hypergraph_recursion(smooth_max: Callable, parts: Parts) -> float:
    (s,) = parts
    x, y = smooth_max([s[1], s[2]]), smooth_max([s[4], s[6]])
    z = smooth_max([s[3] + y, s[7]])
    return smooth_max([s[0] + x + z, s[5] + z])


CASES = [
    StructureCase(
        "chain",
        om.Chain(),
        lambda g, b: normal(g, b, 4, 3, 3),
        chain_members,
        chain_recursion,
        lambda n: 3**n,
        [(4,), (1,), (3,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "factored chain",
        om.Chain(),
        draw_factored,
        factored_members,
        factored_recursion,
        lambda n: 3**n,
        [(3,), (1,), (4,)],
        largest_degree=3,
        most_heads=5,
    ),
    StructureCase(
        "semi-Markov",
        om.SemiMarkov(2),
        lambda g, b: normal(g, b, 4, 2, 2, 2),
        semi_markov_members,
        semi_markov_recursion,
        semi_markov_count,
        [(4,), (1,), (3,)],
        largest_degree=4,
        most_heads=5,
    ),
    StructureCase(
        "dag",
        om.Dag.from_edges(DAG_EDGES),
        lambda g, b: normal(g, b, len(DAG_EDGES)),
        dag_members,
        dag_recursion,
        lambda: 6,
        [(), ()],
        largest_degree=3,
        most_heads=4,
    ),
    StructureCase(
        "hypergraph",
        build_hypergraph(),
        lambda g, b: normal(g, b, 8),
        hypergraph_members,
        hypergraph_recursion,
        lambda: 9,
        [(), ()],
        largest_degree=2,
        most_heads=4,
    ),
]
