"""Structures as lists: the best, the probable, random ones, all of them.

Of an item whose scores are not all numbers every list is NaN; see `not_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference import counting
from omegamax.inference.kbest import Ranked, Ranking
from omegamax.inference.program import Parts
from omegamax.inference.random_walk import walk
from omegamax.inference.sweeps import inside
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.not_numbers import has_no_answer, spoiled
from omegamax.structures.problem import Problem


class TopK(NamedTuple):
    """The best structures, best first."""

    structures: Any  # (*batch, k, *event), 0/1; zeros where there are fewer than k; NaN where scores are not numbers
    scores: Tensor  # (*batch, k); −inf where there are fewer than k; NaN where scores are not numbers


class Support(NamedTuple):
    """Structures of non-zero probability, the most probable first."""

    structures: Any  # (*batch, found, *event); zeros where an item has fewer than others
    probabilities: Tensor  # (*batch, found); zero there; NaN where scores are not numbers
    complete: Tensor  # (*batch,): False where the limit cut the list, and where scores are not numbers


class Marginal(NamedTuple):
    """argmax_Ω over the scores of all structures."""

    weights: Any  # (*batch, *event): the expected structure
    structures: Any  # (*batch, found, *event)
    probabilities: Tensor  # (*batch, found)
    complete: Tensor  # (*batch,): False where the limit cut the list; the weights are then those of the list


def topk(problem: Problem, k: int) -> TopK:
    """The k best structures, distinct and in exact order."""
    ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
    wrong = has_no_answer(problem, ranking.values)
    ranked = _each(wrong, lambda item: ranking.top(item, k))
    scores = _nan_where(wrong, _padded(ranked, k))
    return TopK(_structures(problem, ranked, k, wrong), problem.per_item(scores, after=(k,)))


def support(problem: Problem, regularizer: Regularizer, limit: int) -> Support:
    """Structures of non-zero probability in the random walk, ranked: k-best with log q for scores."""
    topology = problem.lattice.topology
    found = inside(topology, problem.scores_of_edges(), regularizer)
    wrong = has_no_answer(problem, found.values)
    ranking = Ranking(topology, found.backpointers.log(), problem.goals)
    ranked = _each(wrong, lambda item: ranking.top(item, limit))
    width = max([1, *(len(r.scores) for r in ranked)])
    probabilities = problem.per_item(_nan_where(wrong, _padded(ranked, width).exp()), after=(width,))
    complete = torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape)
    return Support(_structures(problem, ranked, width, wrong), probabilities, complete)


def marginal(who: str, problem: Problem, regularizer: Regularizer, limit: int) -> Marginal:
    """argmax_Ω over all structures: the list of the best ones is extended until its last entry has no weight."""
    if regularizer.always_positive:
        raise ValueError(
            f"{who}.marginal: regularizer must be sparse, got Shannon; under Shannon use argmax, its equal"
        )
    with torch.no_grad():
        ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
        wrong = has_no_answer(problem, ranking.values)
        ranked = _each(wrong, lambda item: _until_weightless(ranking, item, regularizer, limit))
        width = max([1, *(len(r.scores) for r in ranked)])
        found = spoiled(problem, _listed(problem, ranked, width), wrong, after=width)  # (batch · width, *event) each
    edges = problem.scores_of_edges()
    scores = [_scores_of(row, r, width) for row, r in zip(edges, ranked)]
    probabilities = regularizer.argmax(torch.stack(scores) if scores else edges[:, :1])  # (batch, width)
    probabilities = _nan_where(wrong, probabilities)
    weights = []
    for part in found:
        listed = part.unflatten(0, (problem.n_items, width))
        share = probabilities.reshape(*probabilities.shape, *(1,) * (part.dim() - 1))
        weights.append(torch.where(listed == 0, 0, share * listed).sum(1))
    return Marginal(
        problem.dress(tuple(weights)),
        problem.dress(found, after=(width,)),
        problem.per_item(probabilities, after=(width,)),
        torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape),
    )


def _scores_of(scores: Tensor, ranked: Ranked, width: int) -> Tensor:
    """Scores of listed derivations (width,) from those of edges (edges,), −inf at the end; differentiable."""
    row = torch.from_numpy(np.repeat(np.arange(len(ranked.sizes)), ranked.sizes)).to(scores.device)
    used = scores.index_select(0, torch.tensor(ranked.edges, device=scores.device))
    found = scores.new_zeros(len(ranked.sizes)).index_add(0, row, used)
    return torch.nn.functional.pad(found, (0, width - len(found)), value=-torch.inf)


def _until_weightless(ranking: Ranking, item: int, regularizer: Regularizer, limit: int) -> Ranked:
    """Where a zero weight stays zero whatever lower scores are added, the first one ends the list."""
    if not regularizer.zero_stays_zero:
        return ranking.top(item, limit)
    k = min(16, limit)
    while True:
        found = ranking.top(item, k + 1)  # one more, which tells whether the first k are all
        n_positive = int((regularizer.argmax(torch.tensor(found.scores)) > 0).sum())
        if n_positive <= k:
            return found.cut(n_positive, complete=True)
        if k == limit:
            return found.cut(limit, complete=False)
        k = min(4 * k, limit)


def sample(problem: Problem, regularizer: Regularizer, n_samples: int, generator: torch.Generator | None) -> Any:
    """Random structures (n_samples, *batch, *event)."""
    topology = problem.lattice.topology
    found = inside(topology, problem.scores_of_edges(), regularizer)
    drawn = walk(topology, found.backpointers, problem.goals, n_samples, generator)
    parts = problem.lattice.sum_over_lists(drawn.edges, drawn.sizes, problem.parts)
    parts = spoiled(problem, parts, has_no_answer(problem, found.values), before=n_samples)
    return problem.dress(parts, before=(n_samples,))


def count(problem: Problem) -> Any:
    """How many structures use no part of score −inf, in exact integers."""
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
        listed = counting.derivations(topology, allowed, goal)
        edges = np.array([edge for used in listed for edge in used], dtype=np.int64)
        sizes = np.array([len(used) for used in listed], dtype=np.int64)  # said, for where there are none
        parts = problem.lattice.sum_over_lists(edges, sizes, problem.parts)
        found.append(problem.dressed(parts, (number,)))
    return problem.as_list(found)


def _allowed(problem: Problem) -> Iterator[tuple[np.ndarray, int]]:
    scores = problem.scores_of_edges().detach().cpu()
    for row, goal in zip(scores, problem.goals.tolist()):
        yield (row != -torch.inf).numpy(), goal


def _each(wrong: Tensor, top: Callable[[int], Ranked]) -> list[Ranked]:
    """The list of every item; empty, and not complete, where there is no answer."""
    none = np.zeros(0, dtype=np.int64)
    return [Ranked(np.zeros(0), none, none, False) if bad else top(item) for item, bad in enumerate(wrong.tolist())]


def _nan_where(wrong: Tensor, numbers: Tensor) -> Tensor:
    return torch.where(wrong.to(numbers.device).unsqueeze(1), torch.nan, numbers)


def _structures(problem: Problem, ranked: list[Ranked], width: int, wrong: Tensor) -> Any:
    return problem.dress(spoiled(problem, _listed(problem, ranked, width), wrong, after=width), after=(width,))


def _listed(problem: Problem, ranked: list[Ranked], width: int) -> Parts:
    """Listed derivations as parts (batch · width, *event), zeros at the end of short lists."""
    if not ranked:
        return problem.parts
    edges = np.concatenate([r.edges for r in ranked])
    sizes = np.concatenate([np.pad(r.sizes, (0, width - len(r.sizes))) for r in ranked])
    return problem.lattice.sum_over_lists(edges, sizes, problem.parts)


def _padded(ranked: list[Ranked], width: int) -> Tensor:
    """Scores (batch, width), −inf at the end of short lists."""
    rows = [np.pad(r.scores, (0, width - len(r.scores)), constant_values=-np.inf) for r in ranked]
    return torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, width)
