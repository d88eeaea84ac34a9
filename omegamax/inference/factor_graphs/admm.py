"""LP-SparseMAP and LP-MAP over a factor graph, by alternating directions.

    max over μ, (μ_f, ν_f) in conv(Y_f)  of  <θ, μ> + Σ_f <η_f, ν_f> − ½‖μ‖²      s.t.  μ_f = μ on the variables of f

(LP-MAP: without the quadratic term.) Each iteration solves every factor's own quadratic problem around the current
variables, averages the copies, and moves the multipliers of the agreement:

    μ_f ← argmin ½‖μ_f − (μ − λ_f)‖² − <η_f, ν_f> / ρ          the factors, independently
    μ   ← (θ + ρ Σ_f (μ_f + λ_f)) / (q + ρ degree)             q = 1; 0 for LP-MAP
    λ_f ← λ_f + μ_f − μ

primal residual: max |μ_f − μ|, how far copies are from agreement; dual residual: ρ max |μ − the last μ|. Once the faces
on which the factors' solutions lie stay the same, the solution on those faces is that of a linear system; it is taken
if it passes the same test, so that answers are exact to rounding, not to a tolerance.

Niculae & Martins, "LP-SparseMAP: differentiable relaxed optimization for sparse structured prediction", ICML 2020;
Martins et al., JMLR 2015 (AD³). Over-relaxation and the balance of the residuals: Boyd et al., 2011, section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.inference.factor_graphs.agreement import Agreement, Faces
from omegamax.inference.factor_graphs.local_problem import LocalSolution

_RELAXATION = 1.6


@dataclass(frozen=True, eq=False)
class Iterate:
    """The variables of the iterations, for some items of the batch."""

    scores: Tensor  # (batch, entries): θ, finite
    extra_scores: Tensor  # (batch, scores): η
    forbidden: Tensor  # (batch, slots)
    marginals: Tensor  # (batch, entries): μ
    multipliers: Tensor  # (batch, slots): λ
    rho: Tensor  # (batch, 1)

    def select(self, items: Tensor) -> Iterate:
        """Returns the iterate of some items."""
        return Iterate(*(getattr(self, name)[items] for name in self.__dataclass_fields__))


class IterationResult(NamedTuple):
    """The result of one iteration."""

    origin: Iterate
    iterate: Iterate
    locals: list[LocalSolution]
    slots: Tensor  # (batch, slots): μ_f
    primal: Tensor  # (batch,)
    dual: Tensor  # (batch,)


@dataclass(frozen=True, eq=False)
class Alternation:
    """Runs the iterations for one graph; `quadratic` is q."""

    agreement: Agreement
    quadratic: float

    def start(self, scores: Tensor, extra_scores: Tensor) -> tuple[Iterate, Tensor, list[LocalSolution]]:
        """Solves each factor on its own, which is the solution for a single factor.

        It also says which items are feasible.
        """
        agreement = self.agreement
        forbidden = scores == -torch.inf
        finite = torch.where(forbidden, 0, scores)
        found = self.solve(agreement.copy(finite), extra_scores, agreement.copy(forbidden), None)
        feasible = torch.stack([local.feasible for local in found]).all(0)
        marginals = agreement.gather(agreement.join([local.point for local in found])) / agreement.degree
        # A constant in all scores moves no variable against another. A ρ of its size would make steps far too long.
        rho = torch.maximum(spread(scores), largest(extra_scores)).clamp(min=1.0).unsqueeze(1)
        multipliers = agreement.copy((self.quadratic * marginals - finite) / (rho * agreement.degree))
        iterate = Iterate(finite, extra_scores, agreement.copy(forbidden), marginals, multipliers, rho)
        return iterate, feasible, found

    def solve(
        self, target: Tensor, extra_scores: Tensor, forbidden: Tensor, before: list[LocalSolution] | None
    ) -> list[LocalSolution]:
        """Solves every factor's own problem."""
        agreement = self.agreement
        memories = [None] * len(agreement.groups) if before is None else [local.memory for local in before]
        given = zip(
            agreement.groups,
            agreement.split(target),
            agreement.scores_of(extra_scores),
            agreement.split(forbidden),
            memories,
        )
        return [group.solve(t, e, f, memory) for group, t, e, f, memory in given]

    def step(self, now: Iterate, before: list[LocalSolution] | None) -> IterationResult:
        agreement, rho = self.agreement, now.rho
        here = agreement.copy(now.marginals)
        found = self.solve(here - now.multipliers, now.extra_scores / rho, now.forbidden, before)
        slots = agreement.join([local.point for local in found])
        relaxed = here + _RELAXATION * (slots - here)
        total = now.scores + rho * agreement.gather(relaxed + now.multipliers)
        marginals = total / (self.quadratic + rho * agreement.degree)
        there = agreement.copy(marginals)
        return IterationResult(
            now,
            replace(now, marginals=marginals, multipliers=now.multipliers + relaxed - there),
            found,
            slots,
            (slots - there).abs().amax(1),
            rho.squeeze(1) * (marginals - now.marginals).abs().amax(1),
        )

    def faces(self, origin: Iterate, found: list[LocalSolution]) -> Faces:
        """Returns the faces on which the factors' solutions, found from this iterate, lie."""
        agreement = self.agreement
        target = agreement.split(agreement.copy(origin.marginals) - origin.multipliers)
        scores, forbidden = agreement.scores_of(origin.extra_scores / origin.rho), agreement.split(origin.forbidden)
        given = zip(agreement.groups, found, target, scores, forbidden)
        return Faces.of(agreement, tuple(group.face(local, t, e, f) for group, local, t, e, f in given))

    def on_the_faces(self, now: Iterate, faces: Faces, slots: Tensor) -> Iterate:
        """Solves on these faces: μ from the equalities, then the nearest multipliers that fit it."""
        agreement = self.agreement
        fixed = agreement.join([face.fixed.double() for face in faces.faces])
        times_fixed = agreement.gather(fixed)
        held = agreement.gather(fixed * slots) / times_fixed.clamp(min=1)
        finite = torch.where(now.extra_scores == -torch.inf, 0, now.extra_scores)
        pull = faces.lead_slots(finite)
        toward = now.scores + agreement.gather(pull) if self.quadratic else now.marginals
        marginals = torch.where(faces.free, toward, held)
        sums = faces.tie_slots(slots)
        for _ in range(2):  # the second pass recovers the digits that the first lost
            excess = faces.multipliers(faces.tie(marginals) - sums)
            marginals = marginals - torch.where(faces.free, faces.untie(excess), 0)

        # The scores −ρλ that each factor sees are, with those of ν, orthogonal to its face, and add up to θ − qμ.
        moving = fixed == 0
        seen = -now.rho * now.multipliers
        ties = faces.local_multipliers(torch.where(moving, seen + pull, 0), moving)
        wanted = now.scores - self.quadratic * marginals
        missing = torch.where(faces.free, wanted + agreement.gather(pull) - faces.untie(ties), 0)
        ties = ties + faces.multipliers(faces.tie(missing))
        seen = torch.where(moving, faces.untie_slots(ties) - pull, seen)
        left = torch.where(faces.free, 0, wanted - agreement.gather(seen)) / times_fixed.clamp(min=1)
        seen = torch.where(moving, seen, seen + agreement.copy(left))
        return replace(now, marginals=marginals, multipliers=-seen / now.rho)

    def infeasible(self, now: Iterate, slots: Tensor) -> Tensor:
        """Says whether the disagreement separates the factors' polytopes, so that no assignment satisfies all.

        v_f with Σ_f v_f = 0 on every entry and Σ_f min <v_f, Y_f> > 0: in agreement the sum would be zero.
        """
        agreement = self.agreement
        apart = slots - agreement.copy(agreement.gather(slots) / agreement.degree)
        parts = zip(agreement.groups, agreement.split(-apart), agreement.split(now.forbidden))
        most = torch.stack([group.best(v, f).sum(1) for group, v, f in parts]).sum(0)
        return most < -1e-6


def largest(scores: Tensor) -> Tensor:
    """Returns the largest finite absolute value of each item."""
    if scores.shape[1] == 0:
        return scores.new_zeros(scores.shape[0])
    return torch.where(scores == -torch.inf, 0, scores).abs().amax(1)


def spread(scores: Tensor) -> Tensor:
    """Returns, per item, the distance between the least and the greatest finite value."""
    if scores.shape[1] == 0:
        return scores.new_zeros(scores.shape[0])
    out = scores == -torch.inf
    least, greatest = torch.where(out, torch.inf, scores).amin(1), scores.amax(1)
    return torch.where(out.all(1), 0, greatest - least)
