"""A structure with its data: potentials in the shapes of the engine, and results in the user's shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.program import Parts, Program, largest_score
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.positions import KeptPositions

if TYPE_CHECKING:
    from omegamax.structures.dynamic_program import DynamicProgram
    from omegamax.structures.structure import Structure

Sizes = tuple[tuple[int, ...], ...]  # the event shape of each component

_HALVES = (torch.float16, torch.bfloat16)


_MILD = (1e-6, 1e6)  # temperatures by which scores are divided in their own type
_LARGE = 2.0**14  # float32 numbers of this size are a thousandth apart
_LARGEST = 1e290  # what scores / γ may reach in float64, so that the sums over a structure are finite


def is_mild(gamma: float | Tensor) -> bool:
    """Says whether scores of usual size, divided by this temperature, are of usual size too."""
    if isinstance(gamma, Tensor):
        if not checks.is_readable(gamma):
            return True
        gamma = float(gamma.detach())
    return _MILD[0] <= gamma <= _MILD[1]


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Returns the type of the computation: halves are computed in float32 and rounded once."""
    return torch.float32 if dtype in _HALVES else dtype


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of potentials over a structure; the batch axes are merged into one."""

    structure: Structure
    parts: Parts  # the components, each (batch, *event), float32 or float64
    lengths: tuple[Tensor, ...]  # (batch,) per axis that has a length, on the CPU
    batch_shape: tuple[int, ...]
    dtype: torch.dtype  # of the potentials
    kind: Any  # None for potentials that are one tensor, else their NamedTuple class
    kept: KeptPositions | None = None  # which positions there are; None: those within the lengths
    is_compacted: bool = False  # whether the parts have been moved so that positions that are kept come first

    @property
    def n_items(self) -> int:
        """The size of the merged batch."""
        return self.parts[0].shape[0]

    @property
    def sizes(self) -> Sizes:
        """The event shape of each component, on which the lattice depends."""
        return tuple([tuple(part.shape[1:]) for part in self.parts])

    @property
    def lattice(self) -> Lattice:
        """The structure's hypergraph for these sizes; only a dynamic program has one."""
        if not hasattr(self.structure, "lattice"):
            raise ValueError(
                f"{type(self.structure).__name__}: this needs the random walk of a dynamic program, got a structure "
                "that is searched as a whole; use sparsemap for a distribution over a few structures"
            )
        return cast("DynamicProgram", self.structure).lattice(self.sizes)

    @property
    def goals(self) -> Tensor:
        """The node of the topology in which each item ends, (batch,), on the device of the potentials."""
        return self.goals_on_host.to(self.parts[0].device)

    @property
    def goals_on_host(self) -> Tensor:
        """The same on the CPU."""
        nodes = cast("DynamicProgram", self.structure).goals(self.sizes, self.lengths).expand(self.n_items)
        return self.lattice.topology.node_number[nodes]

    @property
    def order(self) -> Tensor | None:
        """The order (batch, N) in which a program reads the positions, None where it reads them as they lie."""
        return None if self.kept is None or self.is_compacted else self.kept.order

    def compacted(self) -> Problem:
        """Returns the problem with positions that are kept in front, as if the others were beyond the lengths.

        `as_parts` and `in_user_shape` still take and give structures in the user's order.
        """
        if self.kept is None or self.is_compacted:
            return self
        return replace(self, parts=(self.kept.in_front(self.parts[0]), *self.parts[1:]), is_compacted=True)

    def program(self, regularizer: Regularizer) -> Program:
        """Returns the structure's program for these inputs."""
        return self.structure.program(self, regularizer)

    def scores_of_edges(self) -> Tensor:
        """Returns the scores of all edges, (batch, edges)."""
        return self.lattice.scores_of_edges(self.parts)

    def widened(self) -> Problem:
        """Returns the problem in float64, for numbers that are differences of large ones.

        Results have the user's type.
        """
        if all(part.dtype is torch.float64 or part.device.type == "mps" for part in self.parts):
            return self
        return replace(self, parts=tuple(part.double() for part in self.parts))

    def divided(self, gamma: float | Tensor) -> Problem:
        """Returns the problem at potentials / γ; −inf stays, and has no derivative with respect to γ."""
        return self.tempered(gamma)[0]

    def tempered(self, gamma: float | Tensor) -> tuple[Problem, float | Tensor]:
        """Returns the problem at potentials / γ, and γ, which is one number per item where it is extreme.

        Far below or above 1 the quotients leave the range of float32, and near the ends of its own range that of
        float64: they are then taken in float64, at a γ for which the largest score of an item stays finite. That is so
        close to the hard maximum that no smaller γ is any closer.
        """
        if not isinstance(gamma, Tensor) and gamma == 1:
            return self, gamma
        wide = self.widened() if self._is_large() else self
        if not isinstance(gamma, Tensor) and is_mild(gamma):
            return replace(wide, parts=tuple(part / gamma for part in wide.parts)), gamma
        per_item = gamma if isinstance(gamma, Tensor) else torch.tensor(gamma, dtype=torch.float64)
        per_item = per_item.reshape(()).to(self.parts[0].device)
        if not is_mild(gamma):
            wide = self.widened()
            sizes = [torch.where(part.isfinite(), part, 0).detach().flatten(1).abs() for part in wide.parts]
            least = torch.cat(sizes, 1).amax(1) / _LARGEST if wide.n_items else sizes[0].sum(1)
            per_item = torch.maximum(per_item.double(), least.double())
        divided = []
        for part in wide.parts:
            forbidden = part == -torch.inf
            by = per_item.to(part.dtype).reshape(-1, *(1,) * (part.dim() - 1))
            divided.append(torch.where(forbidden, part, torch.where(forbidden, 0, part) / by))
        return replace(wide, parts=tuple(divided)), per_item

    def _is_large(self) -> bool:
        """Says whether quotients of float32 scores would be rounded by more than a thousandth."""
        if self.parts[0].dtype is torch.float64 or not all(map(checks.is_readable, self.parts)):
            return False
        return largest_score(self.parts) > _LARGE

    def in_user_shape(self, parts: Parts, *, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> Any:
        """Reshapes parts (before · batch · after, *event) to (*before, *batch_shape, *after, *event)."""
        if self.is_compacted:
            items = torch.arange(self.n_items).repeat(math.prod(before)).repeat_interleave(math.prod(after))
            parts = self.put_back(parts, items)
        return self.with_leading_axes(parts, (*before, *self.batch_shape, *after))

    def put_back(self, parts: Parts, items: Tensor) -> Parts:
        """Moves the positions of compacted parts (number, *event) back; `items` (number,) says whose parts they are."""
        if self.kept is None or not self.is_compacted:
            return parts
        return (self.kept.put_back(parts[0], items), *parts[1:])

    def with_leading_axes(self, parts: Parts, lead: tuple[int, ...]) -> Any:
        """Gives parts these leading axes and the potentials' type."""
        shaped = [found.to(self.dtype).reshape(*lead, *like.shape[1:]) for found, like in zip(parts, self.parts)]
        return shaped[0] if self.kind is None else self.kind(*shaped)

    def per_item(self, numbers: Tensor, *, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> Tensor:
        """Gives numbers (before · batch, *after) the user's shape and type; float32 for halves under autocast.

        A log-partition is a sum over all parts: as PyTorch's losses, it is not rounded to half precision there.
        """
        like = self.parts[0]
        dtype = computed_in(self.dtype) if routing.autocasts(like) else self.dtype
        return numbers.to(device=like.device, dtype=dtype).reshape((*before, *self.batch_shape, *after))

    def as_list(self, items: list[Any]) -> Any:
        """Returns a list with one entry per item; the entry itself where there is no batch."""
        return items if self.batch_shape else items[0]

    def as_parts(self, who: str, structures: Any) -> tuple[Parts, tuple[int, ...]]:
        """Merges the axes of structures (*before, *batch_shape, *event) into parts (before · batch, *event).

        It also returns `before`.
        """
        given = (structures,) if isinstance(structures, Tensor) else tuple(structures)
        expected = [(*self.batch_shape, *part.shape[1:]) for part in self.parts]
        if len(given) != len(expected) or any(
            tuple(g.shape[max(0, g.dim() - len(e)) :]) != e for g, e in zip(given, expected)
        ):
            labels = self.structure.labels_are
            source = "" if labels is None else f", or make them of {labels} with target_from"
            raise ValueError(
                f"{who}: structures must be shaped as the potentials, {expected}, with any axes before, got "
                f"{[tuple(g.shape) for g in given]}; take them from map or sample{source}"
            )
        before = tuple(given[0].shape[: given[0].dim() - len(expected[0])])
        merged = [g.reshape(-1, *part.shape[1:]) for g, part in zip(given, self.parts)]
        if self.kept is not None and self.is_compacted:
            merged[0] = self.kept.in_front(merged[0], torch.arange(self.n_items).repeat(math.prod(before)))
        return tuple(merged), before
