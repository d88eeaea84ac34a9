"""The loss at a distribution over classes.

    L(θ; y) = max_Ω(θ) + Ω(y) − <θ, y>          ∇L = argmax_Ω(θ) − y

Classes of score −inf are out of the row, for Ω too; a target that puts weight on one has an infinite loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import checks
from omegamax.losses.at_index import centred, non_negative
from omegamax.smoothmax import SmoothMax


def losses_at_distribution(smooth: SmoothMax, scores: Tensor, target: Tensor) -> Tensor:
    """Losses (...) of scores (..., C) in float32 or float64 at distributions (..., C); differentiable in both."""
    scores = centred(scores)
    value = smooth.weigh(scores).value
    removed = scores == -torch.inf
    used = target != 0
    score = torch.where(used, target * torch.where(used, scores, 0), 0).sum(-1)
    whole = smooth.zero_at_corners or (checks.is_readable(removed) and not bool(removed.any()))
    omega = smooth.omega(target) if whole else smooth.omega_without(target, removed)
    losses = non_negative(value + omega - score)
    return torch.where(value == -torch.inf, torch.inf, losses)


def smoothed_one_hot(scores: Tensor, index: Tensor, smoothing: float) -> Tensor:
    """1 − ε at the class and ε shared by all classes that are not −inf: a class that is out gets nothing."""
    there = (scores.detach() > -torch.inf).to(scores.dtype)
    shared = there * (smoothing / there.sum(-1, keepdim=True).clamp(min=1))
    one = torch.full_like(index, 1, dtype=scores.dtype).unsqueeze(-1) * (1 - smoothing)
    return shared.scatter_add(-1, index.unsqueeze(-1), one)
