"""Reduces one loss per item to one number."""

from __future__ import annotations

import torch
from torch import Tensor

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(who: str, reduction: str) -> None:
    """Raises unless the reduction is one of the three."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{who}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}; the default is 'mean'")


def reduced(losses: Tensor, reduction: str, weights: Tensor | None = None) -> Tensor:
    """Returns all losses, their sum, or their weighted mean Σ w L / Σ w; a mean over nothing is zero."""
    if weights is not None:
        losses = torch.where(weights == 0, 0, losses * weights)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if weights is None:
        return losses.sum() / max(losses.numel(), 1)
    total = weights.sum()
    return losses.sum() / torch.where(total == 0, 1, total)
