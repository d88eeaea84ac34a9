"""Computes the loss of scores at targets: the one place that tells rows from structures, and kinds of targets apart."""

from __future__ import annotations

import functools
from typing import Any, TypedDict

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.losses.reduction import check_reduction, reduced
from omegamax.losses.row_evaluation import loss_without_omega, non_negative
from omegamax.losses.structure_evaluation import losses_at_structure, structure_of
from omegamax.losses.targets import (
    check_class_weights,
    check_distribution,
    check_label_smoothing,
    check_no_classes,
    read_index,
    smoothed,
    smoothed_one_hot,
)
from omegamax.operators.operator import Operator, masked
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of

_HALVES = (torch.float16, torch.bfloat16)


class LossOptions(TypedDict, total=False):
    """The keywords that Fenchel–Young losses share, beside `reduction`; each comment begins with the default."""

    dim: int  # -1: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
    weight: Tensor | None  # None: weights (C,) of the classes
    ignore_index: int  # -100: the class that costs nothing and counts for nothing
    label_smoothing: float  # 0.0: the share of the target that is spread over all classes
    check: bool  # True: whether gold structures are checked; without, a forbidden one costs +inf


@routing.in_float32
def loss_of(
    who: str,
    smooth: SmoothMax,
    scores: Any,
    target: Any,
    *,
    reduction: str = "mean",
    dim: int = -1,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    mask: Any = None,
    lengths: Any = None,
    positions: Any = None,
    target_edges: Tensor | None = None,
    check: bool = True,
) -> Tensor:
    """Computes max_Ω(scores) + Ω(target) − <scores, target>, reduced; errors name `who`."""
    check_reduction(who, reduction)
    if not isinstance(smooth, SmoothMax):
        raise TypeError(
            f"{who}: smooth must be a SmoothMax, got {kind_of(smooth)}; "
            f"{instead_of(smooth, 'SquaredNorm() or Smoothed(Chain(), Shannon())')}"
        )
    check_label_smoothing(who, label_smoothing)
    if structure_of(smooth) is not None:
        check_no_classes(who, dim, weight, ignore_index, label_smoothing)
        options: dict[str, Any] = {"lengths": lengths, "mask": mask, "positions": positions}
        options |= {"target_edges": target_edges, "check": check}
        wide, dtype = widened(scores)
        losses = reduced(losses_at_structure(who, smooth, wide, target, **options), reduction)
        return losses if dtype is None else losses.to(dtype)
    inner = smooth
    while isinstance(inner, Scaled):
        inner = inner.inner
    if structure_of(inner) is not None:
        raise ValueError(
            f"{who}: the temperature of a structure belongs to its Ω, got one around {type(inner).__name__}; use "
            "Smoothed(structure, Scaled(regularizer, gamma))"
        )
    if inner.event_ndim != 1:
        raise ValueError(
            f"{who}: smooth must act on rows or on a structure, got {type(inner).__name__} over {inner.event_ndim} "
            "axes; write smooth.max(scores) + smooth.omega(target) − (scores · target).sum((-2, -1))"
        )
    if target_edges is not None:
        raise ValueError(f"{who}: target_edges is for structures, got it with rows of scores; give the target alone")
    if positions is not None:
        raise ValueError(f"{who}: positions are for chains, got them with rows of scores; use ignore_index")
    checks.check_scores(who, scores)
    checks.check_dim(who, scores, dim)
    if mask is not None:
        checks.check_mask(who, scores, mask)
        mask = mask.expand(scores.shape).movedim(dim, -1)
    rows = masked(type(smooth).__name__, 1, scores if dim == -1 else scores.movedim(dim, -1), mask, lengths)
    rows = rows.float() if rows.dtype in _HALVES else rows
    check_class_weights(who, weight, rows)
    per_row: Tensor | None
    if isinstance(target, Tensor) and target.is_floating_point():
        at = check_distribution(who, target, rows, dim)
        shared = smoothed(rows, at, label_smoothing) if label_smoothing else at
        losses = _with_temperature(smooth, rows, lambda omega, x: _losses_at_distributions(omega, x, shared))
        per_row = None if weight is None else (at * weight.to(at)).sum(-1)
    else:
        index, kept = read_index(who, target, rows, ignore_index)
        if kept is not None:  # what they hold, NaN too, must not reach the gradient, not even that of a temperature
            rows = torch.where(kept.unsqueeze(-1), rows, 0)
        losses = _with_temperature(
            smooth, rows, lambda omega, x: _losses_at_classes(omega, x, index, kept, label_smoothing)
        )
        per_row = None if kept is None else kept.to(rows.dtype)
        if weight is not None:
            chosen = weight.to(rows)[index]
            per_row = chosen if kept is None else torch.where(kept, chosen, 0)
    return reduced(losses, reduction, per_row).to(scores.dtype)


