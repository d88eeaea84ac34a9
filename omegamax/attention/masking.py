"""Masks say which keys a query may attend to, and padding is kept out of the result.

A mask is boolean, broadcasts to scores (..., Q, K), and True means "may attend". `allowed` is such a mask; None means
that everything is allowed.

A masked key has a weight and a gradient of zero. But zero times NaN is NaN: in the average, and in the gradient of
every projection that saw the key. So zeros replace padding before anything is computed from it, and padding may hold
anything.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.attention.whole_sequence import check_whole_sequence


def allowed_pairs(
    who: str, query: Tensor, key: Tensor, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
) -> Tensor | None:
    """Combines all masks of queries (..., Q, dq) and keys (..., K, dk) into one; see `attention_mask`."""
    check_whole_sequence(who, query, key)
    if mask is None and lengths is None and not causal:
        return None
    shape = (*batch_shape(query, key), query.shape[-2], key.shape[-2])
    return attention_mask(who, query.new_zeros(()).expand(shape), mask=mask, lengths=lengths, causal=causal)


def visible_keys(
    who: str, query: Tensor, key: Tensor, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
) -> Visibility:
    """Combines all masks of queries (..., Q, dq) and keys (..., K, dk); see `visibility`."""
    check_whole_sequence(who, query, key)
    if mask is None and lengths is None:
        return Visibility(None, causal)
    shape = (*batch_shape(query, key), query.shape[-2], key.shape[-2])
    return visibility(who, query.new_zeros(()).expand(shape), mask=mask, lengths=lengths, causal=causal)


class Visibility(NamedTuple):
    """Which keys a query may attend to: a mask, and whether the future is left out too.

    The two are apart where the mask holds for all queries alike, so that nobody has to make a (Q, K) tensor.
    """

    allowed: Tensor | None  # broadcasts to (..., Q, K); None where everything is allowed
    causal: bool

    def mask(self, n_queries: int, n_keys: int, *, device: torch.device) -> Tensor | None:
        """Both in one mask that broadcasts to (..., Q, K)."""
        if not self.causal:
            return self.allowed
        past = causal_mask(n_queries, n_keys, device=device)
        return past if self.allowed is None else self.allowed & past


def visibility(
    who: str, scores: Tensor, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
) -> Visibility:
    """Combines all masks of scores (..., Q, K), but leaves `causal` apart where the others are the same for all Q."""
    allowed = attention_mask(who, scores, mask=mask, lengths=lengths)
    if allowed is None or allowed.shape[-2] == 1:  # then the last query sees every key that is allowed at all
        return Visibility(allowed, causal)
    return Visibility(Visibility(allowed, causal).mask(*scores.shape[-2:], device=scores.device), False)


def attention_mask(
    who: str,
    scores: Tensor,
    *,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    causal: bool = False,
) -> Tensor | None:
    """Combines all masks into one that broadcasts to scores (..., Q, K); returns None if everything is allowed."""
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


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Makes a mask (Q, K) in which the last query sees every key, and each query before it one key less."""
    query = torch.arange(n_keys - n_queries, n_keys, device=device).unsqueeze(-1)
    return torch.arange(n_keys, device=device) <= query


def batch_shape(query: Tensor, key: Tensor) -> torch.Size:
    """Broadcasts the batch axes of queries (..., Q, dq) and keys (..., K, dk)."""
    return torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])


def is_read(allowed: Tensor, n_queries: int, n_keys: int) -> Tensor:
    """Says for each key, (..., K, 1), whether any query may attend to it."""
    rows = allowed.shape[-2] if n_queries else 0
    return allowed.expand(*allowed.shape[:-2], rows, n_keys).any(-2).unsqueeze(-1)


def zero_unread(x: Tensor, allowed: Tensor | None, n_queries: int) -> Tensor:
    """Replaces keys or values (..., K, features) that no query may attend to by zeros."""
    return x if allowed is None else torch.where(is_read(allowed, n_queries, x.shape[-2]), x, 0)


def zero_idle(query: Tensor, allowed: Tensor | None, n_keys: int, *, causal: bool = False) -> Tensor:
    """Replaces queries (..., Q, features) that may attend to no key by zeros."""
    if causal and allowed is None:
        allowed = torch.ones((1, 1), dtype=torch.bool, device=query.device)
    if allowed is None:
        return query
    allowed = allowed.expand(*allowed.shape[:-1], n_keys)
    some = allowed.any(-1, keepdim=True)
    if causal and n_keys:  # a query sees something where the first key that is allowed is not in its future
        n_queries = query.shape[-2]
        last = torch.arange(n_keys - n_queries, n_keys, device=query.device).unsqueeze(-1)
        some = some & (allowed.to(torch.uint8).argmax(-1, keepdim=True) <= last)
    return torch.where(some, query, 0)


def finite_where_unread(x: Tensor, allowed: Tensor | None) -> Tensor:
    """Replaces NaN and infinities by zeros in vectors (..., N, features) of self-attention that no query may attend to.

    Such a vector is still a query, so its finite numbers count.
    """
    if allowed is None:
        return x
    return torch.where(is_read(allowed, x.shape[-2], x.shape[-2]), x, x.nan_to_num(0.0, 0.0, 0.0))


def zero_beyond(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Replaces vectors (*batch, ..., N, features) beyond the `lengths` (*batch) by zeros."""
    if lengths is None:
        return x
    lengths = checks.as_lengths(lengths)
    counts = lengths.to(x.device).reshape(lengths.shape + (1,) * (x.dim() - lengths.dim()))
    return torch.where(torch.arange(x.shape[-2], device=x.device).unsqueeze(-1) < counts, x, 0)


def average(weights: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
    """Computes weights (..., Q, K) · value; a value that no query may attend to is never read, whatever it holds."""
    return weights @ (value if allowed is None else zero_unread(value, allowed, weights.shape[-2]))


def values_or_keys(who: str, key: Tensor, value: Tensor | None) -> Tensor:
    """Returns the values (..., K, features), or the keys if there are none; checks that they can be averaged."""
    value = key if value is None else value
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"{who}: there must be one value per key, got {value.shape[-2]} values and {key.shape[-2]} keys; both have "
            "them on their last axis but one"
        )
    check_averageable(who, "value", value)
    return value


def check_averageable(who: str, name: str, tensor: Tensor) -> None:
    """Refuses integers: weights of their type would all be 0."""
    if not tensor.is_floating_point():
        raise TypeError(f"{who}: {name} must be floating point, got {tensor.dtype}; convert it with .float()")
