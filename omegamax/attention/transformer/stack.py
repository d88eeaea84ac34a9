"""The base of the Transformer's encoder and decoder: layers, positions before them, a norm after them, a cache.

The cache keeps the keys and values of all earlier positions, so that a step costs one row of attention and not a whole
matrix.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, cast

from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.dropout import Dropout
from omegamax.attention.key_cache import KeyCache
from omegamax.attention.masking import finite_where_unread, visibility, zero_unread
from omegamax.attention.multihead import MultiheadAttention
from omegamax.attention.multihead_masks import Masks
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer.embeddings import Positions
from omegamax.attention.transformer.layer import LayerCache, NormPlacement, PostNorm, TransformerLayer
from omegamax.attention.whole_sequence import check_whole_sequence
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_POST_NORM = PostNorm()


class StackOptions(TypedDict, total=False):
    """The options of every stack. The defaults are those of the paper's base model, without positions."""

    n_heads: int  # 8
    n_layers: int  # 6
    hidden_size: int  # 2048, of the feed-forward network
    key_size: int | None  # of a head's queries and keys; size / n_heads
    dropout: float  # 0.1
    activation: Callable[[Tensor], Tensor]  # relu
    placement: NormPlacement  # PostNorm()
    positions: Positions | None  # None adds none
    normalizer: Normalizer  # Shannon()


class DecoderCache(NamedTuple):
    """Keys and values that a stack keeps between steps. It is never changed: a step returns a new one."""

    layers: tuple[LayerCache, ...]
    n_positions: int  # so far
    batch: tuple[int, ...] | None  # the batch axes; None before the first step
    memory_allowed: Tensor | None  # (batch or 1, 1, 1, M), True = may attend; None where everything is

    def select(self, index: Tensor) -> DecoderCache:
        """Takes items of the batch, in any order and number, as a beam search does between steps."""

        def taken(kept: Any) -> Any:
            if isinstance(kept, KeyCache):
                kept = kept.clone()
                kept.reorder(index)
                return kept
            return None if kept is None else kept.index_select(0, index)

        layers = tuple(LayerCache(*map(taken, layer)) for layer in self.layers)
        allowed = self.memory_allowed
        if allowed is not None and allowed.shape[0] > 1:
            allowed = allowed.index_select(0, index)
        return self._replace(layers=layers, batch=tuple(index.shape), memory_allowed=allowed)


class StepOutput(NamedTuple):
    """Output of one step and the cache for the next. Weights are per layer; None if not needed or without a memory."""

    output: Tensor  # (..., N, size)
    cache: DecoderCache  # to go on from here
    self_weights: tuple[Tensor, ...] | None  # (..., heads, N, positions so far)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, N, M)


