"""A tile of attention's scores, as all kernels of attention compute it, and the arguments that describe the scores.

Tensors are (batch, heads, length, features), contiguous. A mask or a bias is read by four strides, which are 0 along
the axes that it does not have; a bias by distance has the strides −1 and 1 along queries and keys.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.sparse_attention import Rows, Strides

WARPS = 8


@triton.jit
def load_features(numbers, at, count, SIZE: tl.constexpr, FEATURES: tl.constexpr):
    """Loads vectors `at` of one head, (len(at), FEATURES), in float32; what lies outside is 0."""
    feature = tl.arange(0, FEATURES)
    there = (at < count)[:, None] & (feature < SIZE)[None, :]
    return tl.load(numbers + at.to(tl.int64)[:, None] * SIZE + feature[None, :], mask=there, other=0).to(tl.float32)


@triton.jit
def score_tile(
    q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
    mask, mask_query, mask_key, bias, bias_query, bias_key,
    CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """Computes the scores of a tile; pairs that are left out are −inf, whatever their vectors hold."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    allowed = (query_at < n_queries)[:, None] & (key_at < n_seen)[None, :]
    if CAUSAL:
        allowed = allowed & (key_at[None, :] <= query_at[:, None] + (n_keys - n_queries))
    query = query_at.to(tl.int64)[:, None]
    key = key_at.to(tl.int64)[None, :]
    if HAS_MASK:
        seen = tl.load(mask + query * mask_query + key * mask_key, mask=allowed, other=0)
        allowed = allowed & (seen != 0)
    if HAS_BIAS:
        s += tl.load(bias + query * bias_query + key * bias_key, mask=allowed, other=0).to(tl.float32)
    return tl.where(allowed, s, float("-inf"))


@triton.jit
def keys_seen(lengths, item, n_keys, HAS_LENGTHS: tl.constexpr):
    """Returns how many keys a head of an item has."""
    seen = n_keys
    if HAS_LENGTHS:
        seen = tl.minimum(n_keys, tl.load(lengths + item).to(tl.int32))
    return seen


def tile_sizes(size: int, value_size: int) -> tuple[int, int]:
    """Returns how many queries and how many keys a tile has, for these numbers of features.

    With larger tiles, or fewer than WARPS warps, registers do not suffice (see benchmarks/triton_kernels.py).
    """
    side = 32 if max(size, value_size) <= 64 else 16
    return side, side


def padded(size: int) -> int:
    """Returns the number of features of a tile: a power of two, at least 16 for `tl.dot`."""
    return max(16, triton.next_power_of_2(size))


def arguments(rows: Rows, like: Tensor) -> dict[str, Any]:
    """Returns the arguments of the kernels that describe the scores; `like` stands for tensors that are missing."""
    found: dict[str, Any] = {"scale": rows.scale, "CAUSAL": rows.causal}
    found.update(lengths=like if rows.lengths is None else rows.lengths, HAS_LENGTHS=rows.lengths is not None)
    for name, strides in (("mask", rows.mask), ("bias", rows.bias)):
        pointer, steps = _from_first(strides) if strides is not None else (like, (0, 0, 0, 0))
        found[name] = pointer
        found.update(zip((f"{name}_batch", f"{name}_head", f"{name}_query", f"{name}_key"), steps))
        found[f"HAS_{name.upper()}"] = strides is not None
    return found


def _from_first(strides: Strides) -> tuple[Tensor, tuple[int, int, int, int]]:
    """Returns a view that begins at the first element that is read."""
    tensor = strides.tensor
    tensor = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    first = tensor.as_strided((1,), (1,), tensor.storage_offset() + strides.start)
    return first, strides.strides
