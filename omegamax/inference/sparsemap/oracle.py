"""Oracles: the SparseMAP solver sees a structure only through its MAP, compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.structures.sparsemap import CompiledOracle


class BestVertices(NamedTuple):
    """The best vertices of some items."""

    values: Tensor  # (items,); −inf: there is no vertex, NaN or +inf: the scores are not numbers
    vertices: Tensor  # (items, parts) float64


@dataclass(frozen=True, eq=False)
class Oracle:
    """Finds the MAP of a batch: `best(items, scores)` takes scores (items, parts) in float64."""

    best: Callable[[Tensor, Tensor], BestVertices]
    compiled: CompiledOracle | None
    n_regularized: int  # leading parts that the norm sees; the others are extra scores


def flatten(parts: tuple[Tensor, ...]) -> Tensor:
    """Joins components (batch, *event) into one matrix (batch, parts) in float64."""
    return torch.cat([part.flatten(1).double() for part in parts], 1)


def unflatten(rows: Tensor, like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Undoes `flatten`, in the shapes and types of `like`."""
    sizes = [part.shape[1:].numel() for part in like]
    found = rows.split(sizes, 1)
    return tuple([each.reshape(-1, *part.shape[1:]).to(part.dtype) for each, part in zip(found, like)])
