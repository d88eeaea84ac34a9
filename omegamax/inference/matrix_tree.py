"""Sums over all arborescences (non-projective trees): log-partition, probabilities of arcs, and their derivative.

    log Z = log Σ_trees exp Σ_arcs θ[h, m]         μ[h, m] = ∂ log Z / ∂θ[h, m] = P(h is the head of m)

By the matrix-tree theorem Z is a determinant (Tutte 1948; Koo et al., EMNLP 2007). Determinants lose all digits when
some words form a cycle that no likely arc enters, so Z is computed by an elimination that adds, multiplies and divides
positive numbers only and is exact to rounding: in csrc/matrix_tree.hpp on plain doubles, as long as no product leaves
their range, and on logarithms otherwise; in `state_reduction.py` always on logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.inference.state_reduction import EachLast, Logs, log_total


@dataclass(frozen=True, eq=False)
class MatrixTreeProgram(Program):
    """The Shannon program over arcs (batch, N + 1, N + 1); computed in float64 for every type."""

    single_root: bool
    lengths: Tensor  # (batch,), int64, on the CPU

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Log Z, which is also the state: it says which items have trees."""
        scores = parts[0]
        if not routing.in_native_memory(scores):
            graph = self._graph(scores, None)
            found = (log_total(graph.weights, self.single_root) + graph.shift).to(scores.dtype)
            return found, (found.clone(),)
        value = scores.new_empty(scores.shape[0])
        self._launch("arborescence_value", scores.contiguous(), value)
        return value, (value.clone(),)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """The probabilities of arcs."""
        scores = parts[0]
        if not routing.in_native_memory(scores, *state):
            found = EachLast(self._graph(scores, None).weights, self.single_root).probabilities()
            return Swept((self._clean(found.level.exp(), scores, state[0]),), (), ())
        marginals = torch.empty_like(scores, memory_format=torch.contiguous_format)
        self._launch("arborescence_marginals", scores.contiguous(), state[0], marginals)
        return Swept((marginals,), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """Their derivative along a direction: the same elimination, on numbers with their derivatives."""
        scores, along = parts[0], direction[0]
        if along._is_zerotensor():
            along = torch.zeros_like(scores)
        if not routing.in_native_memory(scores, along, *state):
            found = EachLast(self._graph(scores, along).weights, self.single_root).probabilities()
            assert found.rate is not None
            product = found.level.exp() * found.rate
            return Swept((self._clean(product, scores, state[0]),), (), ())
        product = torch.empty_like(scores, memory_format=torch.contiguous_format)
        self._launch(
            "arborescence_tangent", scores.contiguous(), state[0], along.to(scores.dtype).contiguous(), product
        )
        return Swept((product,), (), ())

    def _launch(self, name: str, scores: Tensor, *tensors: Tensor) -> None:
        batch, size = scores.shape[:2]
        lengths = self.lengths.contiguous()
        getattr(routing.native, name)(
            scores.element_size(),
            routing.address(scores),
            routing.address(lengths),
            *(routing.address(tensor) for tensor in tensors),
            size,
            int(self.single_root),
            batch,
            size**3,  # the cost of an item
            torch.get_num_threads(),
        )

    def _graph(self, scores: Tensor, direction: Tensor | None) -> _Graph:
        return _graph(scores, direction, self.lengths, self.single_root)

    def _clean(self, found: Tensor, scores: Tensor, value: Tensor) -> Tensor:
        """No NaN where there is no tree, and everywhere where a score is none; zero where the item has no arcs."""
        reads = allowed_arcs(self.lengths.to(scores.device), scores.shape[1])
        none, bad = ((mask[:, None, None]) for mask in (value == -torch.inf, value.isnan()))
        kept = torch.where(reads & ~none, found.to(scores.dtype), 0)
        return torch.where(bad, torch.nan, kept)


@dataclass(frozen=True, eq=False)
class _Graph:
    weights: Logs
    shift: Tensor  # (batch,): what the logarithm of the sum over trees has lost


def allowed_arcs(lengths: Tensor, size: int) -> Tensor:
    """The arcs that an item may read: (batch, N + 1, N + 1)."""
    node = torch.arange(size, device=lengths.device)
    within = node <= lengths[:, None]
    return within[:, :, None] & within[:, None, :] & (node[:, None] != node) & (node > 0)


def _graph(scores: Tensor, direction: Tensor | None, lengths: Tensor, single_root: bool) -> _Graph:
    """Columns shifted by their maxima, as every tree has one arc in each; and row 0, if there is one arc in it."""
    size = scores.shape[-1]
    lengths = lengths.to(scores.device)
    allowed = allowed_arcs(lengths, size)
    level = torch.where(allowed, scores.double(), -torch.inf)
    tops = level.amax(1, keepdim=True)
    level = level - torch.where(tops == -torch.inf, 0, tops)
    node = torch.arange(size, device=scores.device)
    beyond = node > lengths[:, None]
    shift = torch.where(beyond | (node == 0), 0, tops[:, 0]).sum(1)
    if single_root:
        top = level[:, 0].amax(1)
        level = torch.where((node == 0)[:, None], level - torch.where(top == -torch.inf, 0, top)[:, None, None], level)
        shift = shift + top
    # Words beyond the end hang on the first one with weight 1, which changes nothing.
    level = torch.where(beyond[:, None, :] & (node == 1)[:, None], 0, level)
    rate = None if direction is None else torch.where(allowed & (level > -torch.inf), direction.double(), 0)
    return _Graph(Logs(level, rate), shift)
