"""Total variation denoising in a fixed number of steps, for rows on a device: to read a number is to wait for it."""

from __future__ import annotations

import torch
from torch import Tensor


def cuts(x: Tensor, strength: Tensor) -> Tensor:
    """Says where the denoised columns of x (n, rows) step, up +1 or down -1, between i and i + 1: (n - 1, rows).

    `strength` (n - 1, rows) holds the penalty of each step; where it is 0 a step is written as 0. This is the dynamic
    program over positions of N. Johnson, "A dynamic programming algorithm for the fused lasso and L0-segmentation",
    Journal of Computational and Graphical Statistics 2013. With f_i(y) the least cost of the entries up to i if the
    last of them is y, f_i' is increasing and piecewise linear, and

        f'_{i+1}(y) = clip(f'_i(y), -strength_i, strength_i) + y - x_{i+1}

    Each clip replaces the two ends of f'_i; the knots beyond them move onto them and are dropped by nobody, so every
    step has a known shape, with two knots more. Backwards, y_i is y_{i+1} clipped to these ends.
    """
    n = len(x)
    lows, highs = [], []
    place = x[0].unsqueeze(-1)  # of the knots of f', (rows, knots) in increasing order; its slope outside them is 1
    height = torch.zeros_like(place)  # f' at the knots
    for i in range(n - 1):
        bound = strength[i].unsqueeze(-1)
        ends = _crossings(place, height, torch.cat([-bound, bound], -1))
        low, high = ends[:, :1], ends[:, 1:]
        lows.append(low.squeeze(-1))
        highs.append(high.squeeze(-1))
        place = torch.cat([low, place.maximum(low).minimum(high), high], -1)
        height = torch.cat([-bound, height.maximum(-bound).minimum(bound), bound], -1) + (
            place - x[i + 1].unsqueeze(-1)
        )
    y = _crossings(place, height, torch.zeros_like(place[:, :1])).squeeze(-1)
    steps = []
    for low, high in zip(reversed(lows), reversed(highs)):
        steps.append((y > high).to(x.dtype) - (y < low).to(x.dtype))
        y = y.maximum(low).minimum(high)
    found = torch.stack(steps[::-1]) if steps else x[:0]
    return torch.where(strength > 0, found, 0)


def _crossings(place: Tensor, height: Tensor, levels: Tensor) -> Tensor:
    """Finds where piecewise linear functions, of slope 1 outside their knots (rows, k), reach levels (rows, m)."""
    last = place.shape[-1] - 1
    after = torch.searchsorted(height, levels)  # the first knot that is not below the level
    before = after - 1
    left, right = before.clamp(min=0), after.clamp(max=last)
    rise = height.gather(-1, right) - height.gather(-1, left)
    start = place.gather(-1, left)
    share = (levels - height.gather(-1, left)) / torch.where(rise > 0, rise, 1)
    between = start + share * (place.gather(-1, right) - start)
    return torch.where(
        before < 0,
        place[:, :1] + (levels - height[:, :1]),
        torch.where(after > last, place[:, -1:] + (levels - height[:, -1:]), between),
    )
