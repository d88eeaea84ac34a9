"""The precision that solvers work in."""

from __future__ import annotations

from torch import Tensor


def widen(rows: Tensor) -> Tensor:
    """Converts rows to float64 if the device has it: which entries a solver pools should not depend on rounding."""
    return rows if rows.device.type == "mps" else rows.double()
