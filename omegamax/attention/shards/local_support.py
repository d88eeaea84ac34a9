"""Finds the keys of this rank that can have weight for the queries of all ranks.

A row of scores s has the weights p_j = [(α − 1) s_j − τ]₊^{1/(α−1)}, with τ such that they sum to one (sparsemax:
α = 2). Without the keys of other ranks there is less to sum, so τ is smaller: whatever has weight in the whole row has
weight in the part of it that a rank sees. The same holds for the k best. So the support of the own part holds all that
this rank can contribute. The native kernel of sparse attention finds it; where there is none, dense scores of a few
rows at a time do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.attention.shards.entries import Entries, Sizes, flat_rows, sampled_products
from omegamax.attention.top_k import TopK
from omegamax.kernels import sparse_attention as kernel
from omegamax.operators.operator import Operator
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis

SHARDED_OPERATORS = (SquaredNorm, Tsallis, TopK)
_ELEMENTS = 1 << 18  # of a dense block of scores


@dataclass(frozen=True, eq=False)
class LocalScores:
    """The scores of all queries and the own keys: products, and what is added and left out."""

    query: Tensor  # (batch, heads, queries of all ranks, size), contiguous
    key: Tensor  # (batch, kv heads, own keys, size), contiguous
    operator: Operator | TopK
    parameter: Tensor | None  # α of each row, (batch, heads, queries, 1)
    scale: float
    limit: int | None  # how many of the own keys the first query sees, perhaps below 0, where attention is causal
    lengths: Tensor | None  # (batch · heads,): how many of the own keys each item has
    mask: Tensor | None  # (batch or 1, heads or 1, queries or 1, own keys or 1)
    bias: Tensor | None  # the same, or (batch or 1, heads or 1, queries + own keys − 1): a table by distance

    @property
    def sizes(self) -> Sizes:
        """The sizes of the scores."""
        batch, heads, queries, _ = self.query.shape
        return Sizes(batch, heads, self.key.shape[1], queries, self.key.shape[2])

    def candidates(self) -> Entries:
        """Returns the scores of all keys that can have weight. A row with NaN weights has one entry, which is NaN."""
        found = [self._native(block) if self._in_native_memory() else self._dense(block) for block in self._blocks()]
        if not found:
            return Entries(*(torch.zeros(0, dtype=torch.long, device=self.key.device),) * 2, self.key.new_zeros(0))
        joined = Entries(*map(torch.cat, zip(*found)))
        if len(found) == 1:
            return joined
        order = joined.rows.argsort(stable=True)
        return Entries(*(tensor[order] for tensor in joined))

    def _in_native_memory(self) -> bool:
        tensors = [t for t in (self.query, self.key, self.parameter, self.mask, self.bias) if t is not None]
        return kernel.can_run(tensors) and 0 < self.key.shape[-1] <= kernel.MAX_SIZE

    def _blocks(self) -> Iterator[_Block]:
        """Yields the queries that see some of the own keys, then those that see all of them."""
        sizes = self.sizes
        if 0 in (sizes.n_rows, sizes.keys):
            return
        first = seeing_all = 0
        if self.limit is not None:
            first = min(max(0, 1 - self.limit), sizes.queries)
            seeing_all = min(max(first, sizes.keys - self.limit), sizes.queries)
            if first < seeing_all:
                yield _Block(slice(first, seeing_all), self.limit + seeing_all - 1, True)
        if seeing_all < sizes.queries:
            yield _Block(slice(seeing_all, sizes.queries), sizes.keys, False)

    def _native(self, block: _Block) -> Entries:
        sizes, (queries, n_keys, causal) = self.sizes, block
        query, key = self.query[:, :, queries].contiguous(), self.key[:, :, :n_keys].contiguous()
        value = key.new_zeros(*key.shape[:-1], 1)  # averages are taken later, with the weights of the whole row
        rows = kernel.Rows(
            self.scale,
            causal,
            None if self.lengths is None else self.lengths.clamp(max=n_keys),
            None if self.mask is None else kernel.Strides.of(self.mask.expand(self._shape())[:, :, queries, :n_keys]),
            self._bias_strides(block),
        )
        operator = self._row_operator(queries)
        _, support, _ = kernel.forward(query, key, value, operator, rows, wants_support=True, may_refuse=False)
        assert support is not None
        places = support.indices.long()
        within = torch.repeat_interleave(torch.arange(len(support.offsets) - 1), support.offsets.diff())
        n = query.shape[2]
        found = within // n * sizes.queries + queries.start + within % n
        scores = sampled_products(
            flat_rows(query * self.scale), flat_rows(self.key), within, sizes.key_rows(found, places)
        )
        if self.bias is not None:
            scores += self.bias.reshape(-1)[sizes.bias_places(self.bias, found, places)]
        scores.masked_fill_(support.weights.isnan(), torch.nan)
        return Entries(found, sizes.key_rows(found, places), scores)

    def _shape(self) -> tuple[int, int, int, int]:
        sizes = self.sizes
        return sizes.batch, sizes.heads, sizes.queries, sizes.keys

    def _row_operator(self, queries: slice) -> kernel.RowOperator:
        if isinstance(self.operator, TopK):
            return kernel.RowOperator(kernel.TOP, float(self.operator.k))
        if self.parameter is not None:
            return kernel.RowOperator(kernel.ENTMAX, self.parameter[:, :, queries].double().contiguous())
        return kernel.RowOperator(kernel.ENTMAX, float(getattr(self.operator, "alpha", 2.0)))

    def _bias_strides(self, block: _Block) -> kernel.Strides | None:
        if self.bias is None:
            return None
        if self.bias.dim() == 4:
            return kernel.Strides.of(self.bias.expand(self._shape())[:, :, block.queries, : block.n_keys])
        batch, head, _ = self.bias.expand(*self._shape()[:2], self.bias.shape[-1]).stride()
        return kernel.Strides(self.bias, self.sizes.queries - 1 - block.queries.start, (batch, head, -1, 1))

    def _dense(self, block: _Block) -> Entries:
        """Finds the entries of a block from dense scores of a few rows at a time."""
        sizes, found = self.sizes, []
        step = max(1, _ELEMENTS // block.n_keys)
        for head in range(sizes.batch * sizes.heads):
            for first in range(block.queries.start, block.queries.stop, step):
                queries = torch.arange(first, min(first + step, block.queries.stop), device=self.key.device)
                rows = head * sizes.queries + queries
                scores = self._dense_scores(rows, block.n_keys)
                operator = self.operator
                if self.parameter is not None and isinstance(operator, Operator):
                    operator = operator.with_parameters((self.parameter.reshape(-1, 1)[rows],))
                (weights,) = operator.solve_certificate(scores)
                bad = weights.isnan().any(-1)
                only = (scores != -torch.inf).long().argmax(-1)  # the one entry of a row without a number
                keep = (weights != 0) & ~bad.unsqueeze(-1)
                keep[bad, only[bad]] = True
                scores[bad] = torch.nan
                row, place = keep.nonzero(as_tuple=True)
                found.append(Entries(rows[row], sizes.key_rows(rows[row], place), scores[row, place]))
        return Entries(*map(torch.cat, zip(*found)))

    def _dense_scores(self, rows: Tensor, n_keys: int) -> Tensor:
        """Computes scores (rows, keys) of rows of one head, −inf where a query may not attend."""
        sizes = self.sizes
        places = torch.arange(n_keys, device=rows.device)
        pairs = rows.unsqueeze(-1).expand(-1, n_keys), places.expand(len(rows), -1)
        keys = flat_rows(self.key)[sizes.key_rows(rows[:1], places)]
        scores = (flat_rows(self.query)[rows] * self.scale) @ keys.T
        if self.bias is not None:
            scores += self.bias.reshape(-1)[sizes.bias_places(self.bias, *pairs)]
        out = torch.zeros_like(scores, dtype=torch.bool)
        if self.limit is not None:
            out |= places >= (rows % sizes.queries + self.limit).unsqueeze(-1)
        if self.lengths is not None:
            out |= places >= self.lengths[rows // sizes.queries].unsqueeze(-1)
        if self.mask is not None:
            out |= ~self.mask.reshape(-1)[sizes.bias_places(self.mask, *pairs)]
        return scores.masked_fill_(out, -torch.inf)


class _Block(NamedTuple):
    """Some queries, and how many of the own keys they see; `causal` where each of them sees one more."""

    queries: slice
    n_keys: int
    causal: bool
