"""The order of the positions of a sequence: those that are kept come first."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.structures.structure_kernel import has_native, launch


def kept_order(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Returns an order (batch, N), int32, and how many positions are kept (batch,), int64.

    The order lists the positions that are kept, then the others, both from left to right. `kept` (batch, N) is boolean
    and on the CPU.
    """
    if not has_native():
        return kept_order_reference(kept)
    kept = kept.contiguous()
    n_items, n_places = kept.shape
    order = torch.empty(kept.shape, dtype=torch.int32)
    lengths = torch.empty(n_items, dtype=torch.int64)
    if kept.numel() == 0:
        return order, lengths.zero_()
    launch("kept_order", kept, n_places, order, lengths, itemsize=8, n_items=n_items, cost=n_places)
    return order, lengths


def kept_order_reference(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the same with PyTorch."""
    order = (~kept).to(torch.uint8).argsort(dim=-1, stable=True).to(torch.int32)
    return order, kept.sum(-1)
