"""The proximal operator of the group lasso."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.kernel import kernel
from omegamax.kernels.per_row import as_tensor


@kernel
def prox_group(rows: Tensor, groups: Tensor, strength: float | Tensor) -> Tensor:
    """Shrinks each group of entries towards zero, all the way if its norm is at most `strength`.

        argmin_y  1/2 ||y - x||^2 + strength * sum_g ||y_g||_2        y_g = x_g (1 - strength / ||x_g||)_+

    `groups` (n,) holds the group, 0 .. n - 1, of each position. A row with a non-finite entry gives NaN.
    """
    strength = as_tensor(strength, rows)
    finite = rows.isfinite().all(-1, keepdim=True) & (strength >= 0)
    x = torch.where(finite, rows, 0)
    norm = group_norm(x, groups)
    shrink = 1 - strength / torch.where(norm > strength, norm, 1)
    return torch.where(finite, torch.where(norm > strength, x * shrink, 0), torch.nan)


@kernel
def prox_group_product(rows: Tensor, groups: Tensor, strength: float | Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction v by the Jacobian of `prox_group` at rows.

    (1 - strength/r) v_g + strength/r^3 x_g <x_g, v_g> with r = ||x_g||; zero for groups with r <= strength.
    """
    strength = as_tensor(strength, rows)
    norm = group_norm(rows, groups)
    kept = norm > strength
    norm = torch.where(kept, norm, 1)
    unit = torch.where(kept, rows / norm, 0)
    along = group_sum(unit * direction, groups)
    shrink = strength / norm
    return torch.where(kept, (1 - shrink) * direction + shrink * unit * along, 0) + 0 * rows


def group_sum(rows: Tensor, groups: Tensor) -> Tensor:
    """Replaces each entry by the sum over its group."""
    index = groups.expand_as(rows)
    return torch.zeros_like(rows).scatter_add(-1, index, rows).gather(-1, index)


def group_max(rows: Tensor, groups: Tensor) -> Tensor:
    """Replaces each entry by the maximum over its group."""
    index = groups.expand_as(rows)
    return rows.scatter_reduce(-1, index, rows, "amax", include_self=False).gather(-1, index)


def group_norm(rows: Tensor, groups: Tensor) -> Tensor:
    """Replaces each entry by the Euclidean norm over its group, without overflow; its gradient at 0 is 0."""
    scale = group_max(rows.detach().abs(), groups)
    scale = torch.where(scale > 0, scale, 1)
    total = group_sum((rows / scale).square(), groups)
    positive = total > 0
    return torch.where(positive, scale * torch.where(positive, total, 1).sqrt(), 0)
