"""Numbers of the distribution over structures: log-probability, entropy, divergence, local weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.differentiation import marginals_of, value_of
from omegamax.inference.hypergraphs.derivations import derivation_of
from omegamax.inference.hypergraphs.sweeps import differentiable_inside, outside
from omegamax.inference.program import Parts, largest_score
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.structures.problem import Problem

_LARGE = 2.0**26  # above this a difference of doubles has fewer than eight digits behind the point


class Backpointers(NamedTuple):
    """The local weights of every edge: given its head, the probability of having come along it."""

    weights: Tensor  # (*batch, edges)
    heads: Tensor  # (edges,): nodes
    tails: Tensor  # (1 or 2, edges): nodes; the number of nodes stands for a missing second tail


def log_prob(who: str, problem: Problem, structures: Any, regularizer: Regularizer) -> Tensor:
    """Computes score − log-partition under Shannon, and the sum of log q along the derivation under another Ω."""
    problem = problem.widened()
    given, before = problem.as_parts(who, structures)
    n_each = given[0].shape[0] // max(1, problem.n_items)
    wrong = torch.stack([part.isnan().flatten(1).any(1) for part in given]).any(0)  # samples of items that are NaN
    if bool(wrong.any()):
        given = tuple(torch.where(wrong.reshape(-1, *(1,) * (part.dim() - 1)), 0, part) for part in given)
    edges = _derivation(who, problem, given, n_each, regularizer)
    if edges is None:
        value = value_of(problem.program(regularizer), problem.parts).repeat(n_each)
        score = inner(given, tuple(part.repeat(n_each, *(1,) * (part.dim() - 1)) for part in problem.parts))
        found = score - torch.where(value == -torch.inf, 0, value)
        found = torch.where(value == -torch.inf, -torch.inf, found)
    else:
        scores = _below_the_goals(problem, problem.scores_of_edges())
        q = differentiable_inside(problem.lattice.topology, scores, regularizer).backpointers
        q = q.repeat(n_each, 1)
        impossible = (edges > 0) & (q == 0)  # treated separately: the derivative of the logarithm is infinite there
        found = (torch.where((edges > 0) & ~impossible, q, 1).log() * edges.to(q.dtype)).sum(1)
        found = torch.where(impossible.any(1), -torch.inf, found)
    if not problem.structure.has_empty:  # without parts it is no structure: `topk` fills short lists with zeros
        padding = torch.stack([(part == 0).flatten(1).all(1) for part in given]).all(0)
        found = torch.where(padding & ~found.isnan(), -torch.inf, found)
    found = torch.where(wrong, torch.nan, found)
    return problem.per_item(found, before=before)


@torch.no_grad()
def _derivation(who: str, problem: Problem, given: Parts, n_each: int, regularizer: Regularizer) -> Tensor | None:
    """Returns the edges of structures, or None where score − log-partition gives the log-probability: under Shannon.

    Under Shannon too, edges are used where the scores are so large that this difference has no digits left.
    """
    plain = isinstance(regularizer, Shannon)
    if plain and (routing.transforms_active() or largest_score(problem.parts) <= _LARGE):
        return None
    try:
        return derivation_of(f"{who}.log_prob", problem.lattice, problem.goals.repeat(n_each), given)
    except ValueError:
        if plain:
            return None
        raise


def _below_the_goals(problem: Problem, scores: Tensor) -> Tensor:
    """Zeroes edges that no structure of the item can use: NaN beyond its length must not reach a gradient."""
    ways = outside(problem.lattice.topology, torch.ones_like(scores), None, Shannon(), problem.goals).edges
    return torch.where(ways > 0, scores, 0)


def entropy(problem: Problem) -> Tensor:
    """Computes log-partition minus expected score."""
    problem = problem.widened()
    program = problem.program(Shannon())
    value = value_of(program, problem.parts)
    expected = inner(marginals_of(program, problem.parts), problem.parts)
    return problem.per_item(torch.where(value == -torch.inf, 0, value) - expected)


def kl(first: Problem, second: Problem) -> Tensor:
    """Computes E₁[log p₁ − log p₂].

    It is infinite, without a derivative, where the first uses a part that the second forbids. It is zero, like the
    entropy, where the first has no structure at all.
    """
    first, second = first.widened(), second.widened()
    program = first.program(Shannon())
    marginals = marginals_of(program, first.parts)
    values = value_of(program, first.parts), value_of(second.program(Shannon()), second.parts)
    none, none_in_second = (value == -torch.inf for value in values)
    own, other = (torch.where(value == -torch.inf, 0, value) for value in values)
    forbidden = tuple(part == -torch.inf for part in second.parts)
    outside = torch.stack([((m != 0) & f).flatten(1).any(1) for m, f in zip(marginals, forbidden)]).any(0)
    finite = tuple(torch.where(f, 0, part) for f, part in zip(forbidden, second.parts))
    found = inner(marginals, first.parts) - own - (inner(marginals, finite) - other)
    found = torch.where(none, 0, torch.where(outside | none_in_second, torch.inf, found))
    return first.per_item(torch.where(own.isnan() | other.isnan(), torch.nan, found))


def backpointers(problem: Problem, regularizer: Regularizer) -> Backpointers:
    """Returns q of every edge; differentiable."""
    topology = problem.lattice.topology
    weights = differentiable_inside(topology, problem.scores_of_edges(), regularizer).backpointers
    return Backpointers(problem.per_item(weights, after=(topology.n_edges,)), topology.heads(), topology.tails)


def inner(weights: Parts, parts: Parts) -> Tensor:
    """Computes <weights, parts> per item, where 0 · −inf is 0."""
    total: Any = 0
    for weight, part in zip(weights, parts):
        used = weight != 0
        total = total + torch.where(used, weight * torch.where(used, part, 0), 0).flatten(1).sum(1)
    return total
