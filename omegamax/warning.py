"""Warnings of the library, and the one category of its own."""

from __future__ import annotations

import sys
import warnings


class SlowKernelsWarning(UserWarning):
    """The compiled kernels are missing, so everything runs many times slower. Given once, at the first such call."""


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warns at the user's line: the nearest outside of omegamax and PyTorch."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("omegamax", "torch"):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, kind, stacklevel=depth)
