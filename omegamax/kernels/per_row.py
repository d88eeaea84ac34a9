"""Parameters that are one number for all rows or one number per row."""

from __future__ import annotations

import torch
from torch import Tensor


def native_parameter(parameter: float | Tensor, rows: Tensor) -> tuple[Tensor | int, float]:
    """Converts a parameter to what a native kernel takes: (one number per row, 0.0), or (no address, the number).

    It is in double precision for rows of any type: near order 1 the weights depend on α − 1, which needs the digits.
    """
    if type(parameter) is float or not isinstance(parameter, Tensor):  # the first test is quick, and true for most
        return 0, float(parameter)
    if parameter.numel() == 1:
        return 0, parameter.item()
    return parameter.double().expand(*rows.shape[:-1], 1).contiguous(), 0.0


def as_tensor(parameter: float | Tensor, like: Tensor) -> Tensor:
    """Converts the parameter to the dtype and the device of `like`, against which it broadcasts."""
    return torch.as_tensor(parameter, dtype=like.dtype, device=like.device)
