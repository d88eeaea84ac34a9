"""The memory of a `KeyCache`: keys, values and the 8-bit copy of the keys, with room for more.

A storage may be shared by several caches, each of which sees a first part of it. Keys that were appended are never
changed while another cache sees the storage, so what a cache sees stays as it is.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels import key_cache as kernel

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class KeyStorage:
    """Holds keys and values (items · kv heads, capacity, features) of a batch of items."""

    def __init__(self, items: int, kv_heads: int, capacity: int, key: Tensor, value: Tensor) -> None:
        self.items, self.kv_heads = items, kv_heads
        self.capacity = -(-max(capacity, 1) // kernel.PAGE) * kernel.PAGE
        heads = items * kv_heads
        self.key = torch.zeros(heads, self.capacity, key.shape[-1], dtype=key.dtype, device=key.device)
        self.value = torch.zeros(heads, self.capacity, value.shape[-1], dtype=value.dtype, device=value.device)
        self.lengths = (0,) * items  # how many keys of each item have been written
        self.pages: kernel.Pages | None = None  # made when it is needed first
        self.quantised = (0,) * items  # how many of the keys of each item the pages have
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self.lock = threading.Lock()

    def write(self, key: Tensor, value: Tensor, counts: tuple[int, ...]) -> None:
        """Appends the first counts[item] of keys and values (items, kv heads, n, features)."""
        keys, values = self._by_item(self.key), self._by_item(self.value)
        if len(set(counts)) <= 1 and len(set(self.lengths)) <= 1:  # one copy for all items
            start, count = max(self.lengths, default=0), max(counts, default=0)
            keys[:, :, start : start + count] = key[:, :, :count]
            values[:, :, start : start + count] = value[:, :, :count]
        else:
            for item, (start, count) in enumerate(zip(self.lengths, counts)):
                keys[item, :, start : start + count] = key[item, :, :count]
                values[item, :, start : start + count] = value[item, :, :count]
        self.lengths = tuple(start + count for start, count in zip(self.lengths, counts))

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Forgets all but the first keys of each item; pages that lose keys are written again."""
        self.lengths = lengths
        self.quantised = tuple(
            done if done <= length else length // kernel.PAGE * kernel.PAGE
            for done, length in zip(self.quantised, lengths)
        )

    def copied(self, lengths: tuple[int, ...], capacity: int, index: Tensor | None = None) -> KeyStorage:
        """Copies the first keys of each item, or of the items of an index, into a new storage."""
        chosen = torch.arange(self.items) if index is None else index.cpu()
        chosen_lengths = tuple(lengths[i] for i in chosen.tolist())
        new = KeyStorage(len(chosen), self.kv_heads, capacity, self.key, self.value)
        most = max(chosen_lengths, default=0)
        heads = (chosen.unsqueeze(-1) * self.kv_heads + torch.arange(self.kv_heads)).flatten()
        taken: Tensor | slice = slice(None) if index is None else heads.to(self.key.device)
        new.key[:, :most] = self.key[taken, :most]
        new.value[:, :most] = self.value[taken, :most]
        if self.pages is not None:
            new.pages = kernel.Pages.empty(len(heads), new.capacity, self.key.shape[-1])
            new.pages.copy_heads(self.pages, taken, most)
            new.quantised = tuple(self.quantised[i] for i in chosen.tolist())
        new.cut(chosen_lengths)
        return new

    def quantise(self) -> kernel.Pages:
        """Brings the 8-bit copy up to date."""
        with self.lock:
            if self.pages is None:
                self.pages = kernel.Pages.empty(len(self.key), self.capacity, self.key.shape[-1])
            if self.quantised != self.lengths:
                kernel.quantise(self.pages, self.key, self.kv_heads, list(self.quantised), list(self.lengths))
                self.quantised = self.lengths
            return self.pages

    def _by_item(self, tensor: Tensor) -> Tensor:
        return tensor.view(self.items, self.kv_heads, *tensor.shape[1:])


def check_new(key: Any, value: Any, storage: KeyStorage | None, batch: tuple[int, ...]) -> None:
    """Raises unless keys and values can be appended to the storage."""
    who = "KeyCache.append"
    for name, x in (("key", key), ("value", value)):
        checks.check_floating(who, x, name=name)
        if x.dtype not in _DTYPES:
            raise TypeError(f"{who}: {name} must be of one of {_DTYPES}, got {x.dtype}; convert it with .float()")
        if x.dim() < 3:
            raise ValueError(
                f"{who}: {name} must have the shape (..., kv heads, n, features), got {tuple(x.shape)}; use "
                "unsqueeze(0) for a single head"
            )
        if torch.is_grad_enabled() and x.requires_grad:
            raise ValueError(
                f"{who}: there is no gradient through a cache, got a {name} that requires one; decode under "
                "torch.no_grad(), or detach it"
            )
    if key.shape[:-1] != value.shape[:-1] or key.dtype is not value.dtype or key.device != value.device:
        raise ValueError(
            f"{who}: key and value must agree in all but their features, got {tuple(key.shape)} {key.dtype} and "
            f"{tuple(value.shape)} {value.dtype}; there is one value per key"
        )
    if storage is None:
        return
    for name, x, kept in (("key", key, storage.key), ("value", value, storage.value)):
        expected = (*batch, storage.kv_heads, x.shape[-2], kept.shape[-1])
        if tuple(x.shape) != expected:
            raise ValueError(
                f"{who}: {name} must have the shape {expected} of the cache, got {tuple(x.shape)}; "
                "cache.reorder(indices) changes the batch"
            )
        _check_kind(who, name, x, kept)


def count_new(who: str, batch: tuple[int, ...], n: int, lengths: Tensor | None) -> tuple[int, ...]:
    """Returns how many of n new positions each item has: all of them, or its length."""
    if lengths is None:
        return (n,) * torch.Size(batch).numel()
    lengths = checks.check_lengths(who, batch, lengths)
    checks.check_counts(who, "lengths", lengths, n, "count the new positions of each item")
    return tuple(lengths.expand(batch).reshape(-1).tolist())


def check_query(query: Any, storage: KeyStorage, batch: tuple[int, ...]) -> None:
    """Raises unless queries can attend to the storage."""
    who = "KeyCache.attend"
    checks.check_floating(who, query, name="query")
    size, kv_heads = storage.key.shape[-1], storage.kv_heads
    fits = query.dim() == len(batch) + 3 and tuple(query.shape[:-3]) == batch and query.shape[-1] == size
    if not fits or kv_heads == 0 or query.shape[-3] % kv_heads:
        raise ValueError(
            f"{who}: query must have the shape (*{batch}, a multiple of {kv_heads} heads, Q, {size}), got "
            f"{tuple(query.shape)}; cache.reorder(indices) changes the batch"
        )
    _check_kind(who, "query", query, storage.key)


def _check_kind(who: str, name: str, x: Tensor, kept: Tensor) -> None:
    if x.dtype is not kept.dtype or x.device != kept.device:
        raise TypeError(
            f"{who}: {name} must be of the cache's dtype and device, {kept.dtype} on {kept.device}, got {x.dtype} on "
            f"{x.device}; convert it with .to(cache.key)"
        )
