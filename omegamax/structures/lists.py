"""Structures as lists: the best, the probable, random ones, all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference import counting
from omegamax.inference.kbest import Ranked, Ranking, as_edges
from omegamax.inference.random_walk import walk
from omegamax.inference.sweeps import inside
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.structures.problem import Problem


class TopK(NamedTuple):
    """The best structures, best first."""

    structures: Any  # (*batch, k, *event), 0/1; zeros where there are fewer than k
    scores: Tensor  # (*batch, k); −inf where there are fewer than k


class Support(NamedTuple):
    """Structures of non-zero probability, the most probable first."""

    structures: Any  # (*batch, found, *event); zeros where an item has fewer than others
    probabilities: Tensor  # (*batch, found); zero there
    complete: Tensor  # (*batch,): False where the limit cut the list


class Marginal(NamedTuple):
    """argmax_Ω over the scores of all structures."""

    weights: Any  # (*batch, *event): the expected structure
    structures: Any  # (*batch, found, *event)
    probabilities: Tensor  # (*batch, found)
    complete: Tensor  # (*batch,): False where the limit cut the list; the weights are then those of the list


def topk(problem: Problem, k: int) -> TopK:
    """The k best structures, distinct and in exact order."""
    ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
    ranked = [ranking.top(item, k) for item in range(problem.n_items)]
    scores = _padded([r.scores for r in ranked], k, -torch.inf)
    return TopK(_structures(problem, ranked, k), problem.per_item(scores, after=(k,)))


def support(problem: Problem, regularizer: Regularizer, limit: int) -> Support:
    """Structures of non-zero probability in the random walk, ranked: k-best with log q for scores."""
    topology = problem.lattice.topology
    backpointers = inside(topology, problem.scores_of_edges(), regularizer).backpointers
    ranking = Ranking(topology, backpointers.log(), problem.goals)
    ranked = [ranking.top(item, limit) for item in range(problem.n_items)]
    width = max([1, *(len(r.scores) for r in ranked)])
    probabilities = _padded([r.scores for r in ranked], width, -torch.inf).exp()
    complete = torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape)
    return Support(_structures(problem, ranked, width), problem.per_item(probabilities, after=(width,)), complete)


def marginal(who: str, problem: Problem, regularizer: Regularizer, limit: int) -> Marginal:
    """argmax_Ω over all structures: the list of the best ones is extended until its last entry has no weight."""
    if isinstance(regularizer, Shannon) or getattr(regularizer, "alpha", 2) == 1:
        raise ValueError(
            f"{who}.marginal: regularizer must be sparse, got Shannon; under Shannon use argmax, its equal"
        )
    lattice = problem.lattice
    with torch.no_grad():
        ranking = Ranking(lattice.topology, problem.scores_of_edges(), problem.goals)
        ranked = [_until_weightless(ranking, item, regularizer, limit) for item in range(problem.n_items)]
        width = max([1, *(len(r.scores) for r in ranked)])
        edges = torch.stack([_edges(problem, r, width) for r in ranked])  # (batch, found, edges)
    used = edges > 0
    scores = torch.where(used, edges * problem.scores_of_edges().unsqueeze(1), 0).sum(-1)
    probabilities = regularizer.argmax(torch.where(used.any(-1), scores, -torch.inf))
    weights = (probabilities.unsqueeze(-1) * edges).sum(1)
    return Marginal(
        problem.dress(lattice.sum_over_edges(weights, problem.parts)),
        problem.dress(lattice.sum_over_edges(edges.flatten(0, 1), problem.parts), after=(width,)),
        problem.per_item(probabilities, after=(width,)),
        torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape),
    )


def _until_weightless(ranking: Ranking, item: int, regularizer: Regularizer, limit: int) -> Ranked:
    """A zero weight can be dropped without changing the others, so the first one ends the list."""
    k = min(16, limit)
    while True:
        found = ranking.top(item, k)
        weights = regularizer.argmax(torch.tensor(found.scores, dtype=torch.float64)) if found.scores else torch.ones(0)
        n_positive = int((weights > 0).sum())
        if found.complete or n_positive < len(found.scores):
            return Ranked(found.edges[:n_positive], found.scores[:n_positive], True)
        if k == limit:
            return found
        k = min(4 * k, limit)


def sample(problem: Problem, regularizer: Regularizer, n_samples: int, generator: torch.Generator | None) -> Any:
    """Random structures (n_samples, *batch, *event)."""
    topology = problem.lattice.topology
    backpointers = inside(topology, problem.scores_of_edges(), regularizer).backpointers
    edges = walk(topology, backpointers, problem.goals, n_samples, generator)
    parts = problem.lattice.sum_over_edges(edges.flatten(0, 1), problem.parts)
    return problem.dress(parts, before=(n_samples,))


def count(problem: Problem) -> Any:
    """How many structures have a score above −inf, in exact integers."""
    topology = problem.lattice.topology
    return problem.as_list([counting.count(topology, allowed, goal) for allowed, goal in _allowed(problem)])


def enumerate_all(who: str, problem: Problem, limit: int) -> Any:
    """All structures of every item (number, *event)."""
    topology = problem.lattice.topology
    found = []
    for allowed, goal in _allowed(problem):
        number = counting.count(topology, allowed, goal)
        if number > limit:
            raise ValueError(
                f"{who}.enumerate: at most limit={limit} structures are listed, got {number}; raise the limit, or take "
                "topk, sample or support"
            )
        edges = as_edges(counting.derivations(topology, allowed, goal), topology.n_edges, problem.parts[0])
        parts = problem.lattice.sum_over_edges(edges, problem.parts)
        found.append(problem.dressed(parts, (number,)))
    return problem.as_list(found)


def _allowed(problem: Problem) -> Iterator[tuple[np.ndarray, int]]:
    scores = problem.scores_of_edges().detach().cpu()
    for row, goal in zip(scores, problem.goals.tolist()):
        yield (row > -torch.inf).numpy(), goal


def _edges(problem: Problem, ranked: Ranked, width: int) -> Tensor:
    """Derivations as counts (width, edges), zeros at the end of a short list."""
    padding: list[list[int]] = [[]] * (width - len(ranked.edges))
    return as_edges(ranked.edges + padding, problem.lattice.topology.n_edges, problem.parts[0])


def _structures(problem: Problem, ranked: list[Ranked], width: int) -> Any:
    """One item at a time: edges may be many more than parts."""
    found = [problem.lattice.sum_over_edges(_edges(problem, r, width), problem.parts) for r in ranked]
    parts = tuple(torch.cat(component) for component in zip(*found)) if found else problem.parts
    return problem.dress(parts, after=(width,))


def _padded(numbers: list[list[float]], width: int, filler: float) -> Tensor:
    rows = [row + [filler] * (width - len(row)) for row in numbers]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(numbers), width)
