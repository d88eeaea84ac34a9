"""Refuses to compute attention where PyTorch has sharded the sequence: a part of the keys gives a wrong result.

`torch.distributed.tensor.experimental.context_parallel` leaves a part of the sequence in each process, and replaces
`F.scaled_dot_product_attention` by a version that passes keys around and merges outputs by their log-sum-exp. That
merging is right for softmax alone, and no other attention is replaced: ours would see the keys of its own process only,
and the result would be wrong in silence.
"""

from __future__ import annotations

import sys
from typing import Any

from omegamax import routing


def check_whole_sequence(who: str, *inputs: Any) -> None:
    """Raises inside `context_parallel`, and where a tensor (..., length, features) is sharded along its length."""
    if routing.context_parallel_active():
        raise RuntimeError(
            f"{who}: the whole sequence must be in one process, got a part of it inside PyTorch's context_parallel, "
            "which merges by log-sum-exp and so is right for its own softmax alone; leave that context, and use "
            "om.attention.sharded_attention or om.attention.attention_over_heads, which are exact"
        )
    module = sys.modules.get("torch.distributed.tensor")
    if module is None:
        return
    for tensor in inputs:
        if isinstance(tensor, module.DTensor) and any(p.is_shard(tensor.dim() - 2) for p in tensor.placements):
            raise RuntimeError(
                f"{who}: the whole sequence must be in one process, got a DTensor that is sharded along the sequence, "
                f"{tensor.placements}; pass its local parts, tensor.to_local(), to om.attention.sharded_attention, or "
                "gather it with tensor.full_tensor()"
            )
