"""The solver of factor graphs: iterations until the residuals are small, or until the faces give the exact solution."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.inference.factor_graphs.admm import Alternation, Iterate, IterationResult, largest, spread
from omegamax.inference.factor_graphs.agreement import Agreement, Faces
from omegamax.inference.factor_graphs.local_problem import LocalSolution

_FIRST, _EVERY = 2, 6  # iterations before the residuals are first checked, and between checks
_EXACT = 1e-11  # the solution on the faces is accepted if its residuals, relative to its numbers, are below this
_NOTHING = 1e-15  # a marginal of zero, rounded
_APART = 1e-3  # a primal residual above this may mean that no assignment satisfies all factors
_OUT_OF_BALANCE = 5.0  # ρ is changed if one residual is this much larger than the other


class LpSolution(NamedTuple):
    """What the iterations reached for each item."""

    marginals: Tensor  # (batch, entries)
    extra: Tensor  # (batch, scores): ν
    feasible: Tensor  # (batch,): False where no assignment satisfies all factors
    primal: Tensor  # (batch,)
    dual: Tensor  # (batch,)
    n_iterations: Tensor  # (batch,)
    converged: Tensor  # (batch,)
    faces: Faces  # around the solution


def solve_graph(
    agreement: Agreement, scores: Tensor, extra_scores: Tensor, *, quadratic: bool, atol: float, max_iter: int
) -> LpSolution:
    """Solves a batch: scores (batch, entries) and (batch, scores), float64, −inf forbids, neither NaN nor +inf.

    Without the quadratic term the solution does not depend on the unit of the scores, so they are divided by a unit.
    Residuals are then relative to it.
    """
    if not quadratic:
        unit = _unit(scores, extra_scores).unsqueeze(1)
        scores, extra_scores = scores / unit, extra_scores / unit
    alternation = Alternation(agreement, 1.0 if quadratic else 0.0)
    final, feasible, found = alternation.start(scores, extra_scores)
    record = _Record(final.select(torch.arange(len(scores))), feasible)
    items = torch.nonzero(feasible).squeeze(1)
    now, before = final.select(items), _select(agreement, found, items)
    last = failed = torch.full_like(_shape(before), -1)
    done, next_balance = 0, 10
    while len(items) and done < max_iter:
        for _ in range(min(_EVERY if done else _FIRST, max_iter - done)):
            result = alternation.step(now, before)
            now, before, done = result.iterate, result.locals, done + 1
        shape = _shape(before)
        small = (result.primal <= atol) & (result.dual <= atol * _scale(now))
        worth_it = (small | (shape == last).all(1)) & (shape != failed).any(1)
        exact = _exact_solution(alternation, result, torch.nonzero(worth_it).squeeze(1))
        now, result = exact.iterate, result._replace(primal=exact.primal, dual=exact.dual)
        small = small | exact.found
        hopeless = ~small & (result.primal > _APART)
        if bool(hopeless.any()):
            hopeless = hopeless & alternation.infeasible(now, result.slots)
        over = small | hopeless if done < max_iter else torch.ones_like(small)
        record.write(items[over], now.select(over), result.primal[over], result.dual[over], done)
        record.converged[items[over]], record.feasible[items[over]] = (small | hopeless)[over], ~hopeless[over]
        failed = torch.where((worth_it & ~exact.found).unsqueeze(1), shape, failed)[~over]
        items, last, before = items[~over], shape[~over], _select(agreement, before, torch.nonzero(~over).squeeze(1))
        now = now.select(~over)
        if done >= next_balance:
            now, next_balance = _balanced(now, result.primal[~over], result.dual[~over]), 2 * next_balance
    return record.read(alternation)


class _ExactSolution(NamedTuple):
    iterate: Iterate
    primal: Tensor
    dual: Tensor
    found: Tensor  # (batch,)


def _exact_solution(alternation: Alternation, result: IterationResult, items: Tensor) -> _ExactSolution:
    """Solves on the present faces for some of the items, and keeps a solution that one more iteration does not move."""
    now, primal, dual = result.iterate, result.primal, result.dual
    found = torch.zeros_like(primal, dtype=torch.bool)
    if len(items) == 0:
        return _ExactSolution(now, primal, dual, found)
    here = _select(alternation.agreement, result.locals, items)
    faces = alternation.faces(result.origin.select(items), here)
    candidate = alternation.on_the_faces(now.select(items), faces, result.slots[items])
    check = alternation.step(candidate, here)
    apart = (check.slots - alternation.agreement.copy(candidate.marginals)).abs().amax(1)
    size = now.multipliers[items].abs().amax(1).clamp(min=1)
    passed = (apart <= _EXACT * size) & (check.dual <= _EXACT * _scale(candidate) * size)
    good = items[passed]
    found[good] = True
    marginals, multipliers = now.marginals.clone(), now.multipliers.clone()
    marginals[good], multipliers[good] = candidate.marginals[passed], candidate.multipliers[passed]
    primal, dual = primal.clone(), dual.clone()
    primal[good], dual[good] = apart[passed], check.dual[passed]
    return _ExactSolution(replace(now, marginals=marginals, multipliers=multipliers), primal, dual, found)


class _Record:
    """Collects the results of all items."""

    def __init__(self, final: Iterate, feasible: Tensor) -> None:
        n_items = len(feasible)
        self.final, self.feasible, self.converged = final, feasible, ~feasible
        self.primal, self.dual = (final.scores.new_zeros(n_items) for _ in range(2))
        self.n_iterations = torch.zeros(n_items, dtype=torch.long)

    def write(self, items: Tensor, now: Iterate, primal: Tensor, dual: Tensor, done: int) -> None:
        for name in ("marginals", "multipliers", "rho"):
            getattr(self.final, name)[items] = getattr(now, name)
        self.primal[items], self.dual[items], self.n_iterations[items] = primal, dual, done

    def read(self, alternation: Alternation) -> LpSolution:
        """Solves all factors once more, for ν and the faces; what a factor holds at 0 or 1 is exactly so."""
        final, agreement = self.final, alternation.agreement
        target = agreement.copy(final.marginals) - final.multipliers
        found = alternation.solve(target, final.extra_scores / final.rho, final.forbidden, None)
        faces = alternation.faces(final, found)
        fixed = agreement.join([face.fixed.double() for face in faces.faces])
        held = agreement.gather(fixed * agreement.join([local.point for local in found]))
        marginals = torch.where(faces.free, final.marginals, held / agreement.gather(fixed).clamp(min=1))
        marginals = torch.where(marginals.abs() <= _NOTHING, 0, marginals)
        extra = agreement.gather_scores([local.extra for local in found])
        none = ~self.feasible.unsqueeze(1)
        return LpSolution(
            torch.where(none, 0, marginals),
            torch.where(none, 0, extra),
            self.feasible,
            self.primal,
            self.dual,
            self.n_iterations,
            self.converged,
            replace(faces, free=faces.free & ~none),
        )


def _shape(found: list[LocalSolution]) -> Tensor:
    """Returns numbers (batch, ...) that stay the same as long as the faces do."""
    bounds = [2 * (local.point == 0).long() + (local.point == 1).long() for local in found]
    return torch.cat([part.flatten(1) for part in (*bounds, *(local.pattern for local in found))], 1)


def _select(agreement: Agreement, found: list[LocalSolution], items: Tensor) -> list[LocalSolution]:
    chosen = []
    for group, (point, extra, feasible, pattern, memory) in zip(agreement.groups, found):
        memory = group.select(memory, items)
        chosen.append(LocalSolution(point[items], extra[items], feasible[items], pattern[items], memory))
    return chosen


def _unit(scores: Tensor, extra_scores: Tensor) -> Tensor:
    """Returns a power of two near the range of the scores, (batch,): dividing by it loses no digit."""
    size = torch.maximum(spread(scores), largest(extra_scores))
    exponent = torch.frexp(size).exponent
    # Beyond these exponents a power of two, or a score divided by it, leaves the range of a double.
    return torch.where(size > 0, torch.ldexp(torch.ones_like(size), exponent.clamp(-1000, 1000)), 1)


def _scale(now: Iterate) -> Tensor:
    """Returns the size of the scores, at least one: the unit of the dual residual."""
    return torch.maximum(largest(now.scores), largest(now.extra_scores)).clamp(min=1)


def _balanced(now: Iterate, primal: Tensor, dual: Tensor) -> Iterate:
    """Raises ρ where agreement lags behind, and lowers it where the variables do; ρλ stays."""
    dual = dual / _scale(now)
    factor = torch.where(primal > _OUT_OF_BALANCE * dual, 3.0, torch.where(dual > _OUT_OF_BALANCE * primal, 1 / 3, 1.0))
    factor = factor.to(primal.dtype).unsqueeze(1)
    return replace(now, rho=now.rho * factor, multipliers=now.multipliers / factor)
