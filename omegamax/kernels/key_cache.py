"""The 8-bit copy of a cache of keys, and attention of a few queries over it: the native calls.

The copy has a quarter of the bytes of float32 keys (plus 8 bytes per key for a scale and a sum). Keys lie in pages of
64; a page that is full has a ball around its keys, a bound for all its scores at once. What is computed is what
`omegamax.kernels.sparse_attention.dense_attention` specifies.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.sparse_attention import RowOperator, Strides, Support

PAGE = 64  # keys of a page: kKeyGroup in csrc/attention/problems.hpp
SECTION = 64  # pages whose balls are multiplied at once: kSection in csrc/attention/decode_problems.hpp
TILE = 6  # rows of queries that share each reading of a page: kTile in csrc/attention/integer_product.hpp
_ELEMENTS = {torch.float32: 0, torch.float64: 0, torch.bfloat16: 1, torch.float16: 2}
_NOTHING = (0, 0, 0, 0, 0)


def quads(size: int) -> int:
    """Returns how many groups of four features a key has; the last group may be filled up."""
    return -(-size // 4)


class Pages(NamedTuple):
    """The 8-bit copy of keys (heads, capacity, size): `CachedPages` in csrc/attention/decode_problems.hpp."""

    levels: Tensor  # (heads, pages, quads · 256) int8
    scale: Tensor  # (heads, capacity)
    start: Tensor  # (heads, capacity) int32
    residual: Tensor  # (heads, pages)
    length: Tensor  # (heads, pages)
    wild: Tensor  # (heads, pages) int64: bits of keys that are not finite
    centre_levels: Tensor  # (heads, sections, quads · 256) int8
    centre_scale: Tensor  # (heads, sections · 64)
    centre_start: Tensor  # (heads, sections · 64) int32
    radius: Tensor  # (heads, sections · 64)
    centre_length: Tensor  # (heads, sections · 64)

    @classmethod
    def empty(cls, heads: int, capacity: int, size: int) -> Pages:
        """Makes room for `capacity` keys, a multiple of 64, of every head."""
        n_pages = capacity // PAGE
        n_sections = -(-n_pages // SECTION)
        by_page, by_section = (heads, n_pages), (heads, n_sections * SECTION)

        def new(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, dtype=dtype)

        return cls(
            new((*by_page, quads(size) * 4 * PAGE), torch.int8),
            new((heads, capacity)),
            new((heads, capacity), torch.int32),
            new(by_page),
            new(by_page),
            new(by_page, torch.int64),
            new((heads, n_sections, quads(size) * 4 * SECTION), torch.int8),
            new(by_section),
            new(by_section, torch.int32),
            new(by_section),
            new(by_section),
        )

    def copy_heads(self, other: Pages, heads: Tensor | slice, n_keys: int) -> None:
        """Copies what belongs to the first keys of some heads, which may have less room."""
        n_pages = -(-n_keys // PAGE)
        n_sections = -(-n_pages // SECTION)
        counts = (n_pages, n_keys, n_keys, *[n_pages] * 3, n_sections, *[n_sections * SECTION] * 4)
        for to, of, count in zip(self, other, counts):
            to[:, :count] = of[heads, :count]

    def arguments(self) -> tuple[int, ...]:
        return *(tensor.data_ptr() for tensor in self), self.levels.shape[1]

    @property
    def n_bytes(self) -> int:
        return sum(tensor.numel() * tensor.itemsize for tensor in self)


class DecodeOutput(NamedTuple):
    """The results of a native call of `decode`."""

    output: Tensor  # (batch, heads, queries, value features) as the query; undefined in rows that were refused
    support: Support | None
    refused: Tensor  # (batch, heads, queries) boolean: rows in which many keys may have weight
    n_pages_read: int  # pages whose keys were multiplied, over all heads of the keys


def quantise(pages: Pages, key: Tensor, kv_heads: int, begin: list[int], end: list[int]) -> None:
    """Appends keys begin[item] .. end[item] of (items · kv heads, capacity, size); earlier ones have been appended."""
    span = max((-(-e // PAGE) - b // PAGE for b, e in zip(begin, end) if e > b), default=0)
    if span == 0:
        return
    first, last = torch.tensor(begin), torch.tensor(end)
    routing.native.quantise_pages(
        max(4, key.itemsize),
        _ELEMENTS[key.dtype],
        key.data_ptr(),
        len(key),
        kv_heads,
        key.shape[-1],
        pages.arguments(),
        first.data_ptr(),
        last.data_ptr(),
        span,
        torch.get_num_threads(),
    )


def decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pages: Pages,
    n_keys: int,
    operator: RowOperator,
    *,
    scale: float,
    limits: Tensor,
    mask: Strides | None = None,
    n_allowed: Tensor | None = None,
    wants_support: bool,
    may_refuse: bool,
) -> DecodeOutput:
    """Computes attention of queries (batch, heads, Q, size), at most 48 of a head, over `n_keys` keys of a cache.

    `key` and `value` are (batch · kv heads, capacity, features); `limits` (batch, Q) says how many keys a query sees,
    `n_allowed` (batch, heads, Q) how many the mask leaves of those.
    """
    batch, heads, n_queries, size = query.shape
    kv_heads = len(key) // batch
    output = query.new_empty(batch, heads, n_queries, value.shape[-1])
    refused = torch.empty(batch, heads, n_queries, dtype=torch.bool)
    found, n_pages_read = routing.native.decode(
        query.itemsize,
        _ELEMENTS[key.dtype],
        query.data_ptr(),
        key.data_ptr(),
        value.data_ptr(),
        output.data_ptr(),
        (batch, heads, kv_heads, n_queries, n_keys, size, value.shape[-1]),
        pages.arguments(),
        operator.arguments(),
        scale,
        limits.data_ptr(),
        0 if n_allowed is None else n_allowed.data_ptr(),
        _NOTHING if mask is None else mask.arguments(),
        may_refuse,
        wants_support,
        refused.data_ptr(),
        torch.get_num_threads(),
    )
    if not wants_support:
        return DecodeOutput(output, None, refused, n_pages_read)
    offsets = torch.empty(batch * heads * n_queries + 1, dtype=torch.int64)
    indices = torch.empty(found.n_entries, dtype=torch.int32)
    weights = query.new_empty(found.n_entries)
    found.write(offsets.data_ptr(), indices.data_ptr(), weights.data_ptr(), 0)
    return DecodeOutput(output, Support(offsets, indices, weights, None), refused, n_pages_read)
