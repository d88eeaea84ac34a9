"""The two masks of multi-head attention, read as the rest of the library has them: True means "may attend".

PyTorch's layer takes a mask of padding and one of pairs. Each is boolean, where True means "may NOT attend", or a
floating-point tensor that is added to the scores.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.attention.masking import Visibility


class Masks(NamedTuple):
    """What is added to scores and which of them count, each (batch or 1, heads or 1, queries or 1, keys) or None."""

    bias: Tensor | None  # added to scores
    allowed: Tensor | None  # True = may attend
    causal: bool = False  # whether the future is left out too; `allowed` is then the same for all queries

    def merged(self, query: Tensor, key: Tensor) -> Masks:
        """Returns masks without `causal`, for queries (..., Q, features) and keys (..., K, features)."""
        seen = Visibility(self.allowed, self.causal)
        return Masks(self.bias, seen.mask(query.shape[-2], key.shape[-2], device=query.device))


def check_masks(
    batch: int,
    n_heads: int,
    n_queries: int,
    n_keys: int,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
) -> None:
    """Raises unless the masks of `MultiheadAttention` fit: others would be padded or cut in silence."""
    for name, mask, shapes in (
        ("key_padding_mask", key_padding_mask, [(batch, n_keys)]),
        ("attn_mask", attn_mask, [(n_queries, n_keys), (batch * n_heads, n_queries, n_keys)]),
    ):
        if mask is None:
            continue
        if mask.dtype is not torch.bool and not mask.is_floating_point():
            raise TypeError(
                f"MultiheadAttention: {name} must be boolean (True: may not attend) or floating point (added to "
                f"scores), got {mask.dtype}; convert it with .bool()"
            )
        if tuple(mask.shape) not in shapes:
            raise ValueError(
                f"MultiheadAttention: {name} must have the shape {' or '.join(map(str, shapes))}, got "
                f"{tuple(mask.shape)}; there are {n_queries} queries and {n_keys} keys"
            )


def read_masks(batch: int, n_heads: int, key_padding_mask: Tensor | None, attn_mask: Tensor | None) -> Masks:
    """Combines both masks, and turns PyTorch's "True: may not attend" into "True: may attend".

    A floating-point mask is added to scores; -inf in it means "may not attend".
    """
    bias = allowed = None
    if key_padding_mask is not None:
        key_padding_mask = key_padding_mask[:, None, None]
    if attn_mask is not None and attn_mask.dim() == 3:  # (batch · heads, queries, keys)
        attn_mask = attn_mask.unflatten(0, (batch, n_heads))
    elif attn_mask is not None:
        attn_mask = attn_mask[None, None]
    for mask in (key_padding_mask, attn_mask):
        if mask is None:
            continue
        if mask.dtype is not torch.bool:
            added, mask = mask, mask == -torch.inf
            added = added.masked_fill(mask, 0)  # the gradient of a temperature would be zero times infinity
            bias = added if bias is None else bias + added
        allowed = ~mask if allowed is None else allowed & ~mask
    return Masks(bias, allowed)
