"""Checks and reads targets of rows, which are classes or distributions over them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks


def read_index(who: str, target: Any, rows: Tensor, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """Returns classes (...) that are in range, and which of them are kept (None if all are)."""
    n_classes, shape = rows.shape[-1], tuple(rows.shape[:-1])
    if not isinstance(target, Tensor) or target.dtype is torch.bool or target.is_complex():
        kind = target.dtype if isinstance(target, Tensor) else type(target).__name__
        raise TypeError(
            f"{who}: target must be an integer Tensor of classes or a floating one of distributions, got {kind}; "
            "use torch.tensor([...])"
        )
    if tuple(target.shape) != shape:
        raise ValueError(
            f"{who}: classes must have the shape {shape} of the scores without the axis of classes, got "
            f"{tuple(target.shape)}; distributions are floating point, and PyTorch's layout (N, C, ...) needs dim=1"
        )
    if n_classes == 0:
        raise ValueError(f"{who}: scores must have at least one class, got {tuple(rows.shape)}; check the last axis")
    target = target.to(device=rows.device, dtype=torch.long)
    if checks.is_readable(target):
        least, most = target.aminmax() if target.numel() else (0, 0)
        if least >= 0 and most < n_classes and not 0 <= ignore_index < n_classes:  # the usual case, quickly
            return target, None
    ignored = target == ignore_index
    if not checks.is_readable(target):
        return torch.where(ignored, 0, target), ~ignored
    wrong = ~ignored & ((target < 0) | (target >= n_classes))
    if bool(wrong.any()):
        raise ValueError(
            f"{who}: classes must lie between 0 and {n_classes - 1}, got {int(target[wrong][0])}; mark what is to be "
            f"left out with ignore_index={ignore_index}"
        )
    return (torch.where(ignored, 0, target), ~ignored) if bool(ignored.any()) else (target, None)


def check_distribution(who: str, target: Tensor, rows: Tensor, dim: int) -> Tensor:
    """Returns the target with `dim` last, and raises unless it has one distribution per row of scores."""
    if target.dim() != rows.dim() or tuple(target.movedim(dim, -1).shape) != tuple(rows.shape):
        raise ValueError(
            f"{who}: distributions must be shaped as the scores, {tuple(rows.shape)} with the classes last, got "
            f"{tuple(target.shape)}; classes are integers"
        )
    target = target.movedim(dim, -1).to(rows)
    if checks.is_readable(target) and target.numel():
        with torch.no_grad():
            off = (target.sum(-1) - 1).abs().max()
            least = target.min()
        if not (float(least) >= 0 and float(off) <= 1e-2):
            raise ValueError(
                f"{who}: each distribution must be non-negative with sum 1, got an entry {float(least):.3g} and a sum "
                f"{float(off):.3g} away from 1; apply softmax to scores first"
            )
    return target


def check_class_weights(who: str, weight: Any, rows: Tensor) -> None:
    """Raises unless there is one weight per class, or none at all."""
    if weight is None:
        return
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise TypeError(f"{who}: weight must be a floating-point Tensor, got {kind}; use torch.tensor([1.0, ...])")
    if tuple(weight.shape) != (rows.shape[-1],):
        raise ValueError(
            f"{who}: weight must have one entry per class, ({rows.shape[-1]},), got {tuple(weight.shape)}; give a 1 to "
            "classes that are as usual"
        )


def smoothed_one_hot(rows: Tensor, index: Tensor, smoothing: float) -> Tensor:
    """Puts 1 − ε on the class and spreads ε over all classes whose score is not −inf."""
    shared = _shared(rows, smoothing)
    one = torch.full_like(index, 1, dtype=rows.dtype).unsqueeze(-1) * (1 - smoothing)
    return shared.scatter_add(-1, index.unsqueeze(-1), one)


def smoothed(rows: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """Mixes 1 − ε of each distribution with ε spread over all classes whose score is not −inf."""
    return (1 - smoothing) * target + _shared(rows, smoothing)


def _shared(rows: Tensor, smoothing: float) -> Tensor:
    there = (rows.detach() > -torch.inf).to(rows.dtype)
    return there * (smoothing / there.sum(-1, keepdim=True).clamp(min=1))


def check_label_smoothing(who: str, label_smoothing: Any) -> None:
    """Raises unless the label smoothing is a share of the target."""
    if isinstance(label_smoothing, bool) or not 0 <= label_smoothing <= 1:
        raise ValueError(f"{who}: label_smoothing must lie in [0, 1], got {label_smoothing}; 0 switches it off")


def check_no_classes(who: str, dim: int, weight: Any, ignore_index: int, label_smoothing: float) -> None:
    """Raises if an option for classes was given with a structure, which has no classes."""
    given = {"dim": (dim, -1), "ignore_index": (ignore_index, -100), "label_smoothing": (label_smoothing, 0)}
    named = [name for name, (value, default) in given.items() if value != default]
    named += [] if weight is None else ["weight"]
    if named:
        raise ValueError(f"{who}: {named[0]} is for classes, got it with a structure, which has none; leave it out")
