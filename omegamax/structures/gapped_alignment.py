"""Global and local alignments with affine gaps (Needleman–Wunsch, Smith–Waterman; Gotoh, J. Mol. Biol. 1982).

    match (..., M, N)           [i, j] scores the pairing of element i of x with element j of y
    open_x, extend_x (..., M)   score of leaving element i of x unpaired, as the first or a later element of a gap
    open_y, extend_y (..., N)   the same for y

An alignment is a set of pairs that increase on both sides. Between two pairs the unpaired elements of x
come before those of y, so that an alignment is exactly one path, and there are C(m + n, m) of them. The grid has three
states: P (the last two elements are a pair), X (a gap of x), Y (a gap of y). Edges into a state are ordered P, X, Y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.problem import Problem, Sizes

_PAIR, _GAP_X, _GAP_Y = 0, 1, 2


class GappedScores(NamedTuple):
    """Potentials of an alignment with affine gaps, and structures in the same form."""

    match: Tensor  # (..., M, N)
    open_x: Tensor  # (..., M)
    extend_x: Tensor  # (..., M)
    open_y: Tensor  # (..., N)
    extend_y: Tensor  # (..., N)

    @classmethod
    def from_match(cls, match: Tensor, gap_open: float | Tensor, gap_extend: float | Tensor) -> GappedScores:
        """Uses one score for opening and one for extending a gap, on both sides: numbers or tensors (...).

        A gap of L elements scores gap_open + (L − 1) · gap_extend; both are usually negative.
        """
        found = []
        for size in match.shape[-2:]:
            for score in (gap_open, gap_extend):
                each = torch.as_tensor(score, dtype=match.dtype, device=match.device)
                found.append(each.unsqueeze(-1).expand(*each.shape, size))
        return cls(match, *found)


class _Edges:
    """Collects the edges of the grid, kind by kind; node 0 is the start."""

    def __init__(self, m: int, n: int) -> None:
        self.m, self.n = m, n
        self.columns: list[np.ndarray] = []

    def node(self, state: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Returns the node of a state when i elements of x and j of y are done.

        The pair state of (0, 0) is the start.
        """
        number = 1 + (state * (self.m + 1) + i) * (self.n + 1) + j
        return np.where((state == _PAIR) & (i == 0) & (j == 0), 0, number)

    def add(self, head: np.ndarray, tail: np.ndarray, component: int, part: np.ndarray | int) -> None:
        """Adds edges that touch a part of one component; −1 for none."""
        self.columns.append(np.stack(np.broadcast_arrays(head, tail, component, part)))

    def gaps_and_pairs(self, *, from_start: bool) -> None:
        """Adds the moves inside the grid; gaps at the very beginning only `from_start`."""
        i, j = (axis.ravel() for axis in np.indices((self.m + 1, self.n + 1)))
        paired = (i > 0) & (j > 0)
        begins = (i + j == 0) if from_start else np.zeros_like(paired)
        x = ((i > 1) & (j > 0)) | ((i > 0) & (j == 0) & from_start)  # where a gap of x can end
        y = (j > 1) & (i > 0) | ((j > 0) & ((i == 0) | (j == 1)) & from_start)
        before = {_PAIR: paired | begins, _GAP_X: x, _GAP_Y: y}
        for state, there in before.items():
            a, b = i[there], j[there]
            tail = self.node(state, a, b)
            ok = (a < self.m) & (b < self.n)
            self.add(self.node(_PAIR, a + 1, b + 1)[ok], tail[ok], 0, (a * self.n + b)[ok])
            if state != _GAP_Y:
                ok = a < self.m
                self.add(self.node(_GAP_X, a + 1, b)[ok], tail[ok], 1 if state == _PAIR else 2, a[ok])
            ok = b < self.n
            self.add(self.node(_GAP_Y, a, b + 1)[ok], tail[ok], 4 if state == _GAP_Y else 3, b[ok])

    def lattice(self, levels_of_ends: np.ndarray) -> Lattice:
        """Returns the lattice of all edges so far; the ends are the last nodes."""
        head, tail, component, part = np.concatenate(self.columns, 1)
        order = np.argsort(head, kind="stable")
        head, tail, component, part = head[order], tail[order], component[order], part[order]
        i, j = np.indices((self.m + 1, self.n + 1))
        levels = np.concatenate([[-1], np.tile((i + j).ravel(), 3), levels_of_ends])
        topology = Topology.from_edges(levels, head, tail[:, None], leaves=[0])
        sizes = [self.m * self.n, self.m, self.m, self.n, self.n]
        return Lattice.from_parts(topology, [np.where(component == c, part, -1) for c in range(5)], sizes)


