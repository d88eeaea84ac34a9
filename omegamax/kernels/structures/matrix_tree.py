"""Sums over all arborescences (non-projective trees): log-partition, probabilities of arcs, and their derivative.

    log Z = log Σ_trees exp Σ_arcs θ[h, m]         μ[h, m] = ∂ log Z / ∂θ[h, m] = P(h is the head of m)

By the matrix-tree theorem Z is a determinant (Tutte 1948; Koo et al., EMNLP 2007). Determinants lose all digits when
some words form a cycle that no likely arc enters, so Z is computed by an elimination that adds, multiplies and divides
positive numbers only and is exact to rounding. The native code (csrc/arborescences/matrix_tree.hpp) works on plain
doubles as long as no product leaves their range, and on logarithms otherwise; the references work on logarithms always.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels.structures.state_reduction import AllButOne, Logs, log_total
from omegamax.kernels.structures.structure_kernel import launch, structure_kernel


@structure_kernel
def log_sum_of_trees(scores: Tensor, lengths: Tensor, *, single_root: bool) -> Tensor:
    """Computes log Z (batch,) of scores (batch, N + 1, N + 1), in float64; −inf where there is no tree."""
    graph = _graph(scores, None, lengths, single_root)
    return (log_total(graph.weights, single_root) + graph.shift).to(scores.dtype)


@log_sum_of_trees.twin
def _(scores: Tensor, lengths: Tensor, *, single_root: bool) -> Tensor:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    n_items, size = scores.shape[:2]
    value = scores.new_empty(n_items)
    extent = {"itemsize": scores.element_size(), "n_items": n_items, "cost": size**3}
    launch("arborescence_value", scores, lengths, size, int(single_root), value, **extent)
    return value


@structure_kernel
def arc_probabilities(scores: Tensor, lengths: Tensor, value: Tensor, *, single_root: bool) -> Tensor:
    """Computes the probabilities of arcs (batch, N + 1, N + 1), given log Z (`value`): zero where there is no tree."""
    graph = _graph(scores, None, lengths, single_root)
    found = AllButOne(graph.weights, single_root).probabilities()
    return _within_trees(found.level.exp(), scores, lengths, value)


@arc_probabilities.twin
def _(scores: Tensor, lengths: Tensor, value: Tensor, *, single_root: bool) -> Tensor:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    n_items, size = scores.shape[:2]
    marginals = torch.empty_like(scores)
    extent = {"itemsize": scores.element_size(), "n_items": n_items, "cost": size**3}
    launch("arborescence_marginals", scores, lengths, value, size, int(single_root), marginals, **extent)
    return marginals


@structure_kernel
def arc_probabilities_tangent(
    scores: Tensor, lengths: Tensor, value: Tensor, direction: Tensor, *, single_root: bool
) -> Tensor:
    """Computes the derivative of `arc_probabilities` along a direction: it eliminates numbers with derivatives."""
    graph = _graph(scores, direction, lengths, single_root)
    found = AllButOne(graph.weights, single_root).probabilities()
    assert found.rate is not None
    return _within_trees(found.level.exp() * found.rate, scores, lengths, value)


@arc_probabilities_tangent.twin
def _(scores: Tensor, lengths: Tensor, value: Tensor, direction: Tensor, *, single_root: bool) -> Tensor:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    n_items, size = scores.shape[:2]
    along, product = direction.to(scores.dtype).contiguous(), torch.empty_like(scores)
    extent = {"itemsize": scores.element_size(), "n_items": n_items, "cost": size**3}
    launch("arborescence_tangent", scores, lengths, value, along, size, int(single_root), product, **extent)
    return product


def _within_trees(found: Tensor, scores: Tensor, lengths: Tensor, value: Tensor) -> Tensor:
    """Writes zero where an item has no arc or no tree, and NaN throughout an item whose scores are not all numbers."""
    reads = allowed_arcs(lengths.to(scores.device), scores.shape[1])
    has_none, is_nan = (mask[:, None, None] for mask in (value == -torch.inf, value.isnan()))
    kept = torch.where(reads & ~has_none, found.to(scores.dtype), 0)
    return torch.where(is_nan, torch.nan, kept)


@dataclass(frozen=True, eq=False)
class _Graph:
    """The weights of arcs as logarithms, shifted."""

    weights: Logs
    shift: Tensor  # (batch,): what the shifts took from the logarithm of the sum over trees


def allowed_arcs(lengths: Tensor, size: int) -> Tensor:
    """Says which arcs an item may read: (batch, N + 1, N + 1)."""
    node = torch.arange(size, device=lengths.device)
    within = node <= lengths[:, None]
    return within[:, :, None] & within[:, None, :] & (node[:, None] != node) & (node > 0)


def _graph(scores: Tensor, direction: Tensor | None, lengths: Tensor, single_root: bool) -> _Graph:
    """Shifts columns by their maxima, as every tree has one arc in each; and row 0, if a tree has one arc in it."""
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
    # The first word is the head of words beyond the end, with weight 1, which changes no sum.
    level = torch.where(beyond[:, None, :] & (node == 1)[:, None], 0, level)
    rate = None if direction is None else torch.where(allowed & (level > -torch.inf), direction.double(), 0)
    return _Graph(Logs(level, rate), shift)
