"""Draws cells of weights in the convention of figure 1 of Niculae & Blondel (NIPS 2017).

Grey is exactly zero; neighbours in a row of exactly equal weight have no border between them. A weight that was rounded
to zero is white, with borders. Signs mark clusters, which are equal weights that need not touch, as in their figure 4:
the heaviest cluster of a row is ●, the next ○, then ■, □, ▲, △.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from torch import Tensor

from omegamax.plots.style import COLOURS, INK, WEIGHTS, hide_tick_marks

BORDER = "#5F6B75"
_MARKERS = "ooss^^"  # in turn full and hollow


def draw_cells(axes: Axes, weights: Tensor, rounded: Tensor, *, top: float, cell: tuple[float, float]) -> AxesImage:
    """Draws weights (Q, K) with a colour scale from 0 to `top`, in cells of this width and height in inches.

    `rounded` (Q, K) is true at zeros that are not exact.
    """
    matrix, small = weights.double().numpy(), rounded.numpy()
    n_rows, n_columns = matrix.shape
    extent = (-0.5, max(1, n_columns) - 0.5, max(1, n_rows) - 0.5, -0.5)  # a map without cells is one empty place
    shown = np.ma.masked_where((matrix == 0) & ~small, matrix) if matrix.size else np.ma.masked_all((1, 1))
    image = axes.imshow(
        shown, cmap=WEIGHTS, vmin=0, vmax=top, aspect=cell[1] / cell[0], interpolation="nearest", extent=extent
    )
    width = min(0.6, 3 * min(cell))  # thin where cells are small, so that they stay visible
    heavy = (matrix != 0) | small
    either = heavy[1:] | heavy[:-1]
    for gid, colour, weight, lines in (
        ("rows", "white", 2 * width, _between_rows(~either)),
        ("edges", BORDER, width, _between_rows(either)),
        ("borders", BORDER, width, _between_neighbours(matrix, small)),
    ):
        caps = "butt" if gid == "rows" else "projecting"  # so that corners close
        drawn = LineCollection(lines, colors=colour, linewidths=weight, gid=gid, zorder=2, capstyle=caps)
        axes.add_collection(drawn, autolim=False)
    for row, column in np.argwhere(np.isnan(matrix)):
        place = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(place, 1, 1, facecolor="white", edgecolor=COLOURS["fusedmax"], hatch="xxx", lw=0))
    (left, right, bottom, top_edge), spines = extent, axes.spines.values()
    frame = [(left, bottom), (right, bottom), (right, top_edge), (left, top_edge), (left, bottom)]
    axes.add_collection(LineCollection([frame], colors=BORDER, linewidths=width, gid="frame", clip_on=False))
    for spine in spines:
        spine.set_visible(False)
    hide_tick_marks(axes)
    return image


def _between_neighbours(matrix: np.ndarray, small: np.ndarray) -> list[list[tuple[float, float]]]:
    """Makes a border for each two neighbours in a row that differ; two weights that were rounded to zero differ."""
    differ = (matrix[:, 1:] != matrix[:, :-1]) | (small[:, 1:] & small[:, :-1])
    return [[(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)] for row, column in np.argwhere(differ).tolist()]


def _between_rows(where: np.ndarray) -> list[list[tuple[float, float]]]:
    """Makes lines under the cells (Q − 1, K) that are true."""
    return [[(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)] for row, column in np.argwhere(where).tolist()]


def draw_clusters(axes: Axes, clusters: Tensor, weights: Tensor, *, top: float, cell: float) -> None:
    """Draws a sign for each cluster of a row; it is light where the cell is dark."""
    numbers, shade = clusters, weights / top
    size = (72 * cell / 3.4) ** 2
    for number in sorted(set(numbers[numbers > 0].tolist())):
        place = min(number - 1, len(_MARKERS) - 1)
        for ink, where in ((INK, shade < 0.5), ("white", shade >= 0.5)):
            rows, columns = ((numbers == number) & where).nonzero(as_tuple=True)
            if len(rows):
                axes.scatter(
                    columns.tolist(),
                    rows.tolist(),
                    s=size,
                    marker=_MARKERS[place],
                    facecolors="none" if place % 2 else ink,
                    edgecolors=ink,
                    linewidths=min(0.7, 4 * cell),
                    gid=f"cluster {number}",
                    zorder=3,
                )


def draw_marks(axes: Axes, marked: Tensor, *, cell: float) -> None:
    """Draws an orange stroke at the bottom of each marked cell."""
    feet = [[(k - 0.5, q + 0.4), (k + 0.5, q + 0.4)] for q, k in marked.nonzero().tolist()]
    lines = LineCollection(feet, colors=COLOURS["fusedmax"], linewidths=min(1.6, 9 * cell), gid="marks", zorder=2.5)
    axes.add_collection(lines, autolim=False)