class _Gapped(DynamicProgram):
    """The base class of global and local alignments."""

    event_ndim = 2
    n_regularized = 1

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if not isinstance(potentials, GappedScores):
            kind = type(potentials).__name__
            raise TypeError(
                f"{self._name}: potentials must be GappedScores, got {kind}; use GappedScores.from_match(match, -2, -1)"
            )
        match = potentials.match
        checks.check_event(self._name, "match", match, (None, None), "(..., M, N)")
        found = [(match, 2)]
        for name, gap in zip(GappedScores._fields[1:], potentials[1:]):
            size = match.shape[-2 if name.endswith("x") else -1]
            checks.check_event(self._name, name, gap, (size,), f"(..., {size})")
            found.append((gap, 1))
        return tuple(found)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return sizes[0]


@dataclass(frozen=True)
class GlobalAlignment(_Gapped):
    """Alignments of two whole sequences with affine gaps: Needleman–Wunsch in the form of Gotoh.

    >>> same = torch.tensor([[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0]])
    >>> GlobalAlignment().map(GappedScores.from_match(same, -2.0, -0.5)).match
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """

    def build(self, sizes: Sizes) -> Lattice:
        """Makes the start, three states per corner of the grid, and an end for every pair of lengths."""
        m, n = sizes[0]
        edges = _Edges(m, n)
        edges.gaps_and_pairs(from_start=True)
        i, j = (1 + axis.ravel() for axis in np.indices((m, n)))
        first = 1 + 3 * (m + 1) * (n + 1)
        for state, there in ((_PAIR, i > 0), (_GAP_X, i > 1), (_GAP_Y, i > 0)):
            a, b = i[there], j[there]
            edges.add(first + ((a - 1) * n + b - 1), edges.node(state, a, b), -1, -1)
        return edges.lattice(i + j + 1)

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its lengths."""
        m, n = sizes[0]
        return 1 + 3 * (m + 1) * (n + 1) + (lengths[0] - 1) * n + lengths[1] - 1


@dataclass(frozen=True)
class LocalAlignment(_Gapped):
    """Alignments of a stretch of one sequence with a stretch of another: Smith–Waterman in the form of Gotoh.

    An alignment begins and ends with a pair; the empty one, of score 0, counts once. All ends meet in one node.
    """

    has_empty = True

    def bind(self, potentials: Any, lengths: Any = None, mask: Any = None, positions: Any = None) -> Problem:
        """Forbids what lies beyond the lengths, gaps too, because every cell may be an end."""
        problem = super().bind(potentials, lengths, mask, positions)
        parts = [problem.parts[0]]
        for axis, gap in zip((0, 0, 1, 1), problem.parts[1:]):
            beyond = torch.arange(gap.shape[-1]) >= problem.lengths[axis].unsqueeze(-1)
            parts.append(torch.where(beyond.to(gap.device), -torch.inf, gap))
        return replace(problem, parts=tuple(parts))

    def forbidden(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor | None:
        m, n = (length.reshape(-1, 1, 1) for length in lengths)
        return (torch.arange(sizes[0][0]).unsqueeze(-1) >= m) | (torch.arange(sizes[0][1]) >= n)

    def build(self, sizes: Sizes) -> Lattice:
        """Makes the start, three states per corner of the grid, and one end.

        The empty alignment is the first way into it.
        """
        m, n = sizes[0]
        edges = _Edges(m, n)
        i, j = (1 + axis.ravel() for axis in np.indices((m, n)))
        end = 1 + 3 * (m + 1) * (n + 1)
        pair = edges.node(_PAIR, i, j)
        edges.add(pair, np.zeros_like(pair), 0, (i - 1) * n + j - 1)
        edges.gaps_and_pairs(from_start=False)
        edges.add(np.array([end]), np.array([0]), -1, -1)
        edges.add(np.full_like(pair, end), pair, -1, -1)
        return edges.lattice(np.array([m + n + 1]))

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        m, n = sizes[0]
        return torch.tensor([1 + 3 * (m + 1) * (n + 1)])
