"""The agreement of factors on the variables they share, and the projection onto what all their faces allow.

Every factor has its own copy (*slot*) of each entry of its variables; in agreement, all copies of an entry are equal.
Around a solution the variables move within

    S = {d : d = 0 where a face fixes it,  A d = 0}       A stacks what the faces tie

and, since the objective is ½‖μ‖² plus linear terms, by the projector P onto S: for a change (θ̇, η̇) of the scores

    μ̇ = P (θ̇ + Lᵀ η̇),    ν̇ = L μ̇                      L: how the unregularised ν follow μ along the faces

so the Jacobian is symmetric, positive semi-definite, and constant until a face changes. A is sparse; P comes from
conjugate gradients on A Aᵀ, batched over items, of which each needs at most as many steps as A has rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from omegamax.inference.factor_graphs.local_problem import Face, LocalProblem

_ROUNDING = 1e-30  # the rounding error of a squared norm in float64
_FLAT = 1e-10  # a squared singular value of A below this is zero: A has few entries, all of them 0, 1, −1 or cosines


@dataclass(frozen=True, eq=False)
class Agreement:
    """Groups of factors over a vector of entries and a vector of factor scores."""

    n_entries: int
    n_scores: int
    groups: tuple[LocalProblem, ...]

    @cached_property
    def entry_of_slot(self) -> Tensor:
        """The entry that each slot copies, (slots,), group after group."""
        return torch.cat([group.entries.flatten() for group in self.groups])

    @cached_property
    def degree(self) -> Tensor:
        """How many slots copy each entry, (entries,); at least one."""
        return torch.bincount(self.entry_of_slot, minlength=self.n_entries).double()

    def split(self, slots: Tensor) -> list[Tensor]:
        """Splits (batch, slots) into (batch, factors, width) of each group."""
        parts = slots.split([group.entries.numel() for group in self.groups], 1)
        return [part.unflatten(1, tuple(group.entries.shape)) for part, group in zip(parts, self.groups)]

    def join(self, parts: list[Tensor]) -> Tensor:
        """Joins what `split` has divided."""
        return torch.cat([part.flatten(1) for part in parts], 1)

    def copy(self, entries: Tensor) -> Tensor:
        """Copies entries (batch, entries) to their slots (batch, slots)."""
        return entries.index_select(1, self.entry_of_slot)

    def gather(self, slots: Tensor) -> Tensor:
        """Sums the slots of each entry, (batch, entries): the transpose of `copy`."""
        return slots.new_zeros(slots.shape[0], self.n_entries).index_add_(1, self.entry_of_slot, slots)

    def scores_of(self, scores: Tensor) -> list[Tensor]:
        """Splits (batch, scores) into (batch, factors, scores) of each group."""
        return [scores[:, group.scores] for group in self.groups]

    def gather_scores(self, parts: list[Tensor]) -> Tensor:
        """Undoes `scores_of`; scores that factors share are summed."""
        total = parts[0].new_zeros(parts[0].shape[0], self.n_scores)
        for part, group in zip(parts, self.groups):
            total.index_add_(1, group.scores.flatten(), part.flatten(1))
        return total


@dataclass(frozen=True, eq=False)
class Faces:
    """The faces of all groups around a solution."""

    agreement: Agreement
    faces: tuple[Face, ...]
    free: Tensor  # (batch, entries): not fixed by any

    @classmethod
    def of(cls, agreement: Agreement, faces: tuple[Face, ...]) -> Faces:
        """Collects the faces, and finds the entries that none of them fixes."""
        fixed = agreement.gather(agreement.join([face.fixed.double() for face in faces]))
        return cls(agreement, faces, fixed == 0)

    def tie(self, entries: Tensor) -> Tensor:
        """Computes A d, (batch, rows)."""
        slots = self.agreement.split(self.agreement.copy(entries))
        return torch.cat([face.tie(part).flatten(1) for face, part in zip(self.faces, slots)], 1)

    def tie_slots(self, slots: Tensor) -> Tensor:
        """Computes what each factor's own copies amount to: the right-hand side of its ties."""
        parts = self.agreement.split(slots)
        return torch.cat([face.tie(part).flatten(1) for face, part in zip(self.faces, parts)], 1)

    def untie_slots(self, multipliers: Tensor) -> Tensor:
        """Computes Aᵀ x before the sum over copies: (batch, slots)."""
        shapes = [face.tie(torch.zeros_like(face.fixed, dtype=multipliers.dtype)).shape for face in self.faces]
        parts = multipliers.split([shape[1:].numel() for shape in shapes], 1)
        return self.agreement.join(
            [face.untie(part.reshape(shape)) for face, part, shape in zip(self.faces, parts, shapes)]
        )

    def untie(self, multipliers: Tensor) -> Tensor:
        """Computes Aᵀ x, (batch, entries)."""
        return self.agreement.gather(self.untie_slots(multipliers))

    def follow(self, entries: Tensor) -> Tensor:
        """Computes L d, (batch, scores)."""
        slots = self.agreement.split(self.agreement.copy(entries))
        return self.agreement.gather_scores([face.follow(part) for face, part in zip(self.faces, slots)])

    def lead_slots(self, scores: Tensor) -> Tensor:
        """Computes Lᵀ η before the sum over copies: (batch, slots)."""
        parts = self.agreement.scores_of(scores)
        return self.agreement.join([face.lead(part) for face, part in zip(self.faces, parts)])

    def lead(self, scores: Tensor) -> Tensor:
        """Computes Lᵀ η, (batch, entries)."""
        return self.agreement.gather(self.lead_slots(scores))

    def multipliers(self, right: Tensor) -> Tensor:
        """Finds the x of smallest norm with A Aᵀ x = right, on the free entries."""
        enough = _ROUNDING * right.square().sum(1)
        total = _conjugate_gradients(self._gram, right, enough)
        return total + _conjugate_gradients(self._gram, right - self._gram(total), enough)

    def local_multipliers(self, slots: Tensor, moving: Tensor) -> Tensor:
        """Finds the x that, factor by factor, comes nearest to slots = Aᵀ x on the moving slots."""

        def gram(multipliers: Tensor) -> Tensor:
            return self.tie_slots(torch.where(moving, self.untie_slots(multipliers), 0))

        right = self.tie_slots(slots)
        return _conjugate_gradients(gram, right, _ROUNDING * right.square().sum(1))

    def project(self, entries: Tensor) -> Tensor:
        """Computes P d, the projection of a direction."""
        entries = torch.where(self.free, entries, 0)
        moved = entries - torch.where(self.free, self.untie(self.multipliers(self.tie(entries))), 0)
        return moved - torch.where(self.free, self.untie(self.multipliers(self.tie(moved))), 0)

    def jacobian_product(self, entries: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Computes (μ̇, ν̇) along (θ̇, η̇)."""
        moved = self.project(entries + self.lead(scores))
        return moved, self.follow(moved)

    def _gram(self, multipliers: Tensor) -> Tensor:
        return self.tie(torch.where(self.free, self.untie(multipliers), 0))


def _conjugate_gradients(operator: Callable[[Tensor], Tensor], right: Tensor, enough: Tensor) -> Tensor:
    """Solves a consistent, positive semi-definite system for each item, down to a squared residual of `enough`.

    Rounding makes the system slightly inconsistent; a direction in which the operator is nothing but rounding ends it.
    """
    solution = torch.zeros_like(right)
    residual, direction = right, right
    norm = residual.square().sum(1)
    for _ in range(right.shape[1] + 8):
        image = operator(direction)
        curvature = (direction * image).sum(1)
        going = (norm > enough) & (curvature > _FLAT * direction.square().sum(1))
        if not bool(going.any()):
            break
        step = torch.where(going, norm / torch.where(going, curvature, 1), 0).unsqueeze(1)
        solution = solution + step * direction
        residual = residual - step * image
        last, norm = norm, torch.where(going, residual.square().sum(1), 0)
        ratio = torch.where(going, norm / torch.where(going, last, 1), 0).unsqueeze(1)
        direction = residual + ratio * direction
    return solution
