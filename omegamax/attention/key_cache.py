"""A cache keeps the keys and values of all positions so far, for decoding one position after the other.

    output = argmax_Ω(scale · query keyᵀ) value

A step over N keys reads an 8-bit copy of them, a quarter of the bytes of float32 keys and an eighth of keys and values,
and less where pages of keys lie too far from the query. Scores of the few keys that can have weight are then computed
in full, so the result is exact. Published selectors of pages (Tang et al., "Quest: query-aware sparsity for efficient
long-context LLM inference", ICML 2024) keep a fixed number of pages, and their result is not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.cached_attention import CachedCall
from omegamax.attention.key_storage import KeyStorage, check_new, count_new
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.sparse_attention import sparse_attention, sparse_attention_with_weights
from omegamax.attention.sparse_attention_output import SparseAttentionOutput, output_with_weights


class KeyCache:
    """Keeps keys and values, which grow, and computes the attention of the latest queries to them.

    `append` writes keys and values into memory that doubles when it is full, so n steps copy O(n) keys. `attend` is
    `sparse_attention` of a few queries over all keys. For `SquaredNorm`, `Tsallis` above order 1, `Oscar`, `Fused` and
    `TopK` on a CPU it reads an 8-bit copy of the keys, which adds a quarter to the memory of float32 keys and half to
    that of bfloat16 keys, and is made when it is needed first. Everything else takes dense scores.

    There is no gradient to keys and values; `append` raises where one would be lost.

    Arguments:
        capacity: how many keys to make room for at first

    >>> cache = KeyCache()
    >>> for x in torch.eye(3):
    ...     cache.append(x.reshape(1, 1, 3), x.reshape(1, 1, 3))  # one head, one key
    >>> cache.attend(torch.tensor([[[2.0, 1.9, 0.0]]]), SquaredNorm(), scale=1.0)
    tensor([[[0.5500, 0.4500, 0.0000]]])
    >>> len(cache)
    3
    """

    def __init__(self, *, capacity: int = 256) -> None:
        checks.check_count("KeyCache", "capacity", capacity)
        self._first_capacity = capacity
        self._storage: KeyStorage | None = None
        self._batch: tuple[int, ...] = ()
        self._lengths: tuple[int, ...] = ()
        self.share_read = 0.0  # of the pages of keys: how many the last call of `attend` read

    def append(self, key: Tensor, value: Tensor, *, lengths: Tensor | None = None) -> None:
        """Adds keys (..., kv heads, n, size) and values (..., kv heads, n, features) after those that are there.

        Arguments:
            key: the new keys; the first call fixes all sizes but n
            value: the new values
            lengths: how many of the n keys each item has, integers shaped as the leading axes; None takes all
        """
        check_new(key, value, self._storage, self._batch)
        batch, (kv_heads, n) = tuple(key.shape[:-3]), key.shape[-3:-1]
        counts = count_new("KeyCache.append", batch, n, lengths)
        items = len(counts)
        with torch.inference_mode(False), torch.no_grad():
            if self._storage is None:
                self._batch, self._lengths = batch, (0,) * items
                self._use(KeyStorage(items, kv_heads, max(self._first_capacity, n), key, value))
            flat_key, flat_value = (x.detach().reshape(items, kv_heads, n, x.shape[-1]) for x in (key, value))
            grown = tuple(length + count for length, count in zip(self._lengths, counts))
            if not self._write_shared(flat_key, flat_value, counts, max(grown, default=0)):
                storage = self._own_storage(max(grown, default=0))
                storage.write(flat_key, flat_value, counts)
                self._use(storage)
            self._lengths = grown

    def attend(
        self,
        query: Tensor,
        normalizer: Normalizer,
        *,
        causal: bool = True,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | RelativeBias | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """Computes argmax_Ω(scale · query keyᵀ + bias) value, (..., heads, Q, features), as `sparse_attention` does.

        The queries are usually those of the positions that were appended last.

        Arguments:
            query: (..., heads, Q, size); each head of the keys serves heads / kv heads heads of the queries
            normalizer: what turns scores into weights
            causal: whether the last query sees all keys of its item, and each query before it one key less
            lengths: how many of the Q queries each item has, as in `append`; the output of the others is zero
            mask: boolean, broadcasts to (..., heads, Q, K), K = len(cache); True means "may attend"
            bias: added to the scores; with it keys are quantised in every call
            scale: what products are multiplied by; None is 1/√size
        """
        call = self._call(query, normalizer, causal=causal, lengths=lengths, mask=mask, bias=bias, scale=scale)
        found = call.run(keeps_all=False)
        self.share_read = 1.0 if found is None else found.share_read
        if found is not None:
            return found.output
        return sparse_attention(query, self.key, self.value, normalizer, **call.options())

    def attend_with_weights(
        self,
        query: Tensor,
        normalizer: Normalizer,
        *,
        causal: bool = True,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | RelativeBias | None = None,
        scale: float | None = None,
    ) -> SparseAttentionOutput:
        """Computes `attend`, and returns its weights too, as a sparse CSR tensor (rows, K), with their numbers.

        Arguments:
            query: (..., heads, Q, size)
            normalizer: what turns scores into weights
            causal: whether each query sees one key less than the next
            lengths: how many of the Q queries each item has
            mask: boolean, broadcasts to (..., heads, Q, K); True means "may attend"
            bias: added to the scores
            scale: what products are multiplied by; None is 1/√size
        """
        call = self._call(query, normalizer, causal=causal, lengths=lengths, mask=mask, bias=bias, scale=scale)
        found = call.run(keeps_all=True)
        self.share_read = 1.0 if found is None else found.share_read
        if found is not None and found.support is not None:
            offsets, indices, weights, _ = found.support
            return output_with_weights(found.output, offsets, indices.long(), weights, len(self))
        return sparse_attention_with_weights(query, self.key, self.value, normalizer, **call.options())

    def reorder(self, indices: Tensor) -> None:
        """Takes items of the batch, in any order and number, as a beam search does between steps.

        Arguments:
            indices: integers, counted over all leading axes; their shape is the new batch
        """
        storage = self._started("reorder")
        checks.check_indices("KeyCache.reorder", "indices", indices)
        index = indices.reshape(-1)
        if any(not 0 <= i < storage.items for i in index.tolist()):
            raise ValueError(
                f"KeyCache.reorder: indices must lie in [0, {storage.items}), got {index.tolist()}; they count the "
                "items of the batch"
            )
        with torch.inference_mode(False), torch.no_grad():
            new = storage.copied(self._lengths, storage.capacity, index)
        self._batch, self._lengths = tuple(indices.shape), new.lengths
        self._use(new)

    def crop(self, length: int) -> None:
        """Keeps the first `length` keys of each item, as speculative decoding does after a wrong guess."""
        self._started("crop")
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            raise ValueError(f"KeyCache.crop: length must be a count of keys, got {length!r}; 0 removes all of them")
        self._lengths = tuple(min(length, own) for own in self._lengths)

    def clone(self) -> KeyCache:
        """Returns a cache that starts with the same keys; nothing is copied until both of them have appended."""
        new = KeyCache(capacity=self._first_capacity)
        new._batch, new._lengths, new.share_read = self._batch, self._lengths, self.share_read
        if self._storage is not None:
            new._use(self._storage)
        return new

    def state_dict(self) -> dict[str, Tensor]:
        """Returns keys, values and lengths as tensors; the 8-bit copy is made again when it is needed."""
        self._started("state_dict")
        lengths = torch.tensor(self._lengths, dtype=torch.int64).reshape(self._batch)
        return {"key": self.key.clone(), "value": self.value.clone(), "lengths": lengths}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Replaces everything by the `state` that `state_dict` returned."""
        missing = {"key", "value", "lengths"} - set(state)
        if missing:
            raise ValueError(
                f"KeyCache.load_state_dict: state must have key, value and lengths, got none of {sorted(missing)}; "
                "save cache.state_dict()"
            )
        self._storage, self._batch, self._lengths = None, (), ()
        self.append(state["key"], state["value"], lengths=state["lengths"])

    @property
    def key(self) -> Tensor:
        """The keys (..., kv heads, K, size), as a view. Places beyond the length of an item may hold anything."""
        return self._seen(self._started("key").key)

    @property
    def value(self) -> Tensor:
        """The values (..., kv heads, K, features), as a view."""
        return self._seen(self._started("value").value)

    @property
    def lengths(self) -> Tensor:
        """The number of keys of each item, integers shaped as the batch."""
        return torch.tensor(self._lengths, dtype=torch.int64).reshape(self._batch)

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes of keys and values."""
        return self._batch

    def __len__(self) -> int:
        """Returns K, the number of keys of the longest item."""
        return max(self._lengths, default=0)

    def __bool__(self) -> bool:
        return True  # as an object, also without keys

    def __repr__(self) -> str:
        if self._storage is None:
            return "KeyCache()"
        s = self._storage
        sizes = f"size={s.key.shape[-1]}, features={s.value.shape[-1]}"
        return (
            f"KeyCache(batch={self._batch}, kv_heads={s.kv_heads}, keys={len(self)}, {sizes}, capacity={s.capacity}, "
            f"dtype={s.key.dtype}, device={s.key.device.type!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            "capacity": self._first_capacity,
            "state": None if self._storage is None else self.state_dict(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(capacity=saved["capacity"])  # type: ignore[misc]
        if saved["state"] is not None:
            self.load_state_dict(saved["state"])

    def _call(self, query: Tensor, normalizer: Normalizer, **options: Any) -> CachedCall:
        return CachedCall(self._started("attend"), self._batch, self._lengths, query, normalizer, **options)

    def _write_shared(self, key: Tensor, value: Tensor, counts: tuple[int, ...], needed: int) -> bool:
        """Appends to the storage if it ends where this cache does and has room; other caches may share it."""
        storage = self._started("append")
        with storage.lock:
            if storage.lengths != self._lengths and len(storage.users) == 1:
                storage.cut(self._lengths)
            if storage.lengths != self._lengths or needed > storage.capacity:
                return False
            storage.write(key, value, counts)
            return True

    def _own_storage(self, needed: int) -> KeyStorage:
        """Copies what this cache sees; a copy that needs more room than now has at least twice as much."""
        storage = self._started("append")
        capacity = storage.capacity if needed <= storage.capacity else max(needed, 2 * storage.capacity)
        return storage.copied(self._lengths, capacity)

    def _use(self, storage: KeyStorage) -> None:
        if self._storage is not None:
            self._storage.users.discard(self)
        self._storage = storage
        storage.users.add(self)

    def _started(self, method: str) -> KeyStorage:
        if self._storage is None:
            raise ValueError(
                f"KeyCache.{method}: the cache must have seen keys, got none; append keys (..., kv heads, n, size), "
                "where n may be 0"
            )
        return self._storage

    def _seen(self, tensor: Tensor) -> Tensor:
        storage = self._started("key")
        return tensor[:, : len(self)].unflatten(0, (*self._batch, storage.kv_heads))
