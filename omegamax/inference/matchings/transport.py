"""Entropic optimal transport between rows and columns: the smoothed maximum that Sinkhorn's algorithm solves.

    maximise  <P, θ> − Σ P log P   over the transport polytope: sums of P over rows and columns are 1

If the sides differ in size, sums over the larger are at most 1; with scores for staying unmatched, P has a border: one
more column and one more row, whose corner is not used. The solution is P = exp(θ_ij + f_i + g_j). With f the best for
g, the sums of rows are right; g moves by Sinkhorn's step or, where that leaves a smaller error, by Newton's on the sums
of columns. Both start from the prices of the best matching, so that they converge for sharp scores too.

    J v = P ∘ (v − x − y),   x, y such that the sums stay what they are

Sinkhorn & Knopp, Pacific J. Math. 1967; Cuturi, NeurIPS 2013; Brauer, Clason, Lorenz & Wirth, 2017 for Newton's steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels.structures.matchings import BestMatching, best_matching
from omegamax.operators.operator import Operator
from omegamax.operators.solution import Solution

_RIDGE = (
    1e-13  # added to systems that are singular along a direction which does not matter: f + t, g − t give the same P
)
_LONGEST = 4.0  # the longest step: an exponential is not linear further away
_PROGRESS = 0.5  # Newton's step must leave no more than this of the error


@dataclass(frozen=True, eq=False)
class Transport(Operator):
    """Takes bordered scores (..., batch, R + 1, C + 1) in double precision; −inf in a border that is not used."""

    lengths: tuple[Tensor, Tensor]  # (batch,) rows and columns, on the CPU
    has_border: bool
    max_iter: int
    atol: float

    event_ndim = 2

    def omega(self, weights: Tensor) -> Tensor:
        return torch.special.xlogy(weights, weights).sum((-1, -2))

    @torch.no_grad()
    def solve(self, scores: Tensor) -> Solution:
        """Finds the plan; the certificate adds which rows and columns are full."""
        flat = scores.reshape(-1, *scores.shape[-2:])
        if self.has_border:  # ∂(P log P) = log P + 1, and f, g take up a 1 for each sum: one too many for a pair
            flat = flat + torch.nn.functional.pad(torch.ones_like(flat[:, :-1, :-1]), (0, 1, 0, 1))
        problem = _ReducedProblem.of(flat, self)
        f, g, weights, _, _, error, _ = problem.converge(self.max_iter, self.atol)
        if bool((error > self.atol).any()):
            checks.warn(
                f"sinkhorn: stopped after max_iter={self.max_iter} with sums wrong by up to {float(error.max()):.1e}, "
                f"tolerance {self.atol:.1e}; raise max_iter, or gamma",
                RuntimeWarning,
            )
        value = -(problem.price_rows + f).sum(1) - (problem.price_columns + g).sum(1)
        value = value - weights[:, :-1, :-1].sum((1, 2)) if self.has_border else value
        value = torch.where(problem.matched.value == -torch.inf, -torch.inf, value)
        spoiled = problem.matched.value.isnan()
        weights = torch.where(spoiled[:, None, None], torch.nan, weights)
        full = (problem.here_rows & (f < problem.most_rows), problem.here_columns & (g < problem.most_columns))
        return Solution(
            weights.reshape(scores.shape),
            torch.where(spoiled, torch.nan, value).reshape(scores.shape[:-2]),
            (weights.reshape(scores.shape), *(side.reshape(*scores.shape[:-2], side.shape[1]) for side in full)),
        )

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Returns the change of P whose sums over full rows and columns are zero; solves a system for the columns."""
        weights, full_rows, full_columns = certificate
        change = torch.where(weights == 0, 0, weights * direction)
        inner = torch.where(full_rows.unsqueeze(-1) & full_columns.unsqueeze(-2), weights[..., :-1, :-1], 0)
        of_rows, of_columns = weights[..., :-1, :].sum(-1), weights[..., :-1].sum(-2)
        inverse = torch.where(full_rows, 1 / torch.where(full_rows, of_rows, 1), 0)
        along_rows, along_columns = change[..., :-1, :].sum(-1), change[..., :-1].sum(-2)
        scaled = inverse.unsqueeze(-1) * inner
        system = torch.diag_embed(torch.where(full_columns, of_columns, 1) + _RIDGE) - inner.mT @ scaled
        known = torch.where(full_columns, along_columns - (scaled.mT @ along_rows.unsqueeze(-1)).squeeze(-1), 0)
        y = torch.linalg.solve_ex(system, known.unsqueeze(-1)).result
        x = inverse * along_rows - (scaled @ y).squeeze(-1)
        pad = torch.nn.functional.pad
        return change - weights * (pad(x, (0, 1)).unsqueeze(-1) + pad(y.squeeze(-1), (0, 1)).unsqueeze(-2))


