"""Searches that the host does for tensors of another device: one way there and one way back for a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import routing


def to_host(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Copies tensors of one device to the host, without a gradient and all at once, so the host waits only once."""
    plain = tuple(tensor.detach() for tensor in tensors)
    if routing.on_host(*plain):
        return plain
    if len(plain) == 1:
        return (plain[0].cpu(),)
    together = torch.cat([tensor.reshape(-1) for tensor in plain]).cpu()
    parts = together.split([tensor.numel() for tensor in plain])
    return tuple(part.reshape(like.shape).to(like.dtype) for part, like in zip(parts, plain))


def to_device(result: Any, device: torch.device) -> Any:
    """Copies the tensors of a result, which may be a tuple of a named type, to the device. The host does not wait."""
    if isinstance(result, Tensor):
        return result.to(device, non_blocking=True)
    moved = [to_device(each, device) for each in result]
    return type(result)(*moved) if hasattr(result, "_fields") else tuple(moved)
