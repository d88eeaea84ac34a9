"""Which pairs are in some perfect matching: the others get no weight in any average of matchings.

Given one perfect matching M of a square of allowed pairs, row a may follow row b into its column if (a, M(b)) is
allowed; the pair is in a perfect matching if and only if b can, directly or in steps, follow a: the cycle exchanges
their columns (Dulmage & Mendelsohn, 1958).
"""

from __future__ import annotations

import torch
from torch import Tensor


def total_support(allowed: Tensor, columns: Tensor) -> Tensor:
    """The allowed pairs (batch, n, n) that lie in a perfect matching; `columns` (batch, n) is one of them."""
    n = columns.shape[1]
    follows = allowed.gather(2, columns.unsqueeze(1).expand(-1, n, -1)).float()  # [a, b]: a into the column of b
    reached = 1
    while reached < n:  # ways of up to twice as many steps each time
        follows = (follows @ follows > 0).float()
        reached *= 2
    both_ways = follows.transpose(1, 2) > 0  # [a, b]: b can follow a
    owner = torch.empty_like(columns).scatter_(1, columns, torch.arange(n, device=columns.device).expand_as(columns))
    return allowed & both_ways.gather(2, owner.unsqueeze(1).expand(-1, n, -1))
