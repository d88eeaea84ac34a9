"""Checks queries, keys, values and biases of attention over heads, and brings them into the shapes of kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.relative_bias import RelativeBias


def check_inputs(who: str, query: Any, key: Any, value: Any) -> None:
    """Raises unless query (..., heads, Q, size), key (..., kv heads, K, size) and value fit together."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        checks.check_floating(who, x, name=name)
        if x.dim() < 2:
            raise ValueError(
                f"{who}: {name} must have the shape (..., heads, length, features), got {tuple(x.shape)}; use "
                "unsqueeze(0) for a single vector"
            )
        if x.dtype is not query.dtype or x.device != query.device:
            raise TypeError(
                f"{who}: query, key and value must share their dtype and device, got {query.dtype} on {query.device} "
                f"and a {name} of {x.dtype} on {x.device}; convert them with .to(query)"
            )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{who}: query and key must have features of one size, got {query.shape[-1]} and {key.shape[-1]}; project "
            "one of them"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{who}: there must be one value per key, got {value.shape[-2]} values and {key.shape[-2]} keys; both have "
            "them on their last axis but one"
        )
    heads, kv_heads, value_heads = (x.shape[-3] if x.dim() > 2 else 1 for x in (query, key, value))
    if kv_heads != value_heads or kv_heads == 0 or heads % kv_heads:
        raise ValueError(
            f"{who}: keys and values must have the same number of heads, and the queries a multiple of it, got "
            f"{heads} heads of queries, {kv_heads} of keys and {value_heads} of values; repeat them with "
            "repeat_interleave(n, -3)"
        )
    try:
        torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    except RuntimeError:
        shapes = [tuple(x.shape[:-3]) for x in (query, key, value)]
        raise ValueError(
            f"{who}: the batch axes of query, key and value must broadcast, got {shapes}; they come before the heads"
        ) from None


def checked_bias(who: str, bias: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor | RelativeBias | None:
    """Returns the bias of scores (..., heads, Q, K) in their type; raises where it does not fit."""
    if bias is None:
        return None
    table = bias.table if isinstance(bias, RelativeBias) else bias
    checks.check_floating(who, table, name="bias")
    onto = (*shape[:-2], shape[-2] + shape[-1] - 1) if table is not bias else shape
    padded = (1,) * (len(onto) - table.dim()) + tuple(table.shape)
    fits = len(padded) == len(onto) and all(a in (1, b) for a, b in zip(padded, onto))
    if not fits or (table is not bias and table.shape[-1] != onto[-1]):
        raise ValueError(
            f"{who}: bias must broadcast to {tuple(onto)}, got {tuple(table.shape)}; a bias for each key has the "
            "shape (1, K)"
        )
    table = table.to(dtype)
    return RelativeBias(table) if isinstance(bias, RelativeBias) else table


def at_least_float32(x: Tensor) -> Tensor:
    """Converts half types to float32, and nothing else."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def with_heads(x: Tensor) -> Tensor:
    """Adds an axis for the heads where there is none."""
    return x if x.dim() > 2 else x.unsqueeze(0)


def with_one_batch(x: Tensor, lead: torch.Size) -> Tensor:
    """Broadcasts (..., heads, length, features) to the leading axes and joins those; contiguous, with four axes."""
    if x.dim() == 4 and x.shape[:1] == lead:
        return x.contiguous()
    return x.expand(*lead, *x.shape[-3:]).reshape(lead.numel(), *x.shape[-3:]).contiguous()


def in_four_axes(tensor: Tensor, lead: torch.Size) -> Tensor:
    """Reshapes a tensor that broadcasts to scores (*lead, heads, Q, K) to (batch or 1, heads or 1, Q or 1, K or 1)."""
    tensor = tensor.reshape((1,) * (len(lead) + 3 - tensor.dim()) + tuple(tensor.shape))
    if all(size == 1 for size in tensor.shape[:-3]):
        return tensor.reshape(1, *tensor.shape[-3:])
    return tensor.expand(*lead, *tensor.shape[-3:]).reshape(lead.numel(), *tensor.shape[-3:])
