"""Entries of a sparse matrix of weights, and the products with dense rows that attention needs of them.

Rows are counted over (batch, heads, queries of all ranks), keys over (batch, kv heads, own keys). Entries are in order
of their rows, and within a row in order of their keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_ELEMENTS = 1 << 20  # of the rows that are gathered at once


class Entries(NamedTuple):
    """Some pairs of a query and a key, with a number for each."""

    rows: Tensor  # (entries,) int64
    keys: Tensor  # (entries,) int64
    numbers: Tensor  # (entries,) scores, weights or gradients

    def kept(self, keep: Tensor) -> Entries:
        """Returns the entries that a boolean tensor marks."""
        return Entries(*(tensor[keep] for tensor in self))


@dataclass(frozen=True)
class Sizes:
    """The sizes of a problem: queries of all ranks, keys of this one."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int

    @property
    def n_rows(self) -> int:
        return self.batch * self.heads * self.queries

    def key_rows(self, rows: Tensor, places: Tensor) -> Tensor:
        """Counts the key at a place among the own keys, as a row sees it, over (batch, kv heads, own keys)."""
        head = rows // self.queries
        kv_head = head // self.heads * self.kv_heads + head % self.heads // (self.heads // self.kv_heads)
        return kv_head * self.keys + places

    def bias_places(self, bias: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Computes where the bias (or mask) of some pairs lies in its tensor, which may be a table by distance."""
        query, head = rows % max(1, self.queries), rows // max(1, self.queries)
        indices = [head // self.heads, head % self.heads]
        indices += [query, places] if bias.dim() == 4 else [places - query + self.queries - 1]
        found = torch.zeros_like(rows)
        for index, size in zip(indices, bias.shape):
            found = found * size + (index if size > 1 else 0)
        return found


def flat_rows(x: Tensor) -> Tensor:
    """Reshapes (batch, heads, length, features) to rows of features."""
    return x.flatten(0, 2)


def sampled_products(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Computes the inner products of some pairs of rows, (entries,), in pieces that take little memory."""
    found = left.new_empty(len(rows))
    step = max(1, _ELEMENTS // max(1, left.shape[-1]))
    for first in range(0, len(rows), step):
        piece = slice(first, first + step)
        found[piece] = (left[rows[piece]] * right[columns[piece]]).sum(-1)
    return found


def weighted_sums(numbers: Tensor, table: Tensor, columns: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    """Sums numbers[e] · table[columns[e]] over the entries e of each row, rows[e] = i; entries are in order of rows."""
    if len(numbers) == 0 or table.shape[-1] == 0:
        return table.new_zeros(n_rows, table.shape[-1])
    offsets = functional.pad(torch.bincount(rows, minlength=n_rows).cumsum(0), (1, 0))
    return functional.embedding_bag(
        columns, table, offsets, mode="sum", per_sample_weights=numbers, include_last_offset=True
    )
