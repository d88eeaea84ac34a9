"""Padding is inert: what nobody reads may hold anything, NaN and infinities too.

A masked key has a weight and a gradient of zero, but zero times NaN is NaN: in the average, and in the gradient of
every projection that saw the key. So zeros take the place of padding before anything is computed from it. `allowed`
is a boolean mask (..., Q or 1, K) where True means "may attend"; None, where everything is allowed, copies nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import checks


def only_read(x: Tensor, allowed: Tensor | None, n_queries: int) -> Tensor:
    """Keys or values (..., K, features), with zeros in place of those that no query may attend to."""
    return x if allowed is None else torch.where(_read(x, allowed, n_queries), x, 0)


def only_asking(query: Tensor, allowed: Tensor | None, n_keys: int) -> Tensor:
    """Queries (..., Q, features), with zeros in place of those that may attend to nothing."""
    if allowed is None:
        return query
    return torch.where(allowed.expand(*allowed.shape[:-1], n_keys).any(-1, keepdim=True), query, 0)


def finite_unless_read(x: Tensor, allowed: Tensor | None) -> Tensor:
    """Vectors (..., N, features) that attend to themselves: where no query may attend to one, it has finite numbers.

    Such a vector is a query still, and its numbers count, but NaN and infinities in it become zeros.
    """
    if allowed is None:
        return x
    return torch.where(_read(x, allowed, x.shape[-2]), x, x.nan_to_num(0.0, 0.0, 0.0))


def within(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Vectors (*batch, ..., N, features), with zeros beyond the `lengths` (*batch)."""
    if lengths is None:
        return x
    lengths = checks.as_lengths(lengths)
    counts = lengths.to(x.device).reshape(lengths.shape + (1,) * (x.dim() - lengths.dim()))
    return torch.where(torch.arange(x.shape[-2], device=x.device).unsqueeze(-1) < counts, x, 0)


def _read(x: Tensor, allowed: Tensor, n_queries: int) -> Tensor:
    """Whether any query may attend to each of x, (..., N, 1)."""
    rows = allowed.shape[-2] if n_queries else 0
    return allowed.expand(*allowed.shape[:-2], rows, x.shape[-2]).any(-2).unsqueeze(-1)
