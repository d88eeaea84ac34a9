"""The gradients of sparse attention, from the active blocks of the forward pass.

With s = p^(2 − α) on the support, g = gradient of the output · valueᵀ and m = Σ s g / Σ s, the gradient of a score is
s (g − m). One program owns a block of queries and adds up its gradient over its active blocks of keys; another kernel
has one program for each block of keys, which adds up over the blocks of queries that use it. Nothing is added by two
programs to one place.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.sparse_attention import Rows
from omegamax.kernels.triton.attention_forward import AttentionState
from omegamax.kernels.triton.row_products import jacobian_factor
from omegamax.kernels.triton.rows import order_of
from omegamax.kernels.triton.scores import WARPS, arguments, keys_seen, load_features, padded, score_tile, tile_sizes
from omegamax.kernels.triton.threshold import powers


class AttentionGradients(NamedTuple):
    """The gradients of the inputs, and of the scores where they are wanted for a bias: 0 outside active blocks."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor | None  # (batch, heads, Q, K)


@triton.jit
def load_state(level, threshold, share, row, there):
    """Loads the largest score, c and the divisor of rows, and says which rows have weights."""
    top = tl.load(level + row, mask=there, other=float("-inf"))
    alive = (top > float("-inf")) & (top == top)
    c = tl.load(threshold + row, mask=there, other=1.0)
    return tl.where(alive, top, 0.0), c, tl.load(share + row, mask=there, other=1.0), alive, top != top


@triton.jit
def weigh_tile(s, peak, c, share, alive, e: tl.constexpr, ORDER: tl.constexpr):
    """Computes the weights of a tile again, and the factor s of the Jacobian."""
    p = tl.where(alive[:, None], powers(peak[:, None] - s, c, e, ORDER) / share[:, None], 0.0)
    return p, jacobian_factor(p, 1.0 + e, ORDER)


