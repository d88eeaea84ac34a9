"""The Transformer's decoder: causal self-attention, attention to a memory, a feed-forward network; any normalizers.

    x ← x + MultiHead(x, past x, past x),      x ← x + MultiHead(x, memory, memory),      x ← x + FFN(x)

One position at a time, the keys and values of all that was before are kept: a step costs one row of attention, not a
whole matrix. Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from omegamax.attention.masks import causal_mask
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.placements import NormPlacement, PostNorm
from omegamax.attention.positions import Positions
from omegamax.attention.stacks import blocked_by, embedded, flat, heads, refuse_matrix_normalizers
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_POST_NORM = PostNorm()


class LayerCache(NamedTuple):
    """What one layer keeps, projected once; the batch has one axis."""

    key: Tensor  # (batch, positions so far, features of all heads)
    value: Tensor
    memory_key: Tensor  # (batch, M, features of all heads)
    memory_value: Tensor


class DecoderCache(NamedTuple):
    """What a decoder keeps between steps. It is never changed: a step returns another."""

    layers: tuple[LayerCache, ...]
    n_positions: int  # so far
    memory_blocked: Tensor | None  # (batch or 1, 1, 1, M), True = may not attend

    def select(self, index: Tensor) -> DecoderCache:
        """The cache of some items of the batch, in any order and number: what a beam search does between steps."""
        layers = tuple(LayerCache(*(kept.index_select(0, index) for kept in layer)) for layer in self.layers)
        blocked = self.memory_blocked
        if blocked is not None and blocked.shape[0] > 1:
            blocked = blocked.index_select(0, index)
        return DecoderCache(layers, self.n_positions, blocked)


class Decoded(NamedTuple):
    """What a decoder returns. Weights are per layer; None where they were not wanted."""

    output: Tensor  # (..., N, size)
    self_weights: tuple[Tensor, ...] | None  # (..., heads, N, N)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, N, M)


class Stepped(NamedTuple):
    """What a decoder's step returns. Weights are per layer; None where they were not wanted."""

    output: Tensor  # (..., N, size)
    cache: DecoderCache  # to go on from here
    self_weights: tuple[Tensor, ...] | None  # (..., heads, N, positions so far)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, N, M)


