"""Letters as a pen draws them: fonts of single strokes, from the package Hershey-Fonts.

A. V. Hershey, "Calligraphy for computers", 1967. The package (MIT licence) holds the fonts themselves and needs no
other package. It comes with the extra `handwriting`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from omegamax.extras import how_to_install

# The two fonts whose letters have single strokes: the name in the package, and the height of its letter x.
_FACES = {"plain": ("futural", 14), "joined": ("scripts", 10)}
PEN_FONTS = tuple(_FACES)
PRINTABLE = "".join(map(chr, range(32, 127)))  # the characters that the fonts have
_BASELINE = 9  # of both fonts, whose y grows downwards
_DOT = 5  # units; a shorter stroke that is closed is a dot


class PenGlyph(NamedTuple):
    """A letter: its strokes in heights of the letter x, right of 0, with y downwards and 0 on the baseline."""

    strokes: tuple[np.ndarray, ...]  # (points, 2) each
    width: float


@cache
def load_pen_font(name: str) -> dict[str, PenGlyph]:
    """Reads the letters of a font.

    Arguments:
        name: "plain", or "joined", in which the strokes of neighbours meet

    >>> len(load_pen_font("plain")["h"].strokes)
    2
    """
    if name not in _FACES:
        raise ValueError(f"load_pen_font: name must be one of {', '.join(PEN_FONTS)}, got {name!r}; choose one")
    try:
        from HersheyFonts import HersheyFonts
    except ImportError:
        raise ImportError(
            f"handwriting needs fonts of single strokes, Hershey-Fonts; {how_to_install('handwriting')}"
        ) from None
    face, x_height = _FACES[name]
    glyphs = HersheyFonts(load_default_font=face).all_glyphs
    return {character: _glyph(glyphs[character], x_height) for character in PRINTABLE}


def _glyph(glyph: object, x_height: int) -> PenGlyph:
    left, width = glyph.left_offset, glyph.char_width  # type: ignore[attr-defined]
    strokes: list[list[tuple[int, int]]] = []
    for stroke in map(list, glyph.strokes):  # type: ignore[attr-defined]
        if strokes and stroke[-1] == strokes[-1][-1] != stroke[0]:
            stroke = stroke[::-1]  # drawn the other way it continues the stroke before
        if strokes and stroke[0] == strokes[-1][-1]:
            strokes[-1] += stroke[1:]
        else:
            strokes.append(stroke)
    found = []
    for stroke in strokes:
        points = (np.array(stroke, float) - [left, _BASELINE]) / x_height
        around = np.hypot(*np.diff(points, axis=0).T).sum() * x_height
        closed = len(stroke) > 2 and stroke[0] == stroke[-1]
        found.append(points[:-1].mean(0, keepdims=True) if closed and around < _DOT * 1.5 else points)
    return PenGlyph(tuple(found), width / x_height)
