"""A cache for Hugging Face `generate` whose layers are `KeyCache`s: a step under a sparse normalizer reads 8-bit keys.

A layer of the library's cache returns all keys and values, and the model passes them to its attention unchanged. Here
they are views of a `KeyCache`, and the tensor of keys carries a note which one. Attention that finds no note, because a
model has changed the keys in between, computes from the keys as ever.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from omegamax.attention.key_cache import KeyCache
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer import past
from omegamax.integrations.attention_call import read_mask

_NOTE = "_omegamax_key_cache"


class KeyCacheLayer(DynamicLayer):
    """Keeps the keys and values of one layer in a `KeyCache`."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self.cache = KeyCache()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Appends keys and values (batch, heads, n, size), and returns all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.cache.append(key_states, value_states)
        return self._shown()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._take(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._take(torch.arange(self._n_items()).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        self._take(torch.arange(self._n_items())[indices.cpu()])

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last tokens; `tokens_to_remove` is negative, as the library has it."""
        super().crop(tokens_to_remove)
        if self.get_seq_length() > 0 or self.is_initialized:
            self.cache.crop(max(0, len(self.cache) - abs(tokens_to_remove)))
            self._shown()

    def _n_items(self) -> int:
        return self.cache.batch[0] if self.is_initialized else 0

    def _take(self, index: Tensor) -> None:
        if self.is_initialized and self.get_seq_length() > 0:
            self.cache.reorder(index.cpu())
            self._shown()

    def _shown(self) -> tuple[Tensor, Tensor]:
        self.keys, self.values = self.cache.key, self.cache.value
        setattr(self.keys, _NOTE, (self.cache, self.values))
        return self.keys, self.values


class GenerationCache(Cache):
    """A cache for `model.generate(..., past_key_values=...)`; one for each call."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=KeyCacheLayer)


def cached_output(
    query: Tensor, key: Tensor, value: Tensor, normalizer: Normalizer, mask: Tensor | None, scaling: float | None
) -> Tensor | None:
    """Computes the output (batch, heads, Q, size) from the cache of the keys, or returns None if it is no use.

    The mask is that of the library.
    """
    cache, values = getattr(key, _NOTE, (None, None))
    if cache is None or values is not value or key.shape[-2] < past.FEWEST_KEYS or query.dtype is not key.dtype:
        return None
    if len(cache) != key.shape[-2] or not past.is_sparse(normalizer, query):
        return None
    found = read_mask(mask, key.shape[-2])
    if found.bias is not None:
        return None
    output: Tensor = cache.attend(query, normalizer, causal=found.causal, mask=found.allowed, scale=scaling)
    return output