@triton.jit
def query_gradient(
    query, key, value, grad_output, grad_query, grad_scores, means, level, threshold, share, blocks, counts,
    n_heads, n_key_heads, n_queries, n_keys, n_key_blocks, scale,
    lengths, mask, mask_batch, mask_head, mask_query, mask_key, bias, bias_batch, bias_head, bias_query, bias_key,
    CAUSAL: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
    WANTS_SCORES: tl.constexpr, e: tl.constexpr, ORDER: tl.constexpr,
    SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr, FEATURES: tl.constexpr, VALUE_FEATURES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Computes the gradient of a block of queries, and the mean m of each of its rows."""
    block = tl.program_id(1)
    item = tl.program_id(0).to(tl.int64)
    batch, head = item // n_heads, item % n_heads
    key_head = batch * n_key_heads + head // (n_heads // n_key_heads)
    key += key_head * n_keys * SIZE
    value += key_head * n_keys * VALUE_SIZE
    mask += batch * mask_batch + head * mask_head
    bias += batch * bias_batch + head * bias_head
    program = item * tl.num_programs(1) + block
    blocks += program * n_key_blocks
    query_at = block * QUERIES + tl.arange(0, QUERIES)
    in_block = tl.arange(0, KEYS)
    n_seen = keys_seen(lengths, item, n_keys, HAS_LENGTHS)
    row = item * n_queries + query_at
    peak, c, divisor, alive, bad = load_state(level, threshold, share, row, query_at < n_queries)
    q = load_features(query + item * n_queries * SIZE, query_at, n_queries, SIZE, FEATURES)
    grad = load_features(grad_output + item * n_queries * VALUE_SIZE, query_at, n_queries, VALUE_SIZE, VALUE_FEATURES)
    n_active = tl.load(counts + program)

    size = tl.zeros((QUERIES,), tl.float32)
    along = tl.zeros((QUERIES,), tl.float32)
    for i in range(n_active):
        key_at = tl.load(blocks + i) * KEYS + in_block
        k = load_features(key, key_at, n_keys, SIZE, FEATURES)
        s = score_tile(
            q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
            mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
        )  # fmt: skip
        p, factor = weigh_tile(s, peak, c, divisor, alive, e, ORDER)
        v = load_features(value, key_at, n_keys, VALUE_SIZE, VALUE_FEATURES)
        g = tl.dot(grad, tl.trans(v), input_precision="ieee")
        size += tl.sum(factor, 1)
        along += tl.sum(tl.where(p > 0, factor * g, 0.0), 1)
    mean = along / tl.where(size > 0, size, 1.0)
    tl.store(means + row, mean, mask=query_at < n_queries)

    found = tl.zeros((QUERIES, FEATURES), tl.float32)
    for i in range(n_active):
        key_at = tl.load(blocks + i) * KEYS + in_block
        k = load_features(key, key_at, n_keys, SIZE, FEATURES)
        s = score_tile(
            q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
            mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
        )  # fmt: skip
        p, factor = weigh_tile(s, peak, c, divisor, alive, e, ORDER)
        v = load_features(value, key_at, n_keys, VALUE_SIZE, VALUE_FEATURES)
        g = tl.dot(grad, tl.trans(v), input_precision="ieee")
        moved = tl.where(p > 0, factor * (g - mean[:, None]), 0.0)
        used = tl.max((p > 0).to(tl.int32), 0)
        found += tl.dot(moved, tl.where(used[:, None] > 0, k, 0.0), input_precision="ieee")
        if WANTS_SCORES:
            there = (query_at < n_queries)[:, None] & (key_at < n_keys)[None, :]
            tl.store(grad_scores + row[:, None] * n_keys + key_at[None, :], moved, mask=there)
    found = tl.where(bad[:, None], float("nan"), found * scale)
    feature = tl.arange(0, FEATURES)
    there = (query_at < n_queries)[:, None] & (feature < SIZE)[None, :]
    tl.store(grad_query + row[:, None] * SIZE + feature[None, :], found.to(grad_query.dtype.element_ty), mask=there)


@triton.jit
def key_gradient(
    query, key, value, grad_output, grad_key, grad_value, means, level, threshold, share, blocks, counts,
    n_heads, n_key_heads, n_queries, n_keys, n_query_blocks, scale,
    lengths, mask, mask_batch, mask_head, mask_query, mask_key, bias, bias_batch, bias_head, bias_query, bias_key,
    CAUSAL: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
    e: tl.constexpr, ORDER: tl.constexpr,
    SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr, FEATURES: tl.constexpr, VALUE_FEATURES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Computes the gradients of a block of keys and values, from all heads of queries that it serves."""
    block = tl.program_id(1)
    key_head = tl.program_id(0).to(tl.int64)
    batch = key_head // n_key_heads
    group = n_heads // n_key_heads
    key_at = block * KEYS + tl.arange(0, KEYS)
    in_block = tl.arange(0, QUERIES)
    k = load_features(key + key_head * n_keys * SIZE, key_at, n_keys, SIZE, FEATURES)
    v = load_features(value + key_head * n_keys * VALUE_SIZE, key_at, n_keys, VALUE_SIZE, VALUE_FEATURES)
    found_key = tl.zeros((KEYS, FEATURES), tl.float32)
    found_value = tl.zeros((KEYS, VALUE_FEATURES), tl.float32)
    for member in range(group):
        head = (key_head % n_key_heads) * group + member
        item = batch * n_heads + head
        n_seen = keys_seen(lengths, item, n_keys, HAS_LENGTHS)
        listed = item * tl.num_programs(1) + block
        for i in range(tl.load(counts + listed)):
            query_at = tl.load(blocks + listed * n_query_blocks + i).to(tl.int32) * QUERIES + in_block
            row = item * n_queries + query_at
            peak, c, divisor, alive, _ = load_state(level, threshold, share, row, query_at < n_queries)
            mean = tl.load(means + row, mask=query_at < n_queries, other=0.0)
            q = load_features(query + item * n_queries * SIZE, query_at, n_queries, SIZE, FEATURES)
            grad = load_features(
                grad_output + item * n_queries * VALUE_SIZE, query_at, n_queries, VALUE_SIZE, VALUE_FEATURES
            )
            s = score_tile(
                q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
                mask + batch * mask_batch + head * mask_head, mask_query, mask_key,
                bias + batch * bias_batch + head * bias_head, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
            )  # fmt: skip
            p, factor = weigh_tile(s, peak, c, divisor, alive, e, ORDER)
            # Queries without weights may hold NaN, and so may their gradients: zero times NaN is NaN.
            q = tl.where(alive[:, None], q, 0.0)
            grad = tl.where(alive[:, None], grad, 0.0)
            g = tl.dot(grad, tl.trans(v), input_precision="ieee")
            moved = tl.where(p > 0, factor * (g - mean[:, None]), 0.0)
            found_value += tl.dot(tl.trans(p), grad, input_precision="ieee")
            found_key += tl.dot(tl.trans(moved), q, input_precision="ieee")
    at = (key_head * n_keys + key_at)[:, None]
    feature = tl.arange(0, FEATURES)
    there = (key_at < n_keys)[:, None] & (feature < SIZE)[None, :]
    tl.store(grad_key + at * SIZE + feature[None, :], (found_key * scale).to(grad_key.dtype.element_ty), mask=there)
    feature = tl.arange(0, VALUE_FEATURES)
    there = (key_at < n_keys)[:, None] & (feature < VALUE_SIZE)[None, :]
    tl.store(grad_value + at * VALUE_SIZE + feature[None, :], found_value.to(grad_value.dtype.element_ty), mask=there)


def backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad_output: Tensor,
    state: AttentionState,
    alpha: float,
    rows: Rows,
    *,
    wants_scores: bool,
) -> AttentionGradients:
    """Computes the gradients of contiguous inputs from the active blocks of `state`."""
    batch, heads, n_queries, size = query.shape
    n_keys, value_size = value.shape[-2:]
    queries, keys = tile_sizes(size, value_size)
    n_query_blocks, n_key_blocks = state.active.shape[-2:]
    grad_output = grad_output.contiguous()
    scores = torch.zeros(batch, heads, n_queries, n_keys, device=query.device) if wants_scores else None
    found = AttentionGradients(torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), scores)
    means = torch.empty_like(state.level)
    by_key = state.active.transpose(-1, -2).contiguous()
    listed = by_key.argsort(dim=-1, descending=True, stable=True).to(torch.int32)  # the active ones first, in order
    used_by = by_key.sum(-1, dtype=torch.int32)
    common = dict(
        e=float(alpha) - 1.0, ORDER=order_of(float(alpha)),
        SIZE=size, VALUE_SIZE=value_size, FEATURES=padded(size), VALUE_FEATURES=padded(value_size),
        QUERIES=queries, KEYS=keys, **arguments(rows, query), num_warps=WARPS, enable_fp_fusion=False,
    )  # fmt: skip
    sizes = heads, key.shape[1], n_queries, n_keys
    with torch.cuda.device_of(query):
        query_gradient[(batch * heads, n_query_blocks)](
            query, key, value, grad_output, found.query, means if scores is None else scores, means,
            state.level, state.threshold, state.share, state.blocks, state.counts,
            *sizes, n_key_blocks, WANTS_SCORES=wants_scores, **common,
        )  # fmt: skip
        key_gradient[(batch * key.shape[1], n_key_blocks)](
            query, key, value, grad_output, found.key, found.value, means,
            state.level, state.threshold, state.share, listed, used_by,
            *sizes, n_query_blocks, **common,
        )  # fmt: skip
    return found
