"""A row of the table: potentials, all members by brute force, and the recursion once more in plain Python.

A row's `members` knows nothing of hypergraphs: it lists the structures from their definition. Its `recursion` writes
the dynamic program down as a textbook does, over a `smooth_max` of a list of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import omegamax as om

Parts = tuple[np.ndarray, ...]  # the components of one item's potentials, or of one structure


@dataclass(frozen=True, eq=False)
class StructureCase:
    name: str
    structure: om.Structure
    draw: Callable[[torch.Generator, int], Any]  # (generator, batch) -> float64 potentials
    members: Callable[..., list[Parts]]  # (parts of one item, *its lengths) -> every structure
    recursion: Callable[..., float]  # (smooth_max, parts of one item, *its lengths) -> DP_Ω
    n_members: Callable[..., int] | None  # (*lengths) -> the closed form; None where it depends on more
    lengths: Sequence[tuple[int, ...]]  # one tuple per item of the batch; () where the structure has no lengths
    largest_degree: int  # of a node, for the bounds
    most_heads: int  # nodes in one derivation, for the bounds
    needs_first: bool = True  # without the parts of the first component there is no structure left

    def __str__(self: Any) -> str:
        return self.name

    def potentials(self: Any, seed: int = 0) -> Any:
        return self.draw(torch.Generator().manual_seed(seed), len(self.lengths))

    def options(self: Any) -> dict[str, Any]:
        """The keyword `lengths`, where the structure has any."""
        n_axes = len(self.lengths[0])
        if n_axes == 0:
            return {}
        tensors = tuple(torch.tensor(axis) for axis in zip(*self.lengths))
        return {"lengths": tensors[0] if n_axes == 1 else tensors}


@dataclass(frozen=True, eq=False)
class OracleCase:
    """A row for a structure that only its MAP oracle searches."""

    name: str
    structure: om.Structure
    draw: Callable[[torch.Generator, int], Any]  # (generator, batch) -> float64 potentials
    members: Callable[..., list[Parts]]  # (parts of one item, *its lengths) -> every structure
    n_members: Callable[..., int] | None  # (*lengths) -> the closed form; None where it depends on more
    lengths: Sequence[tuple[int, ...]]  # one tuple per item of the batch; () where the structure has no lengths

    __str__ = StructureCase.__str__
    potentials = StructureCase.potentials
    options = StructureCase.options


def parts_of(potentials: Any) -> tuple[Tensor, ...]:
    """The tensors that make up potentials, or weights."""
    return (potentials,) if isinstance(potentials, Tensor) else tuple(potentials)


def like(potentials: Any, parts: Sequence[Tensor]) -> Any:
    """Tensors as the type of the potentials."""
    return parts[0] if isinstance(potentials, Tensor) else type(potentials)(*parts)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
