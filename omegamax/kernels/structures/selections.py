"""The best lo to hi of n entries: the largest, and as many as are above zero where the bounds leave a choice.

Ties go to the lowest index, and an entry of zero is taken only if lo requires it, as in the hypergraph of `Budget`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.structures.structure_kernel import launch, structure_kernel


@structure_kernel
def best_selection(scores: Tensor, lengths: Tensor, *, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    """Finds the value (batch,) and the choice (batch, N), 0/1, of scores (batch, N) by sorting.

    An item with fewer than lo allowed entries has the value −inf and no choice; one with NaN or +inf gives NaN.
    """
    lengths = lengths.to(scores.device)
    places = torch.arange(scores.shape[1], device=scores.device)
    within = places < lengths.unsqueeze(-1)
    scores = torch.where(within, scores, -torch.inf)
    is_nan = ~(scores < torch.inf).all(-1, keepdim=True)
    n_allowed = (scores > -torch.inf).sum(-1, keepdim=True)
    n_chosen = torch.where(n_allowed < lo, 0, (scores > 0).sum(-1, keepdim=True).clamp(lo, hi))
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    first = (places < n_chosen).to(scores.dtype)
    chosen = torch.zeros_like(scores).scatter(-1, order, first)
    total = torch.where(chosen > 0, scores, 0).double().sum(-1).to(scores.dtype)
    value = torch.where(n_allowed.squeeze(-1) < lo, -torch.inf, total)
    chosen = torch.where(is_nan & within, torch.nan, chosen)
    return torch.where(is_nan.squeeze(-1), torch.nan, value), chosen


@best_selection.twin
def _(scores: Tensor, lengths: Tensor, *, lo: int, hi: int) -> tuple[Tensor, Tensor]:
    scores, lengths = scores.contiguous(), lengths.contiguous()
    n_items, n = scores.shape
    value, chosen = scores.new_empty(n_items), torch.empty_like(scores)
    launch(
        "selection", scores, lengths, n, lo, hi, value, chosen, itemsize=scores.element_size(), n_items=n_items, cost=n
    )
    return value, chosen