def widened(scores: Any) -> tuple[Any, torch.dtype | None]:
    """Returns scores with half types as float32, and the half type to return to (None if there is none)."""
    parts = (scores,) if isinstance(scores, Tensor) else scores if isinstance(scores, tuple) else ()
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        return scores, None  # not scores; a later check raises
    dtype = functools.reduce(torch.promote_types, (part.dtype for part in parts))
    wide = [part.float() if part.dtype in _HALVES else part for part in parts]
    return (wide[0] if isinstance(scores, Tensor) else type(scores)(*wide)), dtype if dtype in _HALVES else None


def _with_temperature(smooth: SmoothMax, rows: Tensor, losses_of: Any) -> Tensor:
    """Computes L_{γΩ}(θ; y) = γ L_Ω(θ/γ; y); an infinite loss stays, and has no derivative with respect to γ."""
    if not isinstance(smooth, Scaled):
        return losses_of(smooth, rows)
    checks.check_row_parameter("Scaled", "gamma", smooth.gamma, rows)
    losses = _with_temperature(smooth.inner, smooth._divided(rows), losses_of)
    infinite = losses == torch.inf
    return torch.where(infinite, losses, torch.where(infinite, 0, losses) * smooth._per_problem())


def _losses_at_classes(smooth: Operator, rows: Tensor, index: Tensor, kept: Tensor | None, smoothing: float) -> Tensor:
    if smoothing == 0 and smooth.zero_at_corners:
        losses = non_negative(loss_without_omega(smooth, rows, index))
    elif smoothing and _has_one_omega(smooth, rows):
        omega = smooth.omega(smoothed_one_hot(rows.new_zeros(1, rows.shape[-1]), index.new_zeros(1), smoothing))
        losses = non_negative(loss_without_omega(smooth, rows, index, smoothing=smoothing) + omega)
    else:
        losses = _losses_at_distributions(smooth, rows, smoothed_one_hot(rows, index, smoothing))
    return losses if kept is None else torch.where(kept, losses, 0)


def _has_one_omega(smooth: Operator, rows: Tensor) -> bool:
    """Whether Ω of a smoothed class is the same number for all rows and classes, so that one of them tells it.

    It is if Ω depends neither on the order of the classes nor on the row, and no class has the score −inf.
    """
    if not (smooth.zero_at_corners and getattr(smooth, "symmetric", False) and not smooth.parameters()):
        return False
    return checks.is_readable(rows) and bool(rows.detach().sum(-1).isfinite().all())


def _losses_at_distributions(smooth: Operator, rows: Tensor, target: Tensor) -> Tensor:
    """Adds Ω(y), on the classes whose score is not −inf."""
    found = loss_without_omega(smooth, rows, target)
    if smooth.zero_at_corners:
        return non_negative(found + smooth.omega(target))
    removed = rows == -torch.inf
    whole = checks.is_readable(removed) and not bool(removed.any())
    return non_negative(found + (smooth.omega(target) if whole else smooth.omega_without(target, removed)))
