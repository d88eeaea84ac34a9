"""Local quadratic problems of a factor graph: many factors of one kind and width, solved and differentiated at once.

    argmin over (z, ν) in conv(Y_f) of  ½‖z − target‖² − <scores, ν>

z are the factor's copies of the variables (its *slots*), ν what it scores besides (pairs, tables, transitions), which
has no quadratic term. Around a solution the point moves along a *face* of the polytope only: some slots are fixed, the
others are tied by linear equalities, and ν follows from z.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import torch
from torch import Tensor


class LocalSolution(NamedTuple):
    """The solutions of the local problems of a batch."""

    point: Tensor  # (batch, factors, width)
    extra: Tensor  # (batch, factors, scores)
    feasible: Tensor  # (batch,): False where a factor has no member at all
    pattern: Tensor  # (batch, factors): where this and the slots at 0 or 1 are the same, so is the face
    memory: Any  # what the face, and the next solution, need besides


class Face(abc.ABC):
    """The directions along which the solutions of a group of factors move; all maps are linear, one per batch item."""

    fixed: Tensor  # (batch, factors, width): slots that do not move

    @abc.abstractmethod
    def tie(self, slots: Tensor) -> Tensor:
        """Computes what vanishes along the face: (batch, factors, width) to (batch, factors, rows)."""

    @abc.abstractmethod
    def untie(self, multipliers: Tensor) -> Tensor:
        """Applies the transpose of `tie`."""

    @abc.abstractmethod
    def follow(self, slots: Tensor) -> Tensor:
        """Computes how ν moves with z: (batch, factors, width) to (batch, factors, scores)."""

    @abc.abstractmethod
    def lead(self, scores: Tensor) -> Tensor:
        """Applies the transpose of `follow`."""

    @abc.abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Returns the tensors of the face, from which `type(face)(*face.tensors())` makes it again."""


class LocalProblem(abc.ABC):
    """The local problem of a group of factors."""

    entries: Tensor  # (factors, width): the entry of the variables that each slot copies
    scores: Tensor  # (factors, scores): the place of each score in the vector of all factor scores

    @abc.abstractmethod
    def solve(self, target: Tensor, scores: Tensor, forbidden: Tensor, memory: Any) -> LocalSolution:
        """Solves all problems; `forbidden` (batch, factors, width) slots are 0.

        `memory` is that of the last solution, or None.
        """

    @abc.abstractmethod
    def face(self, local: LocalSolution, target: Tensor, scores: Tensor, forbidden: Tensor) -> Face:
        """Returns the face around solutions of the problem with these targets and scores."""

    @abc.abstractmethod
    def best(self, slots: Tensor, forbidden: Tensor) -> Tensor:
        """Returns the maximum over z in conv(Y_f) of <slots, z>, (batch, factors)."""

    def select(self, memory: Any, items: Tensor) -> Any:
        """Returns the memory of some items of the batch."""
        return None


class RowsFace(Face):
    """A face of factors that have few equalities each; the equalities are stored as rows."""

    def __init__(self, fixed: Tensor, rows: Tensor, maps: Tensor) -> None:
        self.fixed = fixed
        self.rows = rows  # (batch, factors, rows, width)
        self.maps = maps  # (batch, factors, scores, width)

    def tie(self, slots: Tensor) -> Tensor:
        return (self.rows @ slots.unsqueeze(-1)).squeeze(-1)

    def untie(self, multipliers: Tensor) -> Tensor:
        return (multipliers.unsqueeze(-2) @ self.rows).squeeze(-2)

    def follow(self, slots: Tensor) -> Tensor:
        return (self.maps @ slots.unsqueeze(-1)).squeeze(-1)

    def lead(self, scores: Tensor) -> Tensor:
        return (scores.unsqueeze(-2) @ self.maps).squeeze(-2)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.fixed, self.rows, self.maps


class SpanFace(Face):
    """A face that is spanned by directions: orthonormal columns in z, and the ν to which they lead."""

    def __init__(self, fixed: Tensor, basis: Tensor, maps: Tensor) -> None:
        self.fixed = fixed
        self.basis = basis  # (batch, factors, width, directions): orthonormal or zero columns
        self.maps = maps  # (batch, factors, scores, directions)

    def tie(self, slots: Tensor) -> Tensor:
        """Removes what the directions explain."""
        return slots - self._along(slots)

    def untie(self, multipliers: Tensor) -> Tensor:
        return multipliers - self._along(multipliers)

    def follow(self, slots: Tensor) -> Tensor:
        along = self.basis.transpose(-1, -2) @ slots.unsqueeze(-1)
        return (self.maps @ along).squeeze(-1)

    def lead(self, scores: Tensor) -> Tensor:
        along = self.maps.transpose(-1, -2) @ scores.unsqueeze(-1)
        return (self.basis @ along).squeeze(-1)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.fixed, self.basis, self.maps

    def _along(self, slots: Tensor) -> Tensor:
        return (self.basis @ (self.basis.transpose(-1, -2) @ slots.unsqueeze(-1))).squeeze(-1)


def at_a_bound(point: Tensor) -> Tensor:
    """Marks the slots that a closed form has clipped, exactly."""
    return (point == 0) | (point == 1)


def none_of(like: Tensor) -> Tensor:
    """Returns the scores of factors that have none: (batch, factors, 0)."""
    return torch.zeros(*like.shape[:-1], 0, dtype=like.dtype)
