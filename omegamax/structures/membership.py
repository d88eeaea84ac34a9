"""Checks whether given parts are a structure, and computes their score from the few entries that are not zero."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from omegamax.inference.hypergraphs.derivations import is_derived
from omegamax.inference.program import Parts
from omegamax.operators.hard import Hard
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem
from omegamax.structures.smoothing import Smoothing, smoothed_marginals
from omegamax.structures.sparsemap import MAX_ITER


class Entries(NamedTuple):
    """The entries of one component that are not zero, by item."""

    items: Tensor  # (found,): which item of the batch
    places: Tensor  # (found,): where in all of the component, flattened with the batch
    values: Tensor  # (found,)

    @staticmethod
    def of(part: Tensor) -> Entries:
        """Finds the entries of a component (batch, *event)."""
        flat = part.reshape(-1)
        places = flat.nonzero().squeeze(-1)
        size = max(1, part[:1].numel())
        return Entries(torch.div(places, size, rounding_mode="floor"), places, flat.index_select(0, places))


def sum_of(entries: tuple[Entries, ...], parts: Parts) -> Tensor:
    """Computes <structure, parts> per item; −inf where the structure uses such a part.

    Its gradient is the structure.
    """
    total = parts[0].new_zeros(parts[0].shape[0], dtype=torch.float64)  # a loss is its difference to a large value
    for (items, places, values), part in zip(entries, parts):
        total = total.index_add(0, items, part.reshape(-1).index_select(0, places).double() * values)
    return total


@torch.no_grad()
def is_member(problem: Problem, target: Parts, entries: tuple[Entries, ...]) -> Tensor:
    """Says whether each target is a structure of its lengths, (batch,)."""
    known = problem.structure.is_structure(problem, target, entries)
    if known is not None:
        return known
    if isinstance(problem.structure, DynamicProgram):
        member = _is_derivation(problem, target, entries)
    else:
        member = _is_vertex(problem, target)
    if not problem.structure.has_empty:
        member = member & torch.stack([(part != 0).flatten(1).any(1) for part in target]).any(0)
    return member


def _is_derivation(problem: Problem, target: Parts, entries: tuple[Entries, ...]) -> Tensor:
    """Checks whether the target is the best structure when everything else is forbidden."""
    only = []
    for part, (_, places, _) in zip(target, entries):
        allowed = torch.full_like(part, -torch.inf).reshape(-1)
        only.append(allowed.index_fill_(0, places, 1.0).reshape(part.shape))
    member = _same(_best(problem, only), target)
    if not bool(member.all()) and cast("DynamicProgram", problem.structure).why_no_hypergraph is None:
        member = is_derived(problem.lattice, problem.goals, target)  # slower; right where a part counts more than once
    return member


def _is_vertex(problem: Problem, target: Parts) -> Tensor:
    """A 0/1 vertex y is the only best one for the scores 2y − 1; any other is its own projection onto the polytope.

    Extra components, which SparseMAP does not regularise, may be anything that goes with the others.
    """
    n = len(target) if problem.structure.n_regularized is None else problem.structure.n_regularized
    free = [torch.zeros_like(part) for part in target[n:]]
    member = _same(_best(problem, [*(2 * part - 1 for part in target[:n]), *free])[:n], target[:n])
    if not bool(member.all()):
        near = problem.structure.sparsemap_parts(replace(problem, parts=(*target[:n], *free)), MAX_ITER)[0][:n]
        far = [((part - found).abs() > 1e-6).flatten(1).any(1) for part, found in zip(target, near)]
        member = ~torch.stack(far).any(0)
    return member


def _best(problem: Problem, parts: list[Tensor]) -> Parts:
    return smoothed_marginals(replace(problem, parts=tuple(parts)), Smoothing(Hard(), 1.0))


def _same(found: Parts, target: Parts) -> Tensor:
    return torch.stack([(part == best).flatten(1).all(1) for part, best in zip(target, found)]).all(0)
