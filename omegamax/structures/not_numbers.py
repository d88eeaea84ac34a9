"""Items whose scores are not all numbers: their lists of structures are NaN, and no other item's.

An item is wrong where a NaN or +inf is among the scores that its structures may use. Scores that none of them can
use, such as those beyond its length, may be anything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.inference.hypergraphs.sweeps import outside
from omegamax.inference.program import Parts
from omegamax.operators.shannon import Shannon
from omegamax.structures.problem import Problem


def has_bad_scores(problem: Problem, values: Tensor) -> Tensor:
    """Says which items (batch,) have a NaN or +inf, from the values of all nodes (batch, nodes + 1) under any Ω."""
    return ~(values.gather(1, problem.goals.to(values.device).unsqueeze(1)).squeeze(1) < torch.inf)


def with_nan(problem: Problem, parts: Parts, wrong: Tensor, *, before: int = 1, after: int = 1) -> Parts:
    """Writes NaN into parts (before · batch · after, *event) where a structure of a wrong item could use something."""
    if not bool(wrong.any()):
        return parts
    usable = used_by_some(problem)
    found = []
    for part, used in zip(parts, usable):
        shaped = part.reshape(before, problem.n_items, after, *part.shape[1:])
        nan = (used & wrong.to(used.device).reshape(-1, *(1,) * (used.dim() - 1))).unsqueeze(1)
        found.append(torch.where(nan, torch.nan, shaped).reshape(part.shape))
    return tuple(found)


def used_by_some(problem: Problem) -> tuple[Tensor, ...]:
    """Says which entries of each component (batch, *event) some structure of the item uses, whatever its score."""
    lattice = problem.lattice.unscaled()
    ones = problem.parts[0].new_ones(problem.n_items, lattice.topology.n_edges)
    edges = outside(lattice.topology, ones, None, Shannon(), problem.goals).edges
    return tuple(part > 0 for part in lattice.sum_over_edges((edges > 0).to(ones.dtype), problem.parts))
