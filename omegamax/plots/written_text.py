"""Draws what a network wrote with a pen, and below it how much it looked at each letter of the text on the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.style import COLOURS, INK, WEIGHTS, figure_style, hide_tick_marks
from omegamax.plots.zeros import ExactZeros, rounded_to_zero

_WIDE = 6.8  # inches of a page
_ROW = 0.17  # inches of a letter
_UNIT = 0.42  # inches of a letter x, if there is room
_MARGIN = 0.5  # heights of the letter x
_CYCLE = [COLOURS[name] for name in ("softmax", "fusedmax", "sparsemax", "oscarmax")]


def written_text(
    points: Tensor, weights: Tensor, letters: Sequence[str], *, title: str = "", exact_zeros: ExactZeros = None
) -> Figure:
    """Draws strokes, each line in the colour of the letter that it looked at most, above the weights (T, letters).

    `points` (T, 3) are steps to the right and down, and 1 where the pen is lifted after the point. Time runs from left
    to right in the map, letters from top to bottom. `exact_zeros` is that of `attention_map`. Graves (2013), figure 12.
    """
    track, matrix = to_cpu_tensor(points), to_cpu_tensor(weights)
    check_map("written_text", "weights", matrix)
    if not isinstance(track, Tensor) or track.dim() != 2 or track.shape[1] != 3 or len(track) != len(matrix):
        came = tuple(track.shape) if isinstance(track, Tensor) else type(points).__name__
        raise ValueError(
            f"written_text: points must be ({len(matrix)}, 3), one for each row of the weights, got {came}; give the "
            "points and the weights of one text"
        )
    rows = typesetting.labels("written_text", "letters", letters, matrix.shape[1])
    places = track[:, :2].double().cumsum(0).numpy()
    corner, far = (places.min(0), places.max(0)) if len(places) else (np.zeros(2), np.ones(2))
    across, down = far - corner + 2 * _MARGIN
    unit = min(_UNIT, (_WIDE - 0.4) / across)
    wide = max(2.2, across * unit + 0.4)
    high, map_high = max(0.5, down * unit), _ROW * max(1, matrix.shape[1])
    looked = matrix.nan_to_num(0).argmax(1).tolist() if matrix.shape[1] else [0] * len(matrix)
    with figure_style([title, *rows]):
        figure = Figure(figsize=(wide, high + map_high + (0.75 if title else 0.5)), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[high, map_high])
        _draw_strokes(above, places, track[:, 2].numpy() > 0.5, looked)
        above.set_xlim(corner[0] - _MARGIN, far[0] + _MARGIN)
        above.set_ylim(far[1] + _MARGIN, corner[1] - _MARGIN)
        above.set_title(typesetting.title(title, max_characters=100), loc="left", pad=3)
        rounded = rounded_to_zero(matrix, to_cpu_tensor(exact_zeros), name=title).numpy()
        values = matrix.double().numpy()
        shown = np.ma.masked_where((values == 0) & ~rounded, values).T
        if shown.size:
            top = float(np.nanmax(values, initial=0.0)) or 1.0
            below.imshow(shown, cmap=WEIGHTS, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
        below.set_yticks(range(len(rows)), rows)
        for place, tick in enumerate(below.get_yticklabels()):
            tick.set_color(_CYCLE[place % len(_CYCLE)])
        below.set_xlabel("point of the pen", labelpad=1)
        hide_tick_marks(below)
    return figure


def _draw_strokes(axes: Axes, places: np.ndarray, lifted: np.ndarray, looked: Sequence[int]) -> None:
    """Draws a line from each point to the next unless the pen was lifted; a stroke of one point is a dot."""
    lines, colours = [], []
    for number in range(1, len(places)):
        if not lifted[number - 1]:
            lines.append(places[number - 1 : number + 1])
            colours.append(_CYCLE[looked[number] % len(_CYCLE)])
    drawn = LineCollection(lines, colors=colours, linewidths=1.6, capstyle="round", gid="strokes")
    axes.add_collection(drawn, autolim=False)
    alone = [n for n in range(len(places)) if lifted[n] and (n == 0 or lifted[n - 1])]
    dots = [_CYCLE[looked[number] % len(_CYCLE)] for number in alone]
    axes.scatter(places[alone, 0], places[alone, 1], s=4, c=dots or INK, linewidths=0, gid="dots")
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    hide_tick_marks(axes)
