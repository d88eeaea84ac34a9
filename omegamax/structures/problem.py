"""A structure with its data: potentials as the engine sees them, and the way back to the user's shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from omegamax.inference.lattice import Lattice
from omegamax.inference.program import Parts, Program
from omegamax.operators.regularizer import Regularizer

if TYPE_CHECKING:
    from omegamax.structures.dynamic_program import DynamicProgram
    from omegamax.structures.structure import Structure

Sizes = tuple[tuple[int, ...], ...]  # the event shape of each component

_HALVES = (torch.float16, torch.bfloat16)


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """The type of the computation: halves are computed in float32 and rounded once."""
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

    @property
    def n_items(self) -> int:
        """The size of the merged batch."""
        return self.parts[0].shape[0]

    @property
    def sizes(self) -> Sizes:
        """What the lattice depends on."""
        return tuple(tuple(part.shape[1:]) for part in self.parts)

    @property
    def lattice(self) -> Lattice:
        """The structure's hypergraph for these sizes; of a dynamic program."""
        if not hasattr(self.structure, "lattice"):
            raise ValueError(
                f"{type(self.structure).__name__}: this needs the random walk of a dynamic program, got a structure "
                "that is searched as a whole; use sparsemap for a distribution over a few structures"
            )
        return cast("DynamicProgram", self.structure).lattice(self.sizes)

    @property
    def goals(self) -> Tensor:
        """The node of the topology in which each item ends, (batch,)."""
        nodes = cast("DynamicProgram", self.structure).goals(self.sizes, self.lengths).expand(self.n_items)
        return self.lattice.topology.node_number[nodes].to(self.parts[0].device)

    def program(self, regularizer: Regularizer) -> Program:
        """Of the structure, for these inputs."""
        return self.structure.program(self, regularizer)

    def scores_of_edges(self) -> Tensor:
        """(batch, edges)."""
        return self.lattice.scores_of_edges(self.parts)

    def divided(self, gamma: float | Tensor) -> Problem:
        """The problem at potentials / γ; −inf stays, and has no derivative with respect to γ."""
        if not isinstance(gamma, Tensor):
            return self if gamma == 1 else replace(self, parts=tuple(part / gamma for part in self.parts))
        divided = []
        for part in self.parts:
            forbidden = part == -torch.inf
            finite = torch.where(forbidden, 0, part) / gamma.reshape(()).to(part.dtype)
            divided.append(torch.where(forbidden, part, finite))
        return replace(self, parts=tuple(divided))

    def dress(self, parts: Parts, *, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> Any:
        """Parts (before · batch · after, *event) in the user's shapes (*before, *batch_shape, *after, *event)."""
        return self.dressed(parts, (*before, *self.batch_shape, *after))

    def dressed(self, parts: Parts, lead: tuple[int, ...]) -> Any:
        """Parts with these leading axes, as the potentials' type."""
        shaped = [found.to(self.dtype).reshape(*lead, *like.shape[1:]) for found, like in zip(parts, self.parts)]
        return shaped[0] if self.kind is None else self.kind(*shaped)

    def per_item(self, numbers: Tensor, *, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> Tensor:
        """Numbers (before · batch, *after) in the user's shape and type."""
        return numbers.to(device=self.parts[0].device, dtype=self.dtype).reshape((*before, *self.batch_shape, *after))

    def as_list(self, items: list[Any]) -> Any:
        """One entry per item; the entry itself where there is no batch."""
        return items if self.batch_shape else items[0]

    def undress(self, who: str, structures: Any) -> tuple[Parts, tuple[int, ...]]:
        """Structures (*before, *batch_shape, *event) as parts (before · batch, *event), and `before`."""
        given = (structures,) if isinstance(structures, Tensor) else tuple(structures)
        expected = [(*self.batch_shape, *part.shape[1:]) for part in self.parts]
        if len(given) != len(expected) or any(
            tuple(g.shape[max(0, g.dim() - len(e)) :]) != e for g, e in zip(given, expected)
        ):
            raise ValueError(
                f"{who}: structures must be shaped as the potentials, {expected}, with any axes before, got "
                f"{[tuple(g.shape) for g in given]}; take them from map or sample"
            )
        before = tuple(given[0].shape[: given[0].dim() - len(expected[0])])
        return tuple(g.reshape(-1, *part.shape[1:]) for g, part in zip(given, self.parts)), before
