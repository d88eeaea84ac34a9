"""Biases of attention that depend on how far a key is from a query: as many numbers as there are distances."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import checks


@dataclass(frozen=True, eq=False)
class RelativeBias:
    """A table of biases by distance: the score of query i and key j gets table[..., h, j − i + Q − 1].

    Arguments:
        table: (..., heads or 1, Q + K − 1) for Q queries and K keys, from the first key seen by the last query to the
            last key seen by the first one

    >>> RelativeBias(torch.tensor([[-1.0, 0.0, 1.0]])).dense(2, 2)
    tensor([[[ 0.,  1.],
             [-1.,  0.]]])
    """

    table: Tensor

    def __post_init__(self) -> None:
        checks.check_floating("RelativeBias", self.table, name="table")
        if self.table.dim() < 2:
            raise ValueError(
                f"RelativeBias: table must have the shape (..., heads, Q + K - 1), got {tuple(self.table.shape)}; use "
                "unsqueeze(0) for one table that all heads share"
            )

    def dense(self, n_queries: int, n_keys: int) -> Tensor:
        """Returns the bias of every pair, (..., heads, Q, K), for `n_queries` Q and `n_keys` K."""
        key = torch.arange(n_keys, device=self.table.device)
        query = torch.arange(n_queries, device=self.table.device).unsqueeze(-1)
        return self.table[..., key - query + n_queries - 1]


def alibi(slopes: Tensor, n_queries: int, n_keys: int) -> RelativeBias:
    """Returns the bias of ALiBi: −slope times the distance from query to key, where the last query is at the last key.

    Arguments:
        slopes: (..., heads), one per head; they may learn
        n_queries: Q
        n_keys: K

    Press, Smith & Lewis, "Train short, test long", ICLR 2022.

    >>> alibi(torch.tensor([0.5]), 2, 2).dense(2, 2)
    tensor([[[-0.0000, -0.5000],
             [-0.5000, -0.0000]]])
    """
    checks.check_floating("alibi", slopes, name="slopes")
    steps = torch.arange(1 - n_queries, n_keys, dtype=slopes.dtype, device=slopes.device)  # j − i
    return RelativeBias(-slopes.unsqueeze(-1) * (steps - (n_keys - n_queries)).abs())
