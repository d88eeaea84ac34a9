"""One layer of a Transformer: self-attention, perhaps attention to a memory, a feed-forward network; any normalizers.

    x ← x + MultiHead(x, x, x),      x ← x + MultiHead(x, memory, memory),      x ← x + W₂ relu(W₁ x + b₁) + b₂

each with a layer norm. Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.multihead import Masks, MultiheadAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.placements import NormPlacement


class LayerCache(NamedTuple):
    """What one layer keeps, projected once; the batch has one axis."""

    key: Tensor | None  # (batch, positions so far, features of all heads); None before the first
    value: Tensor | None
    memory_key: Tensor | None  # (batch, M, features of all heads); None without a memory
    memory_value: Tensor | None


class LayerRun(NamedTuple):
    """What a layer returns."""

    output: Tensor  # (batch, N, size)
    self_weights: Tensor  # (batch, heads, N, positions so far)
    cross_weights: Tensor | None  # (batch, heads, N, M); None without a memory
    cache: LayerCache  # with these positions too


class TransformerLayer(nn.Module):
    """A layer that reads a memory if it is given a normalizer for that.

    Parameters have the names of `torch.nn.TransformerEncoderLayer`, with a memory those of
    `torch.nn.TransformerDecoderLayer`.
    """

    def __init__(
        self,
        size: int,
        *,
        n_heads: int,
        hidden_size: int,
        key_size: int | None,
        dropout: float,
        activation: Callable[[Tensor], Tensor],
        placement: NormPlacement,
        normalizer: Normalizer,
        cross_normalizer: Normalizer | None,
    ) -> None:
        super().__init__()

        def heads(normalizer: Normalizer) -> MultiheadAttention:
            own = copy.deepcopy(normalizer) if isinstance(normalizer, nn.Module) else normalizer
            return MultiheadAttention(size, n_heads, dropout, batch_first=True, normalizer=own, key_size=key_size)

        self.self_attn = heads(normalizer)
        self.multihead_attn = None if cross_normalizer is None else heads(cross_normalizer)
        self.linear1 = nn.Linear(size, hidden_size)
        self.linear2 = nn.Linear(hidden_size, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.norm3 = None if cross_normalizer is None else nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.placement = placement

    def start(self, memory: Tensor | None) -> LayerCache:
        """Keys and values of the memory, if any, and none of the past."""
        if memory is None or self.multihead_attn is None:
            return LayerCache(None, None, None, None)
        _, of_key, of_value = self.multihead_attn._projections()
        return LayerCache(None, None, nn.functional.linear(memory, *of_key), nn.functional.linear(memory, *of_value))

    def forward(self, x: Tensor, cache: LayerCache, blocked: Tensor | None, memory_blocked: Tensor | None) -> LayerRun:
        """New vectors for x (batch, N, size); True in blocked (batch or 1, 1, N or 1, keys) means "may not attend"."""
        x, self_weights, cache = self._read_itself(x, cache, blocked)
        x, cross_weights = self._read_memory(x, cache, memory_blocked)
        norm = self.norm2 if self.norm3 is None else self.norm3
        hidden = self.dropout(self.activation(self.linear1(self.placement.before(norm, x))))
        x = self.placement.after(norm, x + self.dropout(self.linear2(hidden)))
        return LayerRun(x, self_weights, cross_weights, cache)

    def _read_itself(self, x: Tensor, cache: LayerCache, blocked: Tensor | None) -> tuple[Tensor, Tensor, LayerCache]:
        seen = self.placement.before(self.norm1, x)
        query, key, value = self.self_attn._project(seen, seen, seen)
        if cache.key is not None and cache.value is not None:
            key = torch.cat([cache.key.to(key.dtype), key], 1)
            value = torch.cat([cache.value.to(value.dtype), value], 1)
        attended, weights = self.self_attn._attend(query, key, value, _masks(blocked))
        x = self.placement.after(self.norm1, x + self.dropout(attended))
        return x, weights, cache._replace(key=key, value=value)

    def _read_memory(self, x: Tensor, cache: LayerCache, blocked: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.multihead_attn is None or cache.memory_key is None or cache.memory_value is None:
            return x, None
        query = nn.functional.linear(self.placement.before(self.norm2, x), *self.multihead_attn._projections()[0])
        attended, weights = self.multihead_attn._attend(query, cache.memory_key, cache.memory_value, _masks(blocked))
        return self.placement.after(self.norm2, x + self.dropout(attended)), weights


def _masks(blocked: Tensor | None) -> Masks:
    return Masks(None, None if blocked is None else ~blocked)
