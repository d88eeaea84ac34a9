"""What attention that remembers where it looked returns, and the masks of all its queries."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.attention.masks import attention_mask


class Located(NamedTuple):
    """What location-based attention returns: hand `state` to the next call, which goes on from there."""

    output: Tensor  # (..., Q, features)
    weights: Tensor  # (..., Q, K)
    state: Tensor  # after the last query; what it is the layer says


def batch_of(query: Tensor, key: Tensor) -> torch.Size:
    """The batch axes that queries (..., Q, dq) and keys (..., K, dk) have together."""
    return torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])


def allowed_for(who: str, query: Tensor, key: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor | None:
    """What queries may attend to, (..., Q or 1, K or 1) with True = may attend; None where that is everything."""
    shape = (*batch_of(query, key), query.shape[-2], key.shape[-2])
    return attention_mask(who, query.new_zeros(()).expand(shape), mask=mask, lengths=lengths)
