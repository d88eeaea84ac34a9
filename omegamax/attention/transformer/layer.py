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

from omegamax.attention.dropout import Dropout
from omegamax.attention.key_cache import KeyCache
from omegamax.attention.multihead import MultiheadAttention
from omegamax.attention.multihead_masks import Masks
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer.past import past_tensors, step_over_past


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
    past: KeyCache | None = None  # in place of key and value, where a long past is kept in 8 bits too

    @property
    def before(self) -> KeyCache | tuple[Tensor, Tensor] | None:
        """Keys and values of earlier positions, however they are kept; None before the first."""
        if self.past is not None:
            return self.past
        return None if self.key is None or self.value is None else (self.key, self.value)


class LayerOutput(NamedTuple):
    """Vectors of one layer, its weights, and the cache for the next positions."""

    output: Tensor  # (batch, N, size)
    self_weights: Tensor | None  # (batch, heads, N, positions so far); None if not needed
    cross_weights: Tensor | None  # (batch, heads, N, M); None if not needed or without a memory
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
        self.dropout = Dropout(dropout)
        self.activation = activation
        self.placement = placement

    def start(self, memory: Tensor | None) -> LayerCache:
        """Projects the memory, if there is one; there is no past yet."""
        if memory is None or self.multihead_attn is None:
            return LayerCache(None, None, None, None)
        _, of_key, of_value = self.multihead_attn._projections()
        return LayerCache(None, None, nn.functional.linear(memory, *of_key), nn.functional.linear(memory, *of_value))

    def forward(
        self, x: Tensor, cache: LayerCache, masks: Masks, memory_allowed: Tensor | None, *, need_weights: bool
    ) -> LayerOutput:
        """Computes new vectors for x (batch, N, size).

        The masks and `memory_allowed` are (batch or 1, 1, N or 1, keys); True means "may attend".
        """
        x, self_weights, cache = self._attend_to_itself(x, cache, masks, need_weights)
        x, cross_weights = self._attend_to_memory(x, cache, Masks(None, memory_allowed), need_weights)
        norm = self.norm2 if self.norm3 is None else self.norm3
        hidden = self.dropout(self.activation(self.linear1(self.placement.before(norm, x))))
        x = self.placement.after(norm, x + self.dropout(self.linear2(hidden)))
        return LayerOutput(x, self_weights, cross_weights, cache)

    def _attend_to_itself(
        self, x: Tensor, cache: LayerCache, masks: Masks, need_weights: bool
    ) -> tuple[Tensor, Tensor | None, LayerCache]:
        seen = self.placement.before(self.norm1, x)
        query, key, value = self.self_attn._project(seen, seen, seen)
        before = cache.before
        if before is not None and not need_weights:
            step = step_over_past(self.self_attn, query, key, value, before)
            if step is not None:
                x = self.placement.after(self.norm1, x + self.dropout(step.output))
                return x, None, cache._replace(key=None, value=None, past=step.past)
        if before is not None:
            old_key, old_value = past_tensors(before) if isinstance(before, KeyCache) else before
            key = torch.cat([old_key.to(key.dtype), key], 1)
            value = torch.cat([old_value.to(value.dtype), value], 1)
        attended, weights = self.self_attn._attend(query, key, value, masks, need_weights=need_weights)
        x = self.placement.after(self.norm1, x + self.dropout(attended))
        return x, weights, cache._replace(key=key, value=value, past=None)

    def _attend_to_memory(
        self, x: Tensor, cache: LayerCache, masks: Masks, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        heads, key, value = self.multihead_attn, cache.memory_key, cache.memory_value
        if heads is None or key is None or value is None:
            return x, None
        query = nn.functional.linear(self.placement.before(self.norm2, x), *heads._projections()[0])
        attended, weights = heads._attend(query, key, value, masks, need_weights=need_weights)
        return self.placement.after(self.norm2, x + self.dropout(attended)), weights
