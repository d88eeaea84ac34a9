"""The precision that solvers work in."""

from __future__ import annotations

from torch import Tensor


def widen(rows: Tensor) -> Tensor:
    """Rows in float64, where the device has it: which entries a solver pools should not depend on rounding."""
    return rows if rows.device.type == "mps" else rows.double()
