"""Sparse attention: one program computes the output of a block of queries of one head.

It multiplies the block with all keys once and lists the blocks of keys in which a score lies within the window
1/(α − 1) of the largest so far. When the largest score is known, it keeps those that are still within it, searches the
threshold on these, and at last lists the blocks that have a weight: output and gradients come from these alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.sparse_attention import Rows
from omegamax.kernels.triton.rows import STEPS, order_of
from omegamax.kernels.triton.scores import WARPS, arguments, keys_seen, load_features, padded, score_tile, tile_sizes
from omegamax.kernels.triton.threshold import advance, bits_of, first_low, powers, tile_sums


class AttentionState(NamedTuple):
    """The output, and what the gradients need beside the inputs. Rows are (batch, heads, Q)."""

    output: Tensor  # (batch, heads, Q, features)
    level: Tensor  # the largest score; −inf where a query sees nothing, NaN where a score is NaN or +inf
    threshold: Tensor  # c of `threshold`
    share: Tensor  # what the powers are divided by
    blocks: Tensor  # (batch, heads, query blocks, key blocks): the first `counts` are the active blocks of keys
    counts: Tensor  # (batch, heads, query blocks)
    active: Tensor  # (batch, heads, query blocks, key blocks): the same as flags


@triton.jit
def attend(
    query, key, value, output, level, threshold, share, blocks, candidates, counts, active,
    n_heads, n_key_heads, n_queries, n_keys, n_key_blocks, scale,
    lengths, mask, mask_batch, mask_head, mask_query, mask_key, bias, bias_batch, bias_head, bias_query, bias_key,
    CAUSAL: tl.constexpr, HAS_LENGTHS: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
    e: tl.constexpr, ORDER: tl.constexpr, STEPS: tl.constexpr,
    SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr, FEATURES: tl.constexpr, VALUE_FEATURES: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Computes QUERIES rows of the output, their state, and the list of their active blocks."""
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
    candidates += program * n_key_blocks
    active += program * n_key_blocks
    query_at = block * QUERIES + tl.arange(0, QUERIES)
    in_block = tl.arange(0, KEYS)
    n_seen = keys_seen(lengths, item, n_keys, HAS_LENGTHS)
    last = n_seen
    if CAUSAL:
        last = tl.maximum(0, tl.minimum(n_seen, (block + 1) * QUERIES + n_keys - n_queries))
    q = load_features(query + item * n_queries * SIZE, query_at, n_queries, SIZE, FEATURES)

    top = tl.full((QUERIES,), float("-inf"), tl.float32)
    bad = tl.zeros((QUERIES,), tl.int32)
    n_listed = 0
    for at in range(tl.cdiv(last, KEYS)):
        key_at = at * KEYS + in_block
        k = load_features(key, key_at, n_keys, SIZE, FEATURES)
        s = score_tile(
            q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
            mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
        )  # fmt: skip
        wrong = (s != s) | (s == float("inf"))
        bad = tl.maximum(bad, tl.max(wrong.to(tl.int32), 1))
        best = tl.max(tl.where(wrong, float("-inf"), s), 1)
        top = tl.maximum(top, best)
        near = (best > float("-inf")) & (1.0 - e * (top - best) > 0)
        keep = tl.max(near.to(tl.int32), 0)
        tl.store(blocks + n_listed, at, mask=keep > 0)
        n_listed += keep
    tl.debug_barrier()  # all threads have written before any reads, here and below

    alive = (top > float("-inf")) & (bad == 0)
    peak = tl.where(alive, top, 0.0)
    n_candidates = 0
    for i in range(n_listed):
        at = tl.load(blocks + i)
        key_at = at * KEYS + in_block
        k = load_features(key, key_at, n_keys, SIZE, FEATURES)
        s = score_tile(
            q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
            mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
        )  # fmt: skip
        near = alive & (tl.max(tl.where(1.0 - e * (peak[:, None] - s) > 0, 1, 0), 1) > 0)
        keep = tl.max(near.to(tl.int32), 0)
        tl.store(candidates + n_candidates, at, mask=keep > 0)
        n_candidates += keep
    tl.debug_barrier()

    c = tl.full((QUERIES,), 1.0, tl.float32)
    high = bits_of(c)
    low = first_low(n_keys, e, c)
    is_open = alive
    step = 0
    while (tl.max(is_open.to(tl.int32), 0) > 0) & (step < STEPS):
        total = tl.zeros((QUERIES,), tl.float32)
        slope = tl.zeros((QUERIES,), tl.float32)
        inside = tl.zeros((QUERIES,), tl.float32)
        for i in range(n_candidates):
            key_at = tl.load(candidates + i) * KEYS + in_block
            k = load_features(key, key_at, n_keys, SIZE, FEATURES)
            s = score_tile(
                q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
                mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
            )  # fmt: skip
            a, b, d = tile_sums(peak[:, None] - s, c, e, ORDER)
            total += a
            slope += b
            inside += d
        c, low, high, is_open = advance(step, c, low, high, is_open, total, slope, inside, e, ORDER)
        step += 1

    sums = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, VALUE_FEATURES), tl.float32)
    n_active = 0
    for i in range(n_candidates):
        at = tl.load(candidates + i)
        key_at = at * KEYS + in_block
        k = load_features(key, key_at, n_keys, SIZE, FEATURES)
        s = score_tile(
            q, k, query_at, key_at, n_queries, n_keys, n_seen, scale,
            mask, mask_query, mask_key, bias, bias_query, bias_key, CAUSAL, HAS_MASK, HAS_BIAS,
        )  # fmt: skip
        p = tl.where(alive[:, None], powers(peak[:, None] - s, c, e, ORDER), 0.0)
        used = tl.max((p > 0).to(tl.int32), 0)
        keep = tl.max(used, 0)
        tl.store(blocks + n_active, at, mask=keep > 0)
        tl.store(active + at, 1, mask=keep > 0)
        n_active += keep
        # A value that no query of the block reads may hold NaN, and zero times NaN is NaN.
        v = load_features(value, key_at, n_keys, VALUE_SIZE, VALUE_FEATURES)
        v = tl.where(used[:, None] > 0, v, 0.0)
        mixed += tl.dot(p, v, input_precision="ieee")
        sums += tl.sum(p, 1)
    sums = sums if ORDER != 4 else tl.full((QUERIES,), 1.0, tl.float32)  # the threshold of sparsemax is exact
    sums = tl.where(alive, sums, 1.0)
    mixed = tl.where(bad[:, None] > 0, float("nan"), mixed / sums[:, None])
    feature = tl.arange(0, VALUE_FEATURES)
    there = (query_at < n_queries)[:, None] & (feature < VALUE_SIZE)[None, :]
    place = (item * n_queries + query_at)[:, None] * VALUE_SIZE + feature[None, :]
    tl.store(output + place, mixed.to(output.dtype.element_ty), mask=there)
    row = item * n_queries + query_at
    tl.store(level + row, tl.where(bad > 0, float("nan"), top), mask=query_at < n_queries)
    tl.store(threshold + row, c, mask=query_at < n_queries)
    tl.store(share + row, sums, mask=query_at < n_queries)
    tl.store(counts + program, n_active)


