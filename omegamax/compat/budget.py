"""The projection onto the capped simplex with a budget that may be any number: `entmax.budget_bisect`, exact."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class _Faces(NamedTuple):
    """Which entries are one and which lie between zero and one; the others are zero. Each is (..., n)."""

    full: Tensor
    between: Tensor


def project_budget(rows: Tensor, budget: Tensor) -> Tensor:
    """Projects rows (..., n) onto {0 <= p <= 1, sum p = budget}; budget is (..., 1).

        argmax_{0 <= p <= 1, sum p = budget}  <p, rows> - 1/2 ||p||^2

    The solution is min(max(rows − τ, 0), 1). The faces are found without derivatives; then τ is a formula of the
    entries between zero and one, so derivatives of all orders are exact, that of the budget too. −inf gives weight
    zero. A budget above the number of entries gives ones, and one below zero gives zeros. A row with NaN or +inf, or
    with a NaN budget, gives NaN.
    """
    wrong = (rows.isnan() | (rows == torch.inf)).any(-1, keepdim=True) | budget.isnan()
    allowed = rows > -torch.inf
    safe = torch.where(allowed & ~wrong, rows, 0)
    with torch.no_grad():
        faces = _faces(safe, allowed, budget)
    n_between = faces.between.sum(-1, keepdim=True)
    left = budget - faces.full.sum(-1, keepdim=True)
    total = torch.where(faces.between, safe, 0).sum(-1, keepdim=True)
    threshold = (total - left) / n_between.clamp(min=1)
    inside = (safe - threshold).clamp(0, 1)
    weights = torch.where(faces.between, inside, faces.full.to(rows.dtype))
    return torch.where(wrong, torch.nan, weights)


def _faces(rows: Tensor, allowed: Tensor, budget: Tensor) -> _Faces:
    """Finds between which two of the 2n numbers rows and rows − 1 the threshold lies."""
    n = rows.shape[-1]
    count = allowed.sum(-1, keepdim=True)
    if n == 0:
        return _Faces(allowed, allowed)
    lowest = torch.where(allowed, rows, torch.inf).amin(-1, keepdim=True)
    values = torch.where(allowed, rows, torch.where(count > 0, lowest, 0))  # those out copy the lowest
    order = torch.where(allowed, rows, -torch.inf).contiguous().sort(dim=-1).values  # those out come first
    sums = torch.nn.functional.pad(torch.where(order > -torch.inf, order, 0).cumsum(-1), (1, 0))
    corners = torch.cat([values, values - 1], -1).contiguous().sort(dim=-1).values
    above = torch.searchsorted(order, corners, right=True)  # entries from here on exceed the corner
    capped = torch.searchsorted(order, corners + 1)  # from here on they exceed it by one or more
    counted = (n - capped) + sums.gather(-1, capped) - sums.gather(-1, above) - (capped - above) * corners
    last = (counted >= budget).sum(-1, keepdim=True) - 1  # `counted` does not increase
    left = corners.gather(-1, last.clamp(min=0))
    larger = torch.where(corners > left, corners, torch.inf).amin(-1, keepdim=True)
    right = torch.where(larger < torch.inf, larger, left)
    everything, nothing = budget >= count, budget <= 0
    full = torch.where(everything, allowed, allowed & (values - 1 >= right) & ~nothing)
    between = allowed & (values >= right) & (values - 1 <= left) & ~full & ~everything & ~nothing
    return _Faces(full, between)
