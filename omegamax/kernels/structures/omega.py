"""The regularizers of compiled programs."""

from __future__ import annotations

import enum


class Omega(enum.IntEnum):
    """The Ω of a compiled sweep, numbered as in csrc. Each program has some of them."""

    HARD = 0
    SHANNON = 1
    SQUARED_NORM = 2
    TSALLIS15 = 3