def forward(query: Tensor, key: Tensor, value: Tensor, alpha: float, rows: Rows) -> AttentionState:
    """Computes sparse attention of an order above 1 and up to 2, for contiguous inputs in float32 or a half type."""
    batch, heads, n_queries, size = query.shape
    n_keys, value_size = value.shape[-2:]
    queries, keys = tile_sizes(size, value_size)
    n_query_blocks, n_key_blocks = triton.cdiv(n_queries, queries), triton.cdiv(n_keys, keys)
    level, threshold, share = torch.empty(3, batch, heads, n_queries, dtype=torch.float32, device=query.device)
    blocks = torch.empty(batch, heads, n_query_blocks, n_key_blocks, dtype=torch.int32, device=query.device)
    state = AttentionState(
        query.new_empty(batch, heads, n_queries, value_size),
        level,
        threshold,
        share,
        blocks,
        torch.empty(batch, heads, n_query_blocks, dtype=torch.int32, device=query.device),
        torch.zeros_like(blocks, dtype=torch.int8),
    )
    with torch.cuda.device_of(query):
        attend[(batch * heads, n_query_blocks)](
            query, key, value, state.output, state.level, state.threshold, state.share, blocks,
            torch.empty_like(blocks), state.counts, state.active,
            heads, key.shape[1], n_queries, n_keys, n_key_blocks,
            e=float(alpha) - 1.0, ORDER=order_of(float(alpha)), STEPS=STEPS[torch.float32],
            SIZE=size, VALUE_SIZE=value_size, FEATURES=padded(size), VALUE_FEATURES=padded(value_size),
            QUERIES=queries, KEYS=keys, **arguments(rows, query), num_warps=WARPS, enable_fp_fusion=False,
        )  # fmt: skip
    return state
