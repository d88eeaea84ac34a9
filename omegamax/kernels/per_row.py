"""Parameters that are one number for all rows or one number per row."""

from __future__ import annotations

import torch
from torch import Tensor


def native_parameter(parameter: float | Tensor, rows: Tensor) -> tuple[Tensor | int, float]:
    """What a native kernel takes: (one number per row, 0.0), or (no address, the number).

    Always in double precision, whatever the rows: of an order near 1, α − 1 is what matters.
    """
    if type(parameter) is float or not isinstance(parameter, Tensor):  # the type of most is known at a glance
        return 0, float(parameter)
    if parameter.numel() == 1:
        return 0, parameter.item()
    return parameter.double().expand(*rows.shape[:-1], 1).contiguous(), 0.0


def as_tensor(parameter: float | Tensor, like: Tensor) -> Tensor:
    """The parameter in the dtype and on the device of `like`, so that it broadcasts against it."""
    return torch.as_tensor(parameter, dtype=like.dtype, device=like.device)
