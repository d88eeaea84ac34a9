"""Who may attend to what: boolean, and True means "may attend"."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import checks


def attention_mask(
    who: str,
    scores: Tensor,
    *,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    causal: bool = False,
) -> Tensor | None:
    """All that is asked for in one mask that broadcasts to scores (..., Q, K); None where everything is allowed."""
    allowed = None
    if mask is not None:
        checks.check_mask(who, scores, mask)
        allowed = mask
    if lengths is not None:
        lengths = checks.check_lengths(who, tuple(scores.shape[:-2]), lengths)
        checks.check_counts(who, "lengths", lengths, scores.shape[-1], "count the keys of each item")
        shaped = lengths.to(scores.device).reshape(lengths.shape + (1,) * (scores.dim() - lengths.dim()))
        within = torch.arange(scores.shape[-1], device=scores.device) < shaped
        allowed = within if allowed is None else allowed & within
    if causal:
        past = causal_mask(scores.shape[-2], scores.shape[-1], device=scores.device)
        allowed = past if allowed is None else allowed & past
    if allowed is not None and allowed.dim() < 2:
        allowed = allowed.reshape((1,) * (2 - allowed.dim()) + tuple(allowed.shape))
    return allowed


def batch_of(query: Tensor, key: Tensor) -> torch.Size:
    """The batch axes that queries (..., Q, dq) and keys (..., K, dk) have together."""
    return torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])


def allowed_for(
    who: str, query: Tensor, key: Tensor, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
) -> Tensor | None:
    """`attention_mask` for scores that are not computed yet."""
    if mask is None and lengths is None and not causal:
        return None
    shape = (*batch_of(query, key), query.shape[-2], key.shape[-2])
    return attention_mask(who, query.new_zeros(()).expand(shape), mask=mask, lengths=lengths, causal=causal)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """(Q, K): the last query sees every key, each one before it one key less."""
    query = torch.arange(n_keys - n_queries, n_keys, device=device).unsqueeze(-1)
    return torch.arange(n_keys, device=device) <= query
