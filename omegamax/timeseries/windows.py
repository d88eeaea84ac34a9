"""Windows: how far a warping path may leave the diagonal.

None                 everywhere
a whole number       that many steps
a fraction, 0 to 1   of the longest series, rounded up: 0.1 is the 10 % of the UCR archive
SakoeChiba, Itakura  a band of `omegamax.structures`
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from omegamax.kernels.series_distances import BandKind, PlainBand
from omegamax.structures.bands import Band, Itakura, SakoeChiba

Window = int | float | Band | None


def band_of(who: str, window: Any, longest: int) -> Band | None:
    """Makes the band of a window, for series of at most `longest` times.

    Arguments:
        who: the name at the beginning of messages
        window: None, a number of steps, a fraction of the longest series, or a band
        longest: the length of the longest series

    >>> band_of("me", 0.1, 150)
    SakoeChiba(width=15)
    """
    if window is None or isinstance(window, Band):
        return window
    if isinstance(window, bool) or not isinstance(window, numbers.Real):
        kind = type(window).__name__
        raise TypeError(f"{who}: window must be a number, a band or None, got {kind}; 0.1 is a tenth of the length")
    if isinstance(window, numbers.Integral):
        if window < 0:
            raise ValueError(f"{who}: window must be at least 0 steps, got {window}; None allows all")
        return SakoeChiba(int(window))
    if not 0 <= float(window) <= 1:
        raise ValueError(
            f"{who}: a window that is a fraction must be between 0 and 1, got {window}; a number of steps is an int"
        )
    return SakoeChiba(math.ceil(float(window) * longest - 1e-9))


def plain_band(who: str, band: Band | None) -> PlainBand:
    """Writes a band as the numbers that kernels take.

    Arguments:
        who: the name at the beginning of messages
        band: `SakoeChiba`, `Itakura` or None
    """
    if band is None:
        return PlainBand()
    if isinstance(band, SakoeChiba):
        return PlainBand(BandKind.SAKOE_CHIBA, float(band.width))
    if isinstance(band, Itakura):
        return PlainBand(BandKind.ITAKURA, float(band.slope))
    raise TypeError(
        f"{who}: window must be SakoeChiba or Itakura, got {type(band).__name__}; use soft_dtw of structures"
    )
