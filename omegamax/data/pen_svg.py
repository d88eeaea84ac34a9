"""Strokes of a pen, and pictures of them in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np

_UNIT = 24  # pixels of a letter x
_LINE = 2.2  # pixels


def strokes_of(points: np.ndarray) -> list[np.ndarray]:
    """Cuts points (T, 3): right, down, 1 if the pen is lifted, into strokes (n, 2) of places.

    >>> strokes_of(np.array([[1.0, 0, 0], [1, 1, 1], [2, 0, 1]]))
    [array([[1., 0.],
           [2., 1.]]), array([[4., 1.]])]
    """
    places = points[:, :2].cumsum(0)
    ends = np.flatnonzero(points[:-1, 2] > 0.5) + 1
    return [stroke for stroke in np.split(places, ends) if len(stroke)]


def strokes_to_svg(strokes: Sequence[np.ndarray], text: str) -> str:
    """Returns a picture as one line of SVG; a stroke of one point is a dot.

    Arguments:
        strokes: (n, 2) each, to the right and down, in heights of the letter x
        text: what the picture shows, for those who cannot see it
    """
    every = np.concatenate(strokes) if strokes else np.zeros((1, 2))
    corner = every.min(0) - 0.4
    wide, high = (every.max(0) + 0.4 - corner) * _UNIT
    paths = []
    for stroke in strokes:
        places = (stroke - corner) * _UNIT
        drawn = places if len(places) > 1 else np.repeat(places, 2, 0)  # a line of no length has round ends
        paths.append("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in drawn))
    name = escape(text, {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.1f} {high:.1f}" width="{wide:.0f}" '
        f'height="{high:.0f}" role="img" aria-label="{name}"><path d="{" ".join(paths)}" fill="none" '
        f'stroke="currentColor" stroke-width="{_LINE}" stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
