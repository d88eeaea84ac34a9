"""Parameters that are one number for all rows or one number per row, and the precision solvers work in."""

from __future__ import annotations

import torch
from torch import Tensor


def native_parameter(parameter: float | Tensor, rows: Tensor) -> tuple[Tensor | int, float]:
    """What a native kernel takes: (one number per row, 0.0), or (no address, the number)."""
    if type(parameter) is float or not isinstance(parameter, Tensor):  # the type of most is known at a glance
        return 0, float(parameter)
    if parameter.numel() == 1:
        return 0, parameter.item()
    per_row = parameter.to(rows.dtype).expand(*rows.shape[:-1], 1)
    return per_row.contiguous(), 0.0


def native_order(alpha: float | Tensor, rows: Tensor) -> tuple[Tensor | int, float]:
    """The same for an order, which native kernels take in double precision: near 1, α − 1 is what matters."""
    if type(alpha) is not float and isinstance(alpha, Tensor) and alpha.numel() != 1:
        return alpha.double().expand(*rows.shape[:-1], 1).contiguous(), 0.0
    return native_parameter(alpha, rows)


def as_tensor(parameter: float | Tensor, like: Tensor) -> Tensor:
    """The parameter in the dtype and on the device of `like`, so that it broadcasts against it."""
    return torch.as_tensor(parameter, dtype=like.dtype, device=like.device)


def widen(rows: Tensor) -> Tensor:
    """Rows in float64, where the device has it: which entries a solver pools should not depend on rounding."""
    return rows if rows.device.type == "mps" else rows.double()
