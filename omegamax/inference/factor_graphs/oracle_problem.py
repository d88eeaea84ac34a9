"""Local problems of factors that have only a MAP oracle: SparseMAP's active set, started from the last solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.inference.factor_graphs.local_problem import LocalProblem, LocalSolution, SpanFace
from omegamax.inference.sparsemap.active_set import Ending
from omegamax.inference.sparsemap.face_search import find
from omegamax.inference.sparsemap.oracle import Oracle
from omegamax.kernels.structures.sparsemap import Certificate, Options, Start

_MAX_CALLS = 10_000
_DEPENDENT = 1e-9  # a singular value of directions, relative to the largest, that is zero


class _Memory(NamedTuple):
    """The vertices of the last solution."""

    vertices: Tensor  # (batch, factors, n, parts)
    probabilities: Tensor  # (batch, factors, n)


@dataclass(frozen=True, eq=False)
class OracleProblem(LocalProblem):
    """Factors of one structure and one shape; `oracle(n)` makes the oracle of a batch of n."""

    entries: Tensor
    scores: Tensor
    oracle: Callable[[int], Oracle]
    _oracles: dict[int, Oracle] = field(default_factory=dict, repr=False)

    def solve(self, target: Tensor, scores: Tensor, forbidden: Tensor, memory: _Memory | None) -> LocalSolution:
        found = self._find(target, scores, forbidden, memory, wants_face=False)
        vertices, probabilities = _written(found, target.shape[-1] + scores.shape[-1])
        mean = (probabilities.unsqueeze(1) @ vertices).squeeze(1)
        feasible = (found.endings != Ending.INFEASIBLE).reshape(target.shape[:2]).all(1)
        point, extra = mean.unflatten(0, target.shape[:2]).split([target.shape[-1], scores.shape[-1]], -1)
        kept = _Memory(vertices.unflatten(0, target.shape[:2]), probabilities.unflatten(0, target.shape[:2]))
        return LocalSolution(point, extra, feasible, _key(vertices, probabilities).reshape(target.shape[:2]), kept)

    def face(self, local: LocalSolution, target: Tensor, scores: Tensor, forbidden: Tensor) -> SpanFace:
        """Spans the face by the differences of all best vertices along the gradient."""
        found = self._find(target, scores, forbidden, local.memory, wants_face=True)
        width = target.shape[-1]
        vertices, _ = _written(found, width + scores.shape[-1])
        numbers = torch.arange(vertices.shape[1])
        present = (numbers < found.n_vertices.unsqueeze(1)) & (numbers > 0)
        spread = torch.where(present.unsqueeze(-1), vertices - vertices[:, :1], 0).transpose(1, 2)  # (·, parts, n)
        left, sizes, right = torch.linalg.svd(spread[:, :width], full_matrices=False)
        kept = sizes > _DEPENDENT * sizes.amax(1, keepdim=True).clamp(min=1)
        basis = left * kept.unsqueeze(1)
        inverse = torch.where(kept, 1 / torch.where(kept, sizes, 1), 0)
        maps = spread[:, width:] @ right.transpose(1, 2) * inverse.unsqueeze(1)
        fixed = (spread[:, :width] == 0).all(-1)
        return SpanFace(*(part.unflatten(0, target.shape[:2]) for part in (fixed, basis, maps)))

    def best(self, slots: Tensor, forbidden: Tensor) -> Tensor:
        n = slots.shape[0] * slots.shape[1]
        none = slots.new_zeros(*slots.shape[:2], self.scores.shape[1])
        rows = torch.cat([torch.where(forbidden, -torch.inf, slots), none], -1)
        return self._oracle(n).best(torch.arange(n), rows.flatten(0, 1)).values.reshape(slots.shape[:2])

    def select(self, memory: _Memory | None, items: Tensor) -> _Memory | None:
        return None if memory is None else _Memory(memory.vertices[items], memory.probabilities[items])

    def _find(
        self, target: Tensor, scores: Tensor, forbidden: Tensor, memory: _Memory | None, *, wants_face: bool
    ) -> Certificate:
        rows = torch.cat([torch.where(forbidden, -torch.inf, target), scores], -1).flatten(0, 1).contiguous()
        start = None if memory is None else Start(*(part.flatten(0, 1).contiguous() for part in memory))
        return find(self._oracle(len(rows)), Options(_MAX_CALLS, 0.0), start, wants_face, rows)

    def _oracle(self, n: int) -> Oracle:
        if n not in self._oracles:
            self._oracles.clear()
            self._oracles[n] = self.oracle(n)
        return self._oracles[n]


def _written(found: Certificate, n_parts: int) -> tuple[Tensor, Tensor]:
    """Writes out the vertices (items, n, parts), at least one, and their probabilities (items, n)."""
    n_items, width = found.probabilities.shape
    if width == 0:
        return found.values.new_zeros(n_items, 1, n_parts), found.probabilities.new_zeros(n_items, 1)
    vertices = found.values.new_zeros(n_items * width, n_parts)
    item = found.owners // width
    vertices[found.owners, found.places - item * n_parts] = found.values
    return vertices.unflatten(0, (n_items, width)), found.probabilities


def _key(vertices: Tensor, probabilities: Tensor) -> Tensor:
    """Returns a number per item that depends on the set of vertices that have a probability."""
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(vertices.shape[-1], 2, generator=generator, dtype=torch.float64)
    one, other = (vertices @ mixed).unbind(-1)
    each = torch.where(probabilities > 0, one.sin() * other.cos() + other, 0).sum(1)
    return (each * 1e9).round().long()
