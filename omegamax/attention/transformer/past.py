"""Computes a step of causal self-attention over a long past, with a `KeyCache` in place of concatenated keys."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax import routing
from omegamax.attention.key_cache import KeyCache
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.multihead import MultiheadAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.sparse_attention_function import NATIVE_OPERATORS
from omegamax.kernels.sparse_attention import can_run
from omegamax.modules import ArgmaxModule
from omegamax.operators.scaled import Scaled

FEWEST_KEYS = 256  # from which on a cache in 8 bits is faster than dense scores


class PastStep(NamedTuple):
    """The output of a step, and the keys and values of all positions so far."""

    output: Tensor  # (batch, N, embed_dim)
    past: KeyCache


def step_over_past(
    attention: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: KeyCache | tuple[Tensor, Tensor],
) -> PastStep | None:
    """Attends from N new positions to themselves and to the past; returns None where the caller takes dense scores.

    New queries, keys and values and the past are (batch, length, features of all heads), the past also a `KeyCache`,
    which stays as it is. There is no gradient: where one is recorded, and where the normalizer is not sparse, the
    answer is None.
    """
    if not _pays(attention, query, key, value, past):
        return None
    if isinstance(past, KeyCache):
        grown = past.clone()
    else:
        grown = KeyCache(capacity=2 * past[0].shape[1])
        grown.append(*(_by_head(x, attention.num_heads) for x in past))
    grown.append(_by_head(key, attention.num_heads), _by_head(value, attention.num_heads))
    heads = grown.attend(_by_head(query, attention.num_heads), attention.normalizer)
    return PastStep(attention.out_proj(heads.transpose(1, 2).flatten(-2)), grown)


def past_tensors(past: KeyCache) -> tuple[Tensor, Tensor]:
    """Returns the keys and values of a cache, (batch, length, features of all heads) each."""
    return past.key.transpose(1, 2).flatten(-2), past.value.transpose(1, 2).flatten(-2)


def _pays(
    attention: MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, past: KeyCache | tuple[Tensor, Tensor]
) -> bool:
    before = past.key if isinstance(past, KeyCache) else past[0]
    if before.shape[-2] < FEWEST_KEYS or not is_sparse(attention.normalizer, query):
        return False
    if attention.bias_k is not None or attention.add_zero_attn or (attention.training and attention.dropout > 0):
        return False
    tensors = [query, key, value, *(() if isinstance(past, KeyCache) else past)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    return all(x.dtype is before.dtype for x in tensors) and can_run(tensors)


def is_sparse(normalizer: Normalizer, like: Tensor) -> bool:
    """Says whether a `KeyCache` serves the normalizer of scores that are like a tensor."""
    if isinstance(normalizer, nn.Module) and any(routing.has_hooks(part) for part in normalizer.modules()):
        return False  # somebody watches its weights
    if isinstance(normalizer, LengthScaled):
        normalizer = normalizer.normalizer
    smooth: Any = normalizer.regularizer(like) if isinstance(normalizer, ArgmaxModule) else normalizer
    while type(smooth) is Scaled:
        smooth = smooth.inner
    return type(smooth) in NATIVE_OPERATORS


def _by_head(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)
