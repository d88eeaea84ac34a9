"""One layer of a Transformer: self-attention, perhaps attention to a memory, a feed-forward network; any normalizers.

    x ← x + MultiHead(x, x, x),      x ← x + MultiHead(x, memory, memory),      x ← x + W₂ relu(W₁ x + b₁) + b₂

each with a layer norm, around the residual sum or inside it:

    PostNorm   x ← norm(x + f(x))        Vaswani et al., "Attention is all you need", NeurIPS 2017
    PreNorm    x ← x + f(norm(x))        Xiong et al., "On layer normalization in the Transformer architecture", 2020
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.multihead import Masks, MultiheadAttention
from omegamax.attention.normalizers import Normalizer


class NormPlacement(ABC):
    """Where a residual block x + f(x) applies its norm: before f, or after the sum."""

    final: bool  # whether a stack of layers ends in one more norm

    @abstractmethod
    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Returns what the block f sees of x."""

    @abstractmethod
    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Returns what follows the sum x + f(...)."""


@dataclass(frozen=True)
class PostNorm(NormPlacement):
    """Computes norm(x + f(x)), as in the paper; `final=True` adds a norm at the end, as `torch.nn.Transformer` does."""

    final: bool = False

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return x

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x)


@dataclass(frozen=True)
class PreNorm(NormPlacement):
    """Computes x + f(norm(x)): gradients pass through the sum unchanged, and the stack needs one norm at the end.

    Arguments:
        final: whether there is a norm after the last layer
    """

    final: bool = True

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x)

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        return x


class LayerCache(NamedTuple):
    """Keys and values of one layer, each projected once; the batch has one axis."""

    key: Tensor | None  # (batch, positions so far, features of all heads); None before the first
    value: Tensor | None
    memory_key: Tensor | None  # (batch, M, features of all heads); None without a memory
    memory_value: Tensor | None


class LayerOutput(NamedTuple):
    """Vectors of one layer, its weights, and the cache for the next positions."""

    output: Tensor  # (batch, N, size)
    self_weights: Tensor  # (batch, heads, N, positions so far)
    cross_weights: Tensor | None  # (batch, heads, N, M); None without a memory
    cache: LayerCache  # with these positions too


class TransformerLayer(nn.Module):
    """One layer; it attends to a memory if `cross_normalizer` is given.

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
        """Projects the memory, if there is one; there is no past yet."""
        if memory is None or self.multihead_attn is None:
            return LayerCache(None, None, None, None)
        _, of_key, of_value = self.multihead_attn._projections()
        return LayerCache(None, None, nn.functional.linear(memory, *of_key), nn.functional.linear(memory, *of_value))

    def forward(
        self, x: Tensor, cache: LayerCache, allowed: Tensor | None, memory_allowed: Tensor | None
    ) -> LayerOutput:
        """Computes new vectors for x (batch, N, size).

        `allowed` and `memory_allowed` are (batch or 1, 1, N or 1, keys); True means "may attend".
        """
        x, self_weights, cache = self._attend_to_itself(x, cache, allowed)
        x, cross_weights = self._attend_to_memory(x, cache, memory_allowed)
        norm = self.norm2 if self.norm3 is None else self.norm3
        hidden = self.dropout(self.activation(self.linear1(self.placement.before(norm, x))))
        x = self.placement.after(norm, x + self.dropout(self.linear2(hidden)))
        return LayerOutput(x, self_weights, cross_weights, cache)

    def _attend_to_itself(
        self, x: Tensor, cache: LayerCache, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor, LayerCache]:
        seen = self.placement.before(self.norm1, x)
        query, key, value = self.self_attn._project(seen, seen, seen)
        if cache.key is not None and cache.value is not None:
            key = torch.cat([cache.key.to(key.dtype), key], 1)
            value = torch.cat([cache.value.to(value.dtype), value], 1)
        attended, weights = self.self_attn._attend(query, key, value, Masks(None, allowed))
        x = self.placement.after(self.norm1, x + self.dropout(attended))
        return x, weights, cache._replace(key=key, value=value)

    def _attend_to_memory(self, x: Tensor, cache: LayerCache, allowed: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.multihead_attn is None or cache.memory_key is None or cache.memory_value is None:
            return x, None
        query = nn.functional.linear(self.placement.before(self.norm2, x), *self.multihead_attn._projections()[0])
        masks = Masks(None, allowed)
        attended, weights = self.multihead_attn._attend(query, cache.memory_key, cache.memory_value, masks)
        return self.placement.after(self.norm2, x + self.dropout(attended)), weights