class _ReducedProblem(NamedTuple):
    """The problem for scores minus prices, which are at most zero everywhere and zero on the best matching."""

    matched: BestMatching
    scores: Tensor  # (batch, R + 1, C + 1)
    price_rows: Tensor  # (batch, R): what was added to a row, zero where it is not there
    price_columns: Tensor
    most_rows: Tensor  # (batch, R): bound of f, where sums are at most 1 only
    most_columns: Tensor
    here_rows: Tensor  # (batch, R): boolean
    here_columns: Tensor

    @classmethod
    def of(cls, scores: Tensor, transport: Transport) -> _ReducedProblem:
        n_rows, n_columns = scores.shape[1] - 1, scores.shape[2] - 1
        n_each = scores.shape[0] // max(1, transport.lengths[0].shape[0])
        rows, columns = (length.repeat(n_each) for length in transport.lengths)
        parts = (scores[:, :-1, :-1], scores[:, :-1, -1], scores[:, -1, :-1])
        matched = best_matching(rows, columns, *(parts if transport.has_border else parts[:1]))
        rows, columns = rows.to(scores.device).unsqueeze(1), columns.to(scores.device).unsqueeze(1)
        solvable = (matched.value > -torch.inf).unsqueeze(1)  # not NaN either
        here_rows = (torch.arange(n_rows, device=scores.device) < rows) & solvable
        here_columns = (torch.arange(n_columns, device=scores.device) < columns) & solvable
        pad = torch.nn.functional.pad
        used = pad(here_rows, (0, 1), value=True).unsqueeze(-1) & pad(here_columns, (0, 1), value=True).unsqueeze(-2)
        scores = torch.where(used & solvable.unsqueeze(-1), scores, -torch.inf)
        scores = _supported(scores, matched, here_rows, here_columns, transport.has_border)
        few = rows <= columns
        if transport.has_border:  # no prices are known: takes the best of each row
            price_columns = torch.zeros_like(here_columns, dtype=scores.dtype)
            price_rows = -torch.where(here_rows, scores[:, :-1, :].amax(2), 0)
        else:
            price_rows, price_columns = _prices(scores[:, :-1, :-1], matched, few, here_rows, here_columns)
        reduced = scores + pad(price_rows, (0, 1)).unsqueeze(2) + pad(price_columns, (0, 1)).unsqueeze(1)
        reduced = (
            reduced if transport.has_border else reduced.clamp(max=0)
        )  # a value above 0 is rounding of very large scores
        loose = torch.zeros_like(few) if transport.has_border else rows != columns
        infinite = torch.full_like(price_rows[:, :1], torch.inf)
        most_rows = torch.where(loose & (rows > columns), -price_rows, infinite)
        most_columns = torch.where(loose & (rows < columns), -price_columns, infinite)
        return cls(matched, reduced, price_rows, price_columns, most_rows, most_columns, here_rows, here_columns)

    def converge(self, max_iter: int, atol: float) -> _Iterate:
        """Iterates until the sums of columns are right."""
        here = self.at(torch.zeros_like(self.price_columns))
        for _ in range(max_iter):
            going = here.error > atol
            if not bool(going.any()):
                break
            step, jump = self.at(self.columns_given(here.f)), self.at(self.newton(here))
            better = jump.error <= _PROGRESS * torch.minimum(here.error, step.error)
            better = (better | (jump.dual < step.dual)).unsqueeze(1)
            going = going.unsqueeze(1)  # an item that is done stays: it does not depend on the others
            here = self.at(torch.where(going, torch.where(better, jump.g, step.g), here.g))
        return here

    def at(self, g: Tensor) -> _Iterate:
        """Returns the iterate at g, with the best f for it."""
        f = self.rows_given(g)
        plan = self.plan(f, g)
        missing = 1 - plan[:, :, :-1].sum(1)
        moves = self.here_columns & ((g < self.most_columns) | (missing < 0))  # the others may be less than full
        missing = torch.where(moves, missing, 0)
        return _Iterate(f, g, plan, moves, missing, missing.abs().amax(1), plan.sum((1, 2)) - f.sum(1) - g.sum(1))

    def rows_given(self, g: Tensor) -> Tensor:
        """Returns the best f for g: Sinkhorn's step."""
        moved = self.scores[:, :-1, :] + torch.nn.functional.pad(g, (0, 1)).unsqueeze(1)
        return torch.where(self.here_rows, torch.minimum(-moved.logsumexp(2), self.most_rows), 0)

    def columns_given(self, f: Tensor) -> Tensor:
        """Returns the best g for f."""
        moved = self.scores[:, :, :-1] + torch.nn.functional.pad(f, (0, 1)).unsqueeze(2)
        return torch.where(self.here_columns, torch.minimum(-moved.logsumexp(1), self.most_columns), 0)

    def plan(self, f: Tensor, g: Tensor) -> Tensor:
        """Returns P with its border."""
        pad = torch.nn.functional.pad
        return (self.scores + pad(f, (0, 1)).unsqueeze(2) + pad(g, (0, 1)).unsqueeze(1)).exp()

    def newton(self, here: _Iterate) -> Tensor:
        """Returns the g at which the sums of columns would be right if they were linear in g, with f following."""
        f, g, plan, moves, missing, _, _ = here
        full_rows = (self.here_rows & (f < self.most_rows)).unsqueeze(2)
        inner = torch.where(full_rows & moves.unsqueeze(1), plan[:, :-1, :-1], 0)
        system = torch.diag_embed(torch.where(moves, plan[:, :, :-1].sum(1), 1) + _RIDGE) - inner.mT @ inner
        step = torch.linalg.solve_ex(system, missing.unsqueeze(2)).result.squeeze(2)
        step = step * (_LONGEST / step.abs().amax(1, keepdim=True).clamp(min=_LONGEST))
        return torch.where(moves, torch.minimum(g + step, self.most_columns), g)