class TransformerStack(nn.Module, ABC):
    """Layers over vectors (..., N, size); they attend to a memory if `cross_normalizer` is given."""

    def __init__(
        self,
        size: int,
        cross_normalizer: Normalizer | None,
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
    ) -> None:
        super().__init__()
        who = type(self).__name__
        checks.check_count(who, "n_heads", n_heads)
        if size % n_heads:
            raise ValueError(f"{who}: size must be a multiple of n_heads, got {size} and {n_heads}; change one of them")
        self.layers = nn.ModuleList(
            TransformerLayer(
                size,
                n_heads=n_heads,
                hidden_size=hidden_size,
                key_size=key_size,
                dropout=dropout,
                activation=activation,
                placement=placement,
                normalizer=normalizer,
                cross_normalizer=cross_normalizer,
            )
            for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(size) if placement.final else None
        self.positions = copy.deepcopy(positions)
        self.dropout = Dropout(dropout)
        self.size = size

    def _begin(self, memory: Tensor | None = None, memory_allowed: Tensor | None = None) -> DecoderCache:
        """Makes the cache before the first position."""
        batch = None if memory is None else tuple(memory.shape[:-2])
        flat = None if memory is None else _flat(memory)
        if flat is not None and memory_allowed is not None:
            flat = zero_unread(flat, memory_allowed.squeeze(1), memory_allowed.shape[-2])
        layers = tuple(cast(TransformerLayer, layer).start(flat) for layer in self.layers)
        return DecoderCache(layers, 0, batch, memory_allowed)

    def _step(self, x: Tensor, cache: DecoderCache, need_weights: bool) -> StepOutput:
        """Appends the N positions of x, each of which sees itself and all before it."""
        self._check_vectors("x", x)
        if cache.batch is not None and cache.batch != tuple(x.shape[:-2]):
            raise ValueError(
                f"{type(self).__name__}: x must have the batch axes of the cache, {cache.batch}, got "
                f"{tuple(x.shape[:-2])}; cache.select(index) takes some items along"
            )
        n = x.shape[-2]
        return self._advance(x, cache, Masks(None, None, causal=n > 1), need_weights)

    def _advance(self, x: Tensor, cache: DecoderCache, masks: Masks, need_weights: bool) -> StepOutput:
        batch, n = tuple(x.shape[:-2]), x.shape[-2]
        x = _flat(x)
        if self.positions is not None:
            x = self.dropout(self.positions(x, start=cache.n_positions))
        layers, self_weights, cross_weights = [], [], []
        for layer, past in zip(self.layers, cache.layers):
            x, of_self, of_memory, grown = layer(x, past, masks, cache.memory_allowed, need_weights=need_weights)
            layers.append(grown)
            if of_self is not None:
                self_weights.append(of_self.reshape(*batch, *of_self.shape[1:]))
            if of_memory is not None:
                cross_weights.append(of_memory.reshape(*batch, *of_memory.shape[1:]))
        x = x if self.norm is None else self.norm(x)
        output = x.reshape(*batch, *x.shape[1:])
        cache = DecoderCache(tuple(layers), cache.n_positions + n, batch, cache.memory_allowed)
        if not need_weights:
            return StepOutput(output, cache, None, None)
        return StepOutput(output, cache, tuple(self_weights), tuple(cross_weights) if cross_weights else None)

    def _without_padding(self, x: Tensor, masks: Masks) -> Tensor:
        """Makes vectors (..., N, size) finite where no query may attend to them; they go through all the layers."""
        if masks.allowed is None:
            return x
        return finite_where_unread(_flat(x), masks.allowed.squeeze(1)).reshape(x.shape)

    def _masks(
        self,
        x: Tensor,
        n_queries: int,
        n_keys: int,
        *,
        mask: Tensor | None,
        lengths: Tensor | None,
        causal: bool = False,
    ) -> Masks:
        """Combines all masks, and gives them an axis for heads, (batch or 1, 1, Q or 1, K); True means "may attend"."""
        shape = (*x.shape[:-2], n_queries, n_keys)
        scores = x.new_zeros(()).expand(shape)
        allowed, causal = visibility(type(self).__name__, scores, mask=mask, lengths=lengths, causal=causal)
        if allowed is None:
            return Masks(None, None, causal)
        if allowed.dim() > 2:  # it depends on the item
            allowed = allowed.expand(*shape[:-2], *allowed.shape[-2:])
        return Masks(None, _flat(allowed).unsqueeze(1), causal)

    def _check_vectors(self, name: str, x: Tensor) -> None:
        check_whole_sequence(type(self).__name__, x)
        if x.dim() < 2 or x.shape[-1] != self.size:
            raise ValueError(
                f"{type(self).__name__}: {name} must be (..., N, {self.size}), got {tuple(x.shape)}; project it, or "
                "build the stack with that size"
            )

    def _refuse_matrix_normalizers(self) -> None:
        """Raises for a structure over queries and keys: in it the weights of a query depend on later queries."""
        for attention in self.modules():
            if not isinstance(attention, MultiheadAttention):
                continue
            normalizer = attention.normalizer
            if normalizer.event_ndim == 2:
                raise ValueError(
                    f"{type(self).__name__}: causal attention needs a normalizer of rows, got "
                    f"{type(normalizer).__name__} over the matrix of queries and keys, where every row depends on "
                    "later ones; pass causal=False, or take a regularizer such as om.SquaredNorm()"
                )


def _flat(x: Tensor) -> Tensor:
    """Flattens all batch axes into one."""
    return x.unsqueeze(0) if x.dim() == 2 else x.flatten(0, -3)
