"""Logic factors as local problems: counts of literals, and pairs. A literal is a binary entry, or one minus it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.inference.factor_graphs.local_problem import LocalProblem, LocalSolution, RowsFace, at_a_bound, none_of
from omegamax.inference.factor_graphs.logic_factors import PAIR_FACES, project_counts, project_pairs


@dataclass(frozen=True, eq=False)
class CountProblem(LocalProblem):
    """Factors that bound how many of their literals are true: xor, at most one, or, budget."""

    entries: Tensor
    scores: Tensor  # (factors, 0)
    negated: Tensor  # (factors, width), boolean
    least: Tensor  # (factors,)
    most: Tensor  # (factors,)

    def solve(self, target: Tensor, scores: Tensor, forbidden: Tensor, memory: Any) -> LocalSolution:
        low, high = _bounds(self.negated, forbidden, target)
        least, most = (bound.expand(target.shape[:-1]) for bound in (self.least, self.most))
        literals = _flip(self.negated, torch.where(forbidden, 0, target))
        found = project_counts(literals, low, high, least, most)
        point = _flip(self.negated, found.point)
        return LocalSolution(point, none_of(point), found.feasible.all(-1), found.tight.long(), None)

    def face(self, local: LocalSolution, target: Tensor, scores: Tensor, forbidden: Tensor) -> RowsFace:
        """Holds the sum where it is at a bound."""
        signs = torch.where(self.negated, -1.0, 1.0).double()
        rows = (local.pattern == 1)[..., None, None] * signs.unsqueeze(-2)
        return RowsFace(at_a_bound(local.point), rows, rows[..., :0, :])

    def best(self, slots: Tensor, forbidden: Tensor) -> Tensor:
        """Takes the largest literals: as many as pay, within the bounds."""
        low, high = _bounds(self.negated, forbidden, slots)
        literals = torch.where(self.negated, -slots, slots)
        constant = torch.where(self.negated, slots, 0).sum(-1) + (literals * low).sum(-1)
        open_ = torch.where(low < high, literals, -torch.inf).sort(-1, descending=True).values
        totals = torch.nn.functional.pad(open_, (1, 0)).cumsum(-1)
        n = torch.arange(totals.shape[-1]) + low.sum(-1, keepdim=True)
        allowed = (n >= self.least.unsqueeze(-1)) & (n <= self.most.unsqueeze(-1))
        return constant + torch.where(allowed, totals, -torch.inf).amax(-1)


@dataclass(frozen=True, eq=False)
class PairProblem(LocalProblem):
    """Two literals with a score for both being true, which has no quadratic term."""

    entries: Tensor
    scores: Tensor  # (factors, 1)
    negated: Tensor  # (factors, 2), boolean

    def solve(self, target: Tensor, scores: Tensor, forbidden: Tensor, memory: Any) -> LocalSolution:
        low, high = _bounds(self.negated, forbidden, target)
        score = scores.squeeze(-1)
        found = project_pairs(_flip(self.negated, torch.where(forbidden, 0, target)), score, low, high)
        impossible = (low == 1).all(-1) & (score == -torch.inf)
        point = _flip(self.negated, found.point)
        return LocalSolution(point, found.both.unsqueeze(-1), ~impossible.any(-1), found.which, None)

    def face(self, local: LocalSolution, target: Tensor, scores: Tensor, forbidden: Tensor) -> RowsFace:
        signs = torch.where(self.negated, -1.0, 1.0).double()
        rows, maps = (PAIR_FACES[local.pattern] * signs.unsqueeze(-2)).split(1, -2)
        return RowsFace(at_a_bound(local.point), rows, maps)

    def best(self, slots: Tensor, forbidden: Tensor) -> Tensor:
        return torch.where(forbidden, 0, slots).clamp(min=0).sum(-1)


def _bounds(negated: Tensor, forbidden: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds the literals: an entry that must be 0 makes its literal false, or true where it is negated."""
    low = (forbidden & negated).to(like.dtype)
    return low, 1 - (forbidden & ~negated).to(like.dtype)


def _flip(negated: Tensor, values: Tensor) -> Tensor:
    return torch.where(negated, 1 - values, values)
