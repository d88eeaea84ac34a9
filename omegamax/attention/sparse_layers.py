"""Decides, in one place, when layers compute their output without dense scores.

A layer asks here whenever nobody wants its weights. Sparse normalizers take sparse attention, softmax takes PyTorch's
fused attention. Where the answer is None, the layer takes dense scores.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.attention.fused_softmax import fused_softmax, is_softmax
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.sparse_attention import sparse_output_or_none
from omegamax.attention.top_k import TopK
from omegamax.modules import Softmax
from omegamax.operators.shannon import Shannon

# Time of the sparse way over that of dense scores: forward + backward / forward alone, processor time, one thread,
# AVX-512, a busy machine; 16 heads of 64 features, random scores, as many queries as keys.
#
#   keys           16        32        64       128       256       512
#   sparsemax   1.8/5.8   1.6/4.2   1.1/2.7   0.6/1.7   0.4/0.8   0.2/0.5
#   entmax15    1.9/6.0   1.8/4.5   1.3/2.9   0.8/1.8   0.4/1.3   0.3/0.4
#   oscarmax    1.6/4.1   1.4/2.9   1.1/2.2   0.7/1.6   0.5/1.2   0.3/0.7
#   fusedmax    2.2/6.5   2.5/6.4   2.1/5.3   1.3/3.7   0.9/1.8   0.5/0.6
#   top-8       1.3/0.8   0.6/0.5   0.4/0.4   0.2/0.2   0.1/0.1   0.1/0.1
#
#   queries of 1024 keys     1         4        16        48       128
#   sparsemax             1.7/8.8   0.9/4.2   0.6/1.9   0.4/0.9   0.2/0.6
#   entmax15              1.5/9.0   0.8/4.4   0.6/1.7   0.5/1.0   0.4/0.7
#   top-8                 0.7/1.3   0.4/0.4   0.2/0.2   0.1/0.1   0.1/0.1
_FEWEST_KEYS, _FEWEST_QUERIES = 256, 32
_FEWEST_KEYS_FOR_TOP_K, _FEWEST_QUERIES_FOR_TOP_K = 32, 4  # dense scores have to be sorted


def may_be_sparse(normalizer: Normalizer, n_queries: int, n_keys: int) -> bool:
    """Says whether sparse attention can pay for this normalizer and so many queries and keys."""
    if isinstance(normalizer, (Shannon, Softmax)) or normalizer.event_ndim != 1:
        return False
    if isinstance(normalizer, nn.Module) and any(map(routing.has_hooks, normalizer.modules())):
        return False  # somebody watches its weights
    if isinstance(normalizer, TopK):
        return n_keys >= _FEWEST_KEYS_FOR_TOP_K and n_queries >= _FEWEST_QUERIES_FOR_TOP_K
    return n_keys >= _FEWEST_KEYS and n_queries >= _FEWEST_QUERIES


def sparse_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor | None:
    """Computes `sparse_attention` or fused softmax; returns None where neither exists or pays.

    Under autocast the inputs take its type first, as those of PyTorch's own attention do.
    """
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    fuses = is_softmax(normalizer) and n_keys >= _FEWEST_KEYS and n_queries >= _FEWEST_QUERIES
    if not fuses and not may_be_sparse(normalizer, n_queries, n_keys):
        return None
    if routing.autocasts(query):
        query, key, value = (_autocast(x) for x in (query, key, value))
    if not query.dtype is key.dtype is value.dtype or not query.device == key.device == value.device:
        return None  # dense products say what is wrong
    if bias is not None and not bias.requires_grad and checks.is_readable(bias) and not bool(bias.any()):
        bias = None  # PyTorch's layers write masks as numbers to add
    if fuses:
        plain = bias is None and dropout == 0
        return fused_softmax(query, key, value, normalizer, mask=mask, causal=causal, scale=scale) if plain else None
    return sparse_output_or_none(
        query, key, value, normalizer, mask=mask, causal=causal, bias=bias, scale=scale, dropout=dropout
    )


def _autocast(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.to(torch.get_autocast_dtype(x.device.type))