class _Iterate(NamedTuple):
    """A point of the search."""

    f: Tensor  # (batch, R)
    g: Tensor  # (batch, C)
    plan: Tensor  # (batch, R + 1, C + 1)
    moves: Tensor  # (batch, C): columns whose g is not at its bound
    missing: Tensor  # (batch, C): what their sums lack
    error: Tensor  # (batch,): the most that any of them lacks
    dual: Tensor  # (batch,): what the search minimises


def _prices(
    pairs: Tensor, matched: BestMatching, few: Tensor, here_rows: Tensor, here_columns: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the prices of rows and columns, which make the scores of the best matching exactly zero."""
    n_rows, n_columns = pairs.shape[1:]
    known_rows = torch.where(~few & here_rows, matched.prices[:, :n_rows], 0)
    known_columns = torch.where(few & here_columns, matched.prices[:, :n_columns], 0)
    partner = torch.zeros_like(here_columns, dtype=torch.long)  # the row of a column
    numbers = torch.arange(n_rows, device=pairs.device).expand_as(matched.columns)
    spare = torch.nn.functional.pad(partner, (0, 1))
    partner = spare.scatter(1, torch.where(matched.columns >= 0, matched.columns, n_columns), numbers)[:, :-1]
    own_rows = (pairs + known_columns.unsqueeze(1)).gather(2, matched.columns.clamp(min=0).unsqueeze(2)).squeeze(2)
    own_columns = (pairs + known_rows.unsqueeze(2)).gather(1, partner.unsqueeze(1)).squeeze(1)
    price_rows = torch.where(few & here_rows, -own_rows, known_rows)
    return price_rows, torch.where(~few & here_columns, -own_columns, known_columns)


def _supported(
    scores: Tensor, matched: BestMatching, here_rows: Tensor, here_columns: Tensor, has_border: bool
) -> Tensor:
    """Forbids pairs that are in no matching: P tends to zero there, but no step would arrive."""
    allowed = scores > -torch.inf
    expected = torch.nn.functional.pad(here_rows, (0, 1), value=has_border).unsqueeze(2)
    expected = expected & torch.nn.functional.pad(here_columns, (0, 1), value=has_border).unsqueeze(1)
    expected[:, -1, -1] = False
    if not bool((expected & ~allowed).any()):
        return scores
    n_rows, n_columns = here_rows.shape[1], here_columns.shape[1]
    n = n_rows + n_columns
    # A row or column that is unmatched, or not there, gets a partner of its own; these partners may match each other.
    square = allowed.new_zeros(scores.shape[0], n, n)
    square[:, :n_rows, :n_columns] = allowed[:, :-1, :-1]
    few = (here_rows.sum(1) <= here_columns.sum(1)).unsqueeze(1)
    row_unmatched = allowed[:, :-1, -1] if has_border else ~few
    column_unmatched = allowed[:, -1, :-1] if has_border else few
    square[:, :n_rows, n_columns:] = torch.diag_embed(row_unmatched.expand(-1, n_rows) | ~here_rows)
    square[:, n_rows:, :n_columns] = torch.diag_embed(column_unmatched.expand(-1, n_columns) | ~here_columns)
    square[:, n_rows:, n_columns:] = True
    support = _total_support(square, _completed(matched.columns, n_columns))
    found = torch.zeros_like(allowed)
    found[:, :-1, :-1] = support[:, :n_rows, :n_columns]
    found[:, :-1, -1] = support[:, :n_rows, n_columns:].diagonal(dim1=1, dim2=2)
    found[:, -1, :-1] = support[:, n_rows:, :n_columns].diagonal(dim1=1, dim2=2)
    return torch.where(found, scores, -torch.inf)


def _completed(columns: Tensor, n_columns: int) -> Tensor:
    """Extends a matching (batch, R) to a permutation of R + C; an unmatched row or column gets a partner of its own."""
    n_items, n_rows = columns.shape
    number = torch.arange(n_rows, device=columns.device)
    of_rows = torch.where(columns >= 0, columns, n_columns + number)
    taken = torch.zeros(n_items, n_columns + 1, dtype=torch.bool, device=columns.device)
    taken.scatter_(1, torch.where(columns >= 0, columns, n_columns), True)
    taken = taken[:, :n_columns]
    # The k-th column that is taken matches, with its partner, that of the k-th row that is matched.
    rows_first = (columns < 0).long().argsort(dim=1, stable=True)
    rank = (taken.cumsum(1) - 1).clamp(min=0, max=n_rows - 1)
    meets = n_columns + rows_first.gather(1, rank)
    of_columns = torch.where(taken, meets, torch.arange(n_columns, device=columns.device))
    return torch.cat([of_rows, of_columns], 1)


def _total_support(allowed: Tensor, columns: Tensor) -> Tensor:
    """Marks the allowed pairs (batch, n, n) that lie in a perfect matching.

    `columns` (batch, n) is one perfect matching M.

    Row a may follow row b into its column if (a, M(b)) is allowed. The pair is in a perfect matching if and only if b
    can, directly or in steps, follow a: the cycle exchanges their columns (Dulmage & Mendelsohn, 1958).
    """
    n = columns.shape[1]
    follows = allowed.gather(2, columns.unsqueeze(1).expand(-1, n, -1)).float()  # [a, b]: a into the column of b
    reached = 1
    while reached < n:  # each pass doubles the number of steps
        follows = (follows @ follows > 0).float()
        reached *= 2
    both_ways = follows.transpose(1, 2) > 0  # [a, b]: b can follow a
    owner = torch.empty_like(columns).scatter_(1, columns, torch.arange(n, device=columns.device).expand_as(columns))
    return allowed & both_ways.gather(2, owner.unsqueeze(1).expand(-1, n, -1))
