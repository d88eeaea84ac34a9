"""Finds weights that are exactly equal: runs of neighbours (fusedmax) and clusters anywhere in a row (oscarmax)."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.plots.arrays import to_cpu_tensor


def segments(weights: Tensor) -> list[tuple[int, int]]:
    """Returns the first and last position of each run of neighbours with exactly the same positive weight.

    >>> segments(torch.tensor([0.0, 0.4, 0.4, 0.2]))
    [(1, 2), (3, 3)]
    """
    runs: list[tuple[int, int]] = []
    row = weights.tolist()
    for position, weight in enumerate(row):
        if weight == 0:
            continue
        if runs and runs[-1][1] == position - 1 and row[position - 1] == weight:
            runs[-1] = (runs[-1][0], position)
        else:
            runs.append((position, position))
    return runs


def clusters_of(weights: Tensor) -> Tensor:
    """Numbers each weight's cluster within its row: 1 for the heaviest, 0 for weights that are zero or equal no other.

    A cluster is two or more positive weights that are exactly equal, next to each other or not.

    >>> clusters_of(torch.tensor([[0.3, 0.15, 0.3, 0.0, 0.15, 0.1]]))
    tensor([[1, 2, 1, 0, 2, 0]])
    """
    weights = to_cpu_tensor(weights)
    rows = weights.reshape(-1, weights.shape[-1]) if weights.dim() else weights.reshape(1, 1)
    numbers = torch.zeros_like(rows, dtype=torch.long)
    for row, number in zip(rows, numbers):
        levels, which, count = row.unique(return_inverse=True, return_counts=True)  # levels ascend
        shared = (levels > 0) & (count > 1)
        rank = shared.flip(0).cumsum(0).flip(0)  # the largest shared level is the first
        number.copy_(torch.where(shared, rank, 0)[which])
    return numbers.reshape(weights.shape)
