"""The compiled sweeps of subsets and budgets over (position, count), linear in n · hi.

Each node of the hypergraph chooses between two edges, so one number per node, the probability of having taken the
entry, is all that a sweep stores; see csrc/selections/budget.hpp. The maximum over the counts from lo to hi at the end
is left to the caller. The specification is the generic engine (`inference/hypergraphs/sweeps.py`) on the hypergraph of
`Budget`. Shannon and SquaredNorm are compiled. What one sweep stores for another is in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch

OMEGAS = frozenset({Omega.SHANNON, Omega.SQUARED_NORM})
_TOGETHER = 8  # counts that are computed together, as in csrc/selections/budget.hpp


class Bounds(NamedTuple):
    """How many entries may be chosen, and of how many."""

    lengths: Tensor  # (batch,), int64, contiguous
    lo: int
    hi: int  # at most N


def budget_values(scores: Tensor, bounds: Bounds, omega: Omega) -> tuple[Tensor, Tensor]:
    """Computes the probability of having taken each entry, given the count so far, and final values (batch, hi + 1)."""
    scores = scores.contiguous()
    n_items, n = scores.shape
    taken = scores.new_empty(n_items, n, (bounds.hi // _TOGETHER + 1) * _TOGETHER, dtype=torch.float64)
    last = scores.new_empty(n_items, bounds.hi + 1, dtype=torch.float64)
    _launch("budget_up", scores, bounds, (scores, bounds.lengths), (taken, last), omega)
    return taken, last


def budget_marginals(scores: Tensor, bounds: Bounds, taken: Tensor, goal: Tensor) -> Tensor:
    """Computes the marginals (batch, N) from the probabilities `goal` (batch, hi + 1) of the counts at the end."""
    found = torch.empty_like(scores, memory_format=torch.contiguous_format)
    _launch("budget_down", found, bounds, (bounds.lengths, taken, goal), (found,))
    return found


def budget_values_tangent(direction: Tensor, bounds: Bounds, omega: Omega, taken: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the derivatives of both results of `budget_values` along a contiguous direction (batch, N)."""
    moved = torch.empty_like(taken)
    last = direction.new_empty(direction.shape[0], bounds.hi + 1, dtype=torch.float64)
    _launch("budget_move_up", direction, bounds, (bounds.lengths, taken, direction), (moved, last), omega)
    return moved, last


def budget_marginals_tangent(
    like: Tensor, bounds: Bounds, taken: Tensor, moved: Tensor, goal: Tensor, moved_goal: Tensor
) -> Tensor:
    """Computes the derivative of `budget_marginals`, shaped as `like`, from the derivatives of its inputs."""
    found = torch.empty_like(like)
    _launch("budget_move_down", found, bounds, (bounds.lengths, taken, moved, goal, moved_goal), (found,))
    return found


def _launch(
    entry: str,
    scores: Tensor,
    bounds: Bounds,
    known: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    omega: Omega | None = None,
) -> None:
    n_items, n = scores.shape
    launch(
        entry,
        *known,
        n,
        bounds.lo,
        bounds.hi,
        *(() if omega is None else (omega,)),
        *results,
        itemsize=scores.element_size(),
        n_items=n_items,
        cost=n * (bounds.hi + _TOGETHER),
    )
