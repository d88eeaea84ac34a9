"""Oscarmax: attention whose weights are equal on clusters of similar scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.kernels.candidates import at_their_places, candidates, recorded, row_sum, unrolled, value_above, within
from omegamax.kernels.isotonic import pool
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.sparsemax import sparsemax

# The strength where none is given, and the most that strength times the number of positions may then be.
STRENGTH, MOST = 0.01, 1.0


def default_strength(n_positions: int | Tensor) -> float | Tensor:
    """min(0.01, 1/d) for d positions that are not masked: the paper's number up to 100, and a pull below 1 beyond.

    The penalty subtracts strength · (d − rank) from the score of each rank, strength · (d − 1) from the largest. At a
    constant strength that grows with the row until it exceeds any spread of scores, and all weights become equal.
    """
    if isinstance(n_positions, Tensor):
        return (MOST / n_positions.clamp(min=1)).clamp(max=STRENGTH)
    return min(STRENGTH, MOST / max(n_positions, 1))


def _native_strength(rows: Tensor, parameters: tuple[Any, ...]) -> list[Any]:
    """Returns the strength, or the default and the bound `MOST` on its pull."""
    (strength,) = parameters
    if strength is None:
        return [0, STRENGTH, MOST]
    return [*native_parameter(strength, rows), torch.inf]


@solver(constants=torch.int32, native_arguments=_native_strength)
def oscarmax(rows: Tensor, strength: float | Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Computes sparse weights that are equal for similar scores, wherever these are in the row.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_{i < j} max(p_i, p_j)

    On the simplex the weights are ordered as the scores, so with these sorted downwards the penalty is linear,
    strength * sum_i (d - i) p_i for d entries: subtract, restore the order (isotonic regression), project. (Composing
    the OSCAR proximal operator with the projection, as first published, ranks by |x| and clips at zero, and
    is not optimal in general.) Entries of -inf are removed. Returns the weights, the value of the maximum (one a row),
    and int32 labels shaped as rows: the cluster of each supported entry, -2 where an entry was removed, -1 elsewhere
    and in all of a row without a solution (only -inf, NaN, +inf, an invalid strength). Equal scores share a
    cluster, unless strength is 0, when each entry is its own. No strength means `default_strength` of each row.
    """
    columns = rows.shape[-1]
    if columns == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf), rows.to(torch.int32)
    top = widen(rows.amax(-1, keepdim=True))
    n_kept = (rows != -torch.inf).sum(-1, keepdim=True)
    strength = as_tensor(default_strength(n_kept.to(top.dtype)) if strength is None else strength, top)
    valid = (strength >= 0) & strength.isfinite()
    strength = torch.where(valid, strength, 0)
    found = candidates(rows, 0.0 if unrolled(rows) else _window(rows, top, n_kept, strength))
    solved = found.top.isfinite()
    scores = torch.where(solved, -found.gap, -torch.inf)
    stable = {} if recorded() else {"stable": True}  # ONNX has no stable sort; the order of ties changes labels only
    ordered, order = scores.sort(dim=-1, descending=True, **stable)
    kept = ordered > -torch.inf
    rank = torch.arange(ordered.shape[-1], dtype=ordered.dtype, device=rows.device)
    # This is x_i - strength (d - i) up to a constant, which the projection ignores.
    tilted = torch.where(kept, ordered + strength * rank, torch.inf)
    lowest = tilted.amin(-1, keepdim=True)
    lowest = torch.where(lowest == torch.inf, 0, lowest)
    solution, joined = pool(-torch.where(kept, tilted, lowest))  # removed entries, last, violate nothing
    weights, _ = sparsemax.reference(torch.where(kept, -solution, -torch.inf))
    # The value is the Lagrangian at the weights: errors of the weights and of their sum change it in second order only.
    penalty = strength * (n_kept - 1 - rank)
    multiplier = -solution[..., :1] - penalty[..., :1] - weights[..., :1]
    above = row_sum(weights * (torch.where(kept, ordered, 0) - penalty - weights / 2)) + 0.5
    above = above - multiplier * (row_sum(weights) - 1)

    ties = torch.nn.functional.pad(ordered[..., 1:] == ordered[..., :-1], (1, 0)) & (strength > 0)
    labels = (~(joined | ties)).cumsum(-1) - 1
    labels = torch.where(weights > 0, labels, -1)
    weights, labels = torch.empty_like(weights).scatter(-1, order, weights), labels.scatter(-1, order, labels)
    weights = torch.where(valid, at_their_places(weights, found, rows), torch.nan)
    value = torch.where(valid, value_above(above, found, rows).unsqueeze(-1), torch.nan).squeeze(-1)
    everywhere = found.put(labels.to(torch.int32), torch.full_like(rows, -1, dtype=torch.int32))
    everywhere = torch.where(rows == -torch.inf, -2, everywhere)
    return weights, value, torch.where(solved & valid, everywhere, -1)


def _window(rows: Tensor, top: Tensor, n_kept: Tensor, strength: Tensor) -> Tensor:
    """Returns how far below the largest score an entry can have weight, when the m entries above that level are known.

    Ranked by score from 0, no value after the isotonic regression is more than strength * (m - 1) above its score, and
    the largest value is at least the largest score: values more than 1 below that one are projected to zero. Entries of
    zero weight can be left out without changing the others, so a smaller window gives a smaller m, and so on.
    """
    window = 1 + strength * (n_kept - 1).clamp(min=0)
    for _ in range(3):
        size = within(rows, top, window).sum(-1, keepdim=True)
        window = 1 + strength * (size - 1).clamp(min=0)
    return window


@kernel
def oscarmax_product(weights: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of oscarmax: its mean over each cluster minus that over the support.

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
