"""Counts the keys that each query may attend to, without a matrix of queries and keys where that is possible."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.attention.relative_bias import RelativeBias

_ROWS = 256  # of a block, where a matrix has to be looked at


def count_keys(
    shape: tuple[int, ...],
    *,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | RelativeBias | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Counts the keys of each row of scores; returns integers that broadcast to (..., Q, 1).

    Arguments:
        shape: of the scores, (..., Q, K)
        mask: boolean, broadcasts to the scores; True means "may attend"
        lengths: how many keys each item has, shaped as the leading axes
        causal: whether query i sees only keys up to i, counted from the end where there are fewer queries than keys
        bias: added to the scores; a key of −inf is not counted
        device: where the counts are made
    """
    n_queries, n_keys = shape[-2:]
    limit = torch.full((1, 1), n_keys, device=device)  # (..., Q or 1, 1): only keys before it may be seen
    if causal:
        ends = torch.arange(n_keys - n_queries, n_keys, device=device) + 1
        limit = ends.clamp(min=0).unsqueeze(-1)
    if lengths is not None:
        lengths = lengths.to(limit.device)
        limit = torch.minimum(limit, lengths.reshape(lengths.shape + (1,) * (len(shape) - lengths.dim())))
    return count_keys_before(limit, n_queries, n_keys, mask=mask, bias=bias)


def count_keys_before(
    limit: Tensor,
    n_queries: int,
    n_keys: int,
    *,
    mask: Tensor | None = None,
    bias: Tensor | RelativeBias | None = None,
) -> Tensor:
    """Counts the keys of each row before a limit; returns integers that broadcast to (..., Q, 1).

    Arguments:
        limit: how many keys, from the first, a query may see, (..., Q or 1, 1)
        n_queries: Q
        n_keys: K
        mask: boolean, broadcasts to the scores; True means "may attend"
        bias: added to the scores; a key of −inf is not counted
    """
    present = [] if mask is None else [mask]
    if isinstance(bias, Tensor) and bool((bias == -torch.inf).any()):
        present.append(bias != -torch.inf)
    by_distance = None
    if isinstance(bias, RelativeBias) and bool((bias.table == -torch.inf).any()):
        by_distance = bias.table != -torch.inf
    if by_distance is None and all(x.dim() < 2 or x.shape[-2] == 1 for x in present):
        return _before(limit, present, n_keys)
    return _by_blocks(limit, present, by_distance, n_queries, n_keys)


def _before(limit: Tensor, present: list[Tensor], n_keys: int) -> Tensor:
    """Counts present keys before the limit, where all queries share their keys."""
    if not present:
        return limit
    keys = present[0] if len(present) == 1 else present[0] & present[1]
    keys = keys.reshape((1,) * (2 - keys.dim()) + tuple(keys.shape))
    sums = torch.nn.functional.pad(keys.expand(*keys.shape[:-1], n_keys).long().cumsum(-1), (1, 0))  # (..., 1, K + 1)
    lead = torch.broadcast_shapes(sums.shape[:-2], limit.shape[:-2])
    ends = limit.expand(*lead, *limit.shape[-2:]).transpose(-1, -2)  # (..., 1, Q or 1)
    return sums.expand(*lead, *sums.shape[-2:]).gather(-1, ends).transpose(-1, -2)


def _by_blocks(limit: Tensor, present: list[Tensor], by_distance: Tensor | None, n_queries: int, n_keys: int) -> Tensor:
    """Counts the keys of a few queries at a time, so that no whole matrix is made."""
    key = torch.arange(n_keys, device=limit.device)
    counts = []
    for start in range(0, n_queries, _ROWS):
        rows = slice(start, min(start + _ROWS, n_queries))
        allowed = key < (limit[..., rows, :] if limit.shape[-2] > 1 else limit)
        for x in present:
            allowed = allowed & (x[..., rows, :] if x.dim() > 1 and x.shape[-2] > 1 else x)
        if by_distance is not None:
            query = torch.arange(rows.start, rows.stop, device=limit.device).unsqueeze(-1)
            allowed = allowed & by_distance[..., key - query + n_queries - 1]
        allowed = allowed.expand(*allowed.shape[:-2], rows.stop - rows.start, n_keys)
        counts.append(allowed.sum(-1, keepdim=True))
    return torch.cat(counts, -2) if counts else limit[..., :0, :]
