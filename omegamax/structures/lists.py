"""Lists of structures: the best, the probable, random ones, all of them.

Every list of an item whose scores are not all numbers is NaN; see `not_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.hypergraphs.derivations import count_derivations, list_derivations
from omegamax.inference.hypergraphs.kbest import Ranking
from omegamax.inference.hypergraphs.random_walk import walk
from omegamax.inference.hypergraphs.sweeps import inside
from omegamax.inference.program import Parts
from omegamax.kernels.structures.kbest import RankedDerivations
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.not_numbers import has_bad_scores, with_nan
from omegamax.structures.problem import Problem


class BestStructures(NamedTuple):
    """The best structures, best first."""

    structures: Any  # (*batch, k, *event), 0/1; zeros where there are fewer than k; NaN where scores are not numbers
    scores: Tensor  # (*batch, k); −inf where there are fewer than k; NaN where scores are not numbers


class Support(NamedTuple):
    """Structures of non-zero probability, the most probable first."""

    structures: Any  # (*batch, found, *event); zeros where an item has fewer than others
    probabilities: Tensor  # (*batch, found); zero there; NaN where scores are not numbers
    complete: Tensor  # (*batch,): False where the limit cut the list, and where scores are not numbers


class Marginal(NamedTuple):
    """The result of argmax_Ω over the scores of all structures."""

    weights: Any  # (*batch, *event): the expected structure
    structures: Any  # (*batch, found, *event)
    probabilities: Tensor  # (*batch, found)
    complete: Tensor  # (*batch,): False where the limit cut the list; the weights are then those of the list


def topk(problem: Problem, k: int) -> BestStructures:
    """Finds the k best structures, distinct and in exact order."""
    ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
    wrong = has_bad_scores(problem, ranking.values)
    ranked = _each(wrong, lambda item: ranking.top(item, k))
    scores = _nan_where(wrong, _padded(ranked, k))
    return BestStructures(_structures(problem, ranked, k, wrong), problem.per_item(scores, after=(k,)))


def support(problem: Problem, regularizer: Regularizer, limit: int) -> Support:
    """Ranks the structures of non-zero probability in the random walk: k-best with log q for scores."""
    topology = problem.lattice.topology
    found = inside(topology, problem.scores_of_edges(), regularizer)
    wrong = has_bad_scores(problem, found.values)
    ranking = Ranking(topology, found.backpointers.log(), problem.goals)
    ranked = _each(wrong, lambda item: ranking.top(item, limit))
    width = max([1, *(len(r.scores) for r in ranked)])
    probabilities = problem.per_item(_nan_where(wrong, _padded(ranked, width).exp()), after=(width,))
    complete = torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape)
    return Support(_structures(problem, ranked, width, wrong), probabilities, complete)


def marginal(who: str, problem: Problem, regularizer: Regularizer, limit: int) -> Marginal:
    """Computes argmax_Ω over all structures; the list of the best ones grows until its last entry has no weight."""
    if regularizer.always_positive:
        raise ValueError(
            f"{who}.marginal: regularizer must be sparse, got Shannon; use argmax, which is the same under Shannon"
        )
    with torch.no_grad():
        ranking = Ranking(problem.lattice.topology, problem.scores_of_edges(), problem.goals)
        wrong = has_bad_scores(problem, ranking.values)
        ranked = _each(wrong, lambda item: _until_weightless(ranking, item, regularizer, limit))
        width = max([1, *(len(r.scores) for r in ranked)])
        found = with_nan(problem, _listed(problem, ranked, width), wrong, after=width)  # (batch · width, *event) each
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
        problem.in_user_shape(tuple(weights)),
        problem.in_user_shape(found, after=(width,)),
        problem.per_item(probabilities, after=(width,)),
        torch.tensor([r.complete for r in ranked]).reshape(problem.batch_shape),
    )


def _scores_of(scores: Tensor, ranked: RankedDerivations, width: int) -> Tensor:
    """Returns scores of listed derivations (width,) from those of edges (edges,), −inf at the end; differentiable."""
    row = torch.from_numpy(np.repeat(np.arange(len(ranked.sizes)), ranked.sizes)).to(scores.device)
    used = scores.index_select(0, torch.tensor(ranked.edges, device=scores.device))
    found = scores.new_zeros(len(ranked.sizes)).index_add(0, row, used)
    return torch.nn.functional.pad(found, (0, width - len(found)), value=-torch.inf)


def _until_weightless(ranking: Ranking, item: int, regularizer: Regularizer, limit: int) -> RankedDerivations:
    """Ends the list at the first zero weight, if lower scores give no weight to what had none under this Ω."""
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
    """Draws random structures (n_samples, *batch, *event)."""
    topology = problem.lattice.topology
    found = inside(topology, problem.scores_of_edges(), regularizer)
    drawn = walk(topology, found.backpointers, problem.goals, n_samples, generator)
    parts = problem.lattice.sum_over_lists(drawn.edges, drawn.sizes, problem.parts)
    parts = with_nan(problem, parts, has_bad_scores(problem, found.values), before=n_samples)
    return problem.in_user_shape(parts, before=(n_samples,))


def count(problem: Problem) -> Any:
    """Counts the structures that use no part of score −inf, in exact integers."""
    topology = problem.lattice.topology
    return problem.as_list([count_derivations(topology, allowed, goal) for allowed, goal in _allowed(problem)])


def enumerate_all(who: str, problem: Problem, limit: int) -> Any:
    """Lists all structures of every item (number, *event)."""
    topology = problem.lattice.topology
    found = []
    for item, (allowed, goal) in enumerate(_allowed(problem)):
        number = count_derivations(topology, allowed, goal)
        if number > limit:
            raise ValueError(
                f"{who}.enumerate: at most limit={limit} structures are listed, got {number}; raise the limit, or take "
                "topk, sample or support"
            )
        listed = list_derivations(topology, allowed, goal)
        edges = np.array([edge for used in listed for edge in used], dtype=np.int64)
        sizes = np.array([len(used) for used in listed], dtype=np.int64)  # an empty list has no type of its own
        parts = problem.lattice.sum_over_lists(edges, sizes, problem.parts)
        found.append(problem.with_leading_axes(problem.put_back(parts, torch.full((number,), item)), (number,)))
    return problem.as_list(found)


def _allowed(problem: Problem) -> Iterator[tuple[np.ndarray, int]]:
    scores = problem.scores_of_edges().detach().cpu()
    for row, goal in zip(scores, problem.goals.tolist()):
        yield (row != -torch.inf).numpy(), goal


def _each(wrong: Tensor, top: Callable[[int], RankedDerivations]) -> list[RankedDerivations]:
    """Ranks each item; the list is empty, and not complete, where scores are not numbers."""
    none = np.zeros(0, dtype=np.int64)
    return [
        RankedDerivations(np.zeros(0), none, none, False) if bad else top(item)
        for item, bad in enumerate(wrong.tolist())
    ]


def _nan_where(wrong: Tensor, numbers: Tensor) -> Tensor:
    return torch.where(wrong.to(numbers.device).unsqueeze(1), torch.nan, numbers)


def _structures(problem: Problem, ranked: list[RankedDerivations], width: int, wrong: Tensor) -> Any:
    return problem.in_user_shape(with_nan(problem, _listed(problem, ranked, width), wrong, after=width), after=(width,))


def _listed(problem: Problem, ranked: list[RankedDerivations], width: int) -> Parts:
    """Writes listed derivations as parts (batch · width, *event), with zeros at the end of short lists."""
    if not ranked:
        return problem.parts
    edges = np.concatenate([r.edges for r in ranked])
    sizes = np.concatenate([np.pad(r.sizes, (0, width - len(r.sizes))) for r in ranked])
    return problem.lattice.sum_over_lists(edges, sizes, problem.parts)


def _padded(ranked: list[RankedDerivations], width: int) -> Tensor:
    """Returns scores (batch, width), −inf at the end of short lists."""
    rows = [np.pad(r.scores, (0, width - len(r.scores)), constant_values=-np.inf) for r in ranked]
    return torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, width)