class DecoderLayer(nn.Module):
    """Two attentions and a feed-forward network; parameters have the names of `torch.nn.TransformerDecoderLayer`."""

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
        cross_normalizer: Normalizer,
    ) -> None:
        super().__init__()
        self.self_attn = heads(size, n_heads, dropout, key_size, normalizer)
        self.multihead_attn = heads(size, n_heads, dropout, key_size, cross_normalizer)
        self.linear1 = nn.Linear(size, hidden_size)
        self.linear2 = nn.Linear(hidden_size, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.norm3 = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.placement = placement

    def start(self, memory: Tensor) -> LayerCache:
        """Keys and values of the memory, and none of the past."""
        _, of_key, of_value = self.multihead_attn._projections()
        key, value = nn.functional.linear(memory, *of_key), nn.functional.linear(memory, *of_value)
        return LayerCache(key[:, :0], value[:, :0], key, value)

    def forward(
        self, x: Tensor, cache: LayerCache, blocked: Tensor | None, memory_blocked: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, LayerCache]:
        """New vectors (batch, N, size), both weights and the longer cache."""
        seen = self.placement.before(self.norm1, x)
        query, key, value = self.self_attn._project(seen, seen, seen)
        key, value = torch.cat([cache.key.to(key.dtype), key], 1), torch.cat([cache.value.to(value.dtype), value], 1)
        cache = cache._replace(key=key, value=value)
        attended, self_weights = self.self_attn._attend(query, key, value, None, blocked)
        x = self.placement.after(self.norm1, x + self.dropout(attended))

        query = nn.functional.linear(self.placement.before(self.norm2, x), *self.multihead_attn._projections()[0])
        attended, cross_weights = self.multihead_attn._attend(
            query, cache.memory_key, cache.memory_value, None, memory_blocked
        )
        x = self.placement.after(self.norm2, x + self.dropout(attended))

        hidden = self.dropout(self.activation(self.linear1(self.placement.before(self.norm3, x))))
        x = self.placement.after(self.norm3, x + self.dropout(self.linear2(hidden)))
        return x, self_weights, cross_weights, cache


class TransformerDecoder(nn.Module):
    """A stack of layers that read their own past and a memory.

    Vectors (..., N, size) and a memory (..., M, size) with the same batch axes. `normalizer` is for self-attention and,
    unless `cross_normalizer` is given, for attention to the memory; one with parameters is copied, every layer learns
    its own. With Shannon it computes what `torch.nn.TransformerDecoder` computes, and loads its state_dict; its final
    norm is `placement.final`.

    >>> decoder = TransformerDecoder(8, n_heads=2, n_layers=1, hidden_size=16, cross_normalizer=SquaredNorm()).eval()
    >>> memory, x = torch.randn(4, 5, 8), torch.randn(4, 3, 8)
    >>> whole = decoder(x, memory).output
    >>> cache = decoder.start(memory)
    >>> for i in range(3):
    ...     output, cache, *_ = decoder.step(x[:, i : i + 1], cache)
    >>> torch.allclose(output, whole[:, 2:], atol=1e-6)
    True
    """

    def __init__(
        self,
        size: int = 512,
        *,
        n_heads: int = 8,
        n_layers: int = 6,
        hidden_size: int = 2048,
        key_size: int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = nn.functional.relu,
        placement: NormPlacement = _POST_NORM,
        positions: Positions | None = None,
        normalizer: Normalizer = _SHANNON,
        cross_normalizer: Normalizer | None = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "n_heads": n_heads,
            "hidden_size": hidden_size,
            "key_size": key_size,
            "dropout": dropout,
            "activation": activation,
            "placement": placement,
            "normalizer": normalizer,
            "cross_normalizer": normalizer if cross_normalizer is None else cross_normalizer,
        }
        self.layers = nn.ModuleList([DecoderLayer(size, **options) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(size) if placement.final else None
        self.positions = copy.deepcopy(positions)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = True,
        memory_mask: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        need_weights: bool = False,
    ) -> Decoded:
        """Decodes all of x at once.

        `mask` (..., N, N) and `memory_mask` (..., N, M) are boolean and broadcast: True means "may attend"; `lengths`
        counts the vectors of an item and `memory_lengths` those of its memory.
        """
        if causal:
            refuse_matrix_normalizers(self)
        _check_batch(x, memory)
        n = x.shape[-2]
        blocked = blocked_by(x, n, n, mask=mask, lengths=lengths, causal=causal)
        cache = self._begun(memory, blocked_by(x, n, memory.shape[-2], mask=memory_mask, lengths=memory_lengths))
        stepped = self._advanced(x, cache, blocked, need_weights)
        return Decoded(stepped.output, stepped.self_weights, stepped.cross_weights)

    def start(
        self, memory: Tensor, *, memory_mask: Tensor | None = None, memory_lengths: Tensor | None = None
    ) -> DecoderCache:
        """The cache before the first step; `memory_mask` (..., 1, M) holds for every position."""
        refuse_matrix_normalizers(self)
        blocked = blocked_by(memory, 1, memory.shape[-2], mask=memory_mask, lengths=memory_lengths)
        return self._begun(memory, blocked)

    def step(self, x: Tensor, cache: DecoderCache, *, need_weights: bool = False) -> Stepped:
        """Goes on by the N positions of x, usually one; the cache it returns knows them too."""
        n, past = x.shape[-2], cache.n_positions
        blocked = None if n == 1 else ~causal_mask(n, past + n, device=x.device)[None, None]
        return self._advanced(x, cache, blocked, need_weights)

    def _begun(self, memory: Tensor, memory_blocked: Tensor | None) -> DecoderCache:
        memory = flat(memory)
        return DecoderCache(tuple(cast(DecoderLayer, layer).start(memory) for layer in self.layers), 0, memory_blocked)

    def _advanced(self, x: Tensor, cache: DecoderCache, blocked: Tensor | None, need_weights: bool) -> Stepped:
        batch, n = x.shape[:-2], x.shape[-2]
        x = embedded(flat(x), self.positions, self.dropout, cache.n_positions)
        layers, self_weights, cross_weights = [], [], []
        for layer, past in zip(self.layers, cache.layers):
            x, of_self, of_memory, grown = layer(x, past, blocked, cache.memory_blocked)
            layers.append(grown)
            if need_weights:
                self_weights.append(of_self.reshape(*batch, *of_self.shape[1:]))
                cross_weights.append(of_memory.reshape(*batch, *of_memory.shape[1:]))
        x = x if self.norm is None else self.norm(x)
        output = x.reshape(*batch, *x.shape[1:])
        cache = DecoderCache(tuple(layers), cache.n_positions + n, cache.memory_blocked)
        if not need_weights:
            return Stepped(output, cache, None, None)
        return Stepped(output, cache, tuple(self_weights), tuple(cross_weights))


def _check_batch(x: Tensor, memory: Tensor) -> None:
    if x.shape[:-2] != memory.shape[:-2] or x.shape[-1] != memory.shape[-1]:
        raise ValueError(
            f"TransformerDecoder: x (..., N, size) and memory (..., M, size) must agree but for N and M, got "
            f"{tuple(x.shape)} and {tuple(memory.shape)}; expand or project one of them"
        )
