"""Oscarmax: attention whose weights are equal on clusters of similar scores."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.isotonic import pool
from omegamax.kernels.kernel import extent, kernel, launch, new_solution
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.sparsemax import sparsemax


@kernel
def oscarmax(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sparse weights that are equal for similar scores, wherever these are in the row.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_{i < j} max(p_i, p_j)

    On the simplex the weights are ordered as the scores, so with these sorted downwards the penalty is linear,
    strength * sum_i (d - i) p_i for d entries: subtract, restore the order (isotonic regression), project. (Composing
    the OSCAR proximal operator with the projection, as first published, ranks by |x| and clips at zero, and
    is not optimal in general.) Entries of -inf are removed. Returns the weights, the value of the maximum (one a row),
    and int32 labels shaped as rows: the cluster of each supported entry, -2 where an entry was removed, -1 elsewhere.
    Equal scores share a cluster, unless strength is 0, when each entry is its own.
    """
    columns = rows.shape[-1]
    if columns == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf), rows.to(torch.int32)
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    top = wide.amax(-1, keepdim=True)
    valid_strength = (strength >= 0) & strength.isfinite()
    valid = top.isfinite() & valid_strength
    strength = torch.where(valid_strength, strength, 0)
    ordered, order = torch.where(valid, wide - top, -torch.inf).sort(dim=-1, descending=True)
    kept = ordered > -torch.inf
    rank = torch.arange(columns, dtype=wide.dtype, device=rows.device)
    # Up to a constant, which the projection does not see and the value takes back, x_i - strength (d - i).
    tilted = torch.where(kept, ordered + strength * rank, torch.inf)
    lowest = tilted.amin(-1, keepdim=True)
    lowest = torch.where(lowest == torch.inf, 0, lowest)
    solution, joined = pool(-torch.where(kept, tilted, lowest))  # removed entries, last, violate nothing
    weights, value = sparsemax.reference(torch.where(kept, -solution, -torch.inf))
    value = top.squeeze(-1) + value - (strength * (kept.sum(-1, keepdim=True) - 1)).squeeze(-1)

    ties = torch.nn.functional.pad(ordered[..., 1:] == ordered[..., :-1], (1, 0)) & (strength > 0)
    labels = (~(joined | ties)).cumsum(-1) - 1
    labels = torch.where(weights > 0, labels, -1)
    place = order.argsort(-1)
    bad = ~valid & (top != -torch.inf) | ~valid_strength
    weights = torch.where(bad, torch.nan, weights.gather(-1, place))
    value = torch.where(bad.squeeze(-1), torch.nan, value)
    labels = torch.where(rows == -torch.inf, -2, labels.gather(-1, place)).to(torch.int32)
    return weights.to(rows.dtype), value.to(rows.dtype), labels


@oscarmax.twin
def _(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    labels = torch.empty_like(rows, dtype=torch.int32, memory_format=torch.contiguous_format)
    return *_solve_native(rows, strength, labels), labels


@oscarmax.alone
def _(rows: Tensor, strength: float) -> Tensor:
    rows = rows.contiguous()
    weights = torch.empty_like(rows)
    routing.native.oscarmax(rows.itemsize, rows.data_ptr(), 0, strength, weights.data_ptr(), 0, 0, *extent(rows))
    return weights


@kernel
def oscarmax_alone(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """The weights and the value of `oscarmax` without its labels, which are as large as the weights."""
    return oscarmax.reference(rows, strength)[:2]


@oscarmax_alone.twin
def _(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    return _solve_native(rows, strength, None)


def _solve_native(rows: Tensor, strength: float | Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    weights, value = new_solution(rows)
    if rows.shape[-1] == 0:
        return weights, value.fill_(-torch.inf)
    launch("oscarmax", rows, rows, *native_parameter(strength, rows), weights, value, 0 if labels is None else labels)
    return weights, value


@kernel
def oscarmax_product(weights: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    """Jacobian of oscarmax times a direction: its mean over each cluster minus its mean over the support.

    Zero off the support.
    """
    support = weights != 0  # NaN rows stay NaN
    inside = torch.where(support, direction, 0)
    mean = cluster_mean(labels, inside)
    centre = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(support, mean - centre, 0) + 0 * weights


@oscarmax_product.twin
def _(weights: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    weights, labels, direction = weights.contiguous(), labels.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("oscarmax_product", direction, weights, labels, direction, product)
    return product


def cluster_mean(labels: Tensor, direction: Tensor) -> Tensor:
    """Replaces each entry by the mean over the entries with its label; entries with a negative label count nowhere."""
    label = labels.clamp(min=0).to(torch.int64).expand_as(direction)
    counted = (labels >= 0).to(direction.dtype).expand_as(direction)
    zeros = torch.zeros_like(direction)
    total = zeros.scatter_add(-1, label, counted * direction)
    size = zeros.scatter_add(-1, label, counted)
    return (total / size.clamp(min=1)).gather(-1, label)
