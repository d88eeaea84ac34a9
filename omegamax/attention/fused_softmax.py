"""Softmax attention by PyTorch's fused `F.scaled_dot_product_attention`, where it gives what dense scores would.

    output = softmax(scale · query keyᵀ / γ) value

It makes no (Q, K) tensor of weights. PyTorch's own rules differ from ours in a few cases: a NaN in a masked key spreads
to other rows, a query that may attend to nothing may become NaN, a causal mask counts from the first key, and dropout
has another stream of random numbers. Those cases take dense scores.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import routing
from omegamax.attention.masking import causal_mask
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon

_DTYPES = (torch.float32, torch.float64, torch.bfloat16)
_PLAIN = (routing.Context.NATIVE, routing.Context.PLAIN, routing.Context.AUTOGRAD)


def fused_softmax(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: object,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor | None:
    """Computes the output (batch, heads, Q, features), or returns None where dense scores are needed.

    Arguments:
        query: (batch, heads, Q, size), or (batch, Q, size)
        key: (batch, heads, K, size), or (batch, K, size)
        value: (batch, heads, K, features), or (batch, K, features)
        normalizer: anything; None is returned unless it is `Shannon`, also inside `Scaled` with numbers
        mask: boolean, broadcasts to (batch, heads, Q, K), or to (batch, Q, K); True means "may attend"
        causal: whether query i sees only keys up to i, counted from the end where there are fewer queries than keys
        scale: what products are multiplied by; None is 1/√size
    """
    gamma = _temperature(normalizer)
    tensors = [x for x in (query, key, value, mask) if x is not None]
    if gamma is None or routing.context(*tensors) not in _PLAIN or 0 in (*query.shape, *key.shape, *value.shape):
        return None
    if query.dtype not in _DTYPES or not query.dtype is key.dtype is value.dtype:
        return None
    if not 3 <= query.dim() <= 4 or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        return None  # PyTorch's kernel takes four axes
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    if causal and (n_queries > n_keys or not _all_finite(key, value)):
        return None
    if mask is not None:
        if not _all_finite(key, value) or not bool(mask.expand(*mask.shape[:-1], n_keys).any(-1).all()):
            return None
        if causal:
            mask = mask & causal_mask(n_queries, n_keys, device=query.device)
            if not bool(mask.any(-1).all()):
                return None
    elif causal and 1 < n_queries < n_keys:
        mask = causal_mask(n_queries, n_keys, device=query.device)
    scale = (1 / math.sqrt(query.shape[-1]) if scale is None else scale) / gamma
    if query.dim() == 3:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
        return _attend(query, key, value, mask, causal, scale).squeeze(1)
    return _attend(query, key, value, mask, causal, scale)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    hides = causal and mask is None and query.shape[-2] > 1  # a mask holds the future already
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=hides, scale=scale
    )


def is_softmax(normalizer: object) -> bool:
    """Says whether this is softmax, also with a temperature that is a number."""
    return _temperature(normalizer) is not None


def _temperature(normalizer: object) -> float | None:
    """Returns γ of softmax; None if the normalizer is something else, or has a tensor for γ."""
    gamma = 1.0
    while type(normalizer) is Scaled:
        if isinstance(normalizer.gamma, Tensor):
            return None
        gamma, normalizer = gamma * normalizer.gamma, normalizer.inner
    return gamma if type(normalizer) is Shannon else None


def _all_finite(*tensors: Tensor) -> bool:
    return all(bool(x.isfinite().all()) for x in tensors)
