"""Draws matchings and transport plans as heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensors
from omegamax.plots.attention import check_map
from omegamax.plots.style import INK, WEIGHTS, figure_style, hide_tick_marks
from omegamax.plots.zeros import part_count, rounded_to_zero

_LARGEST_WITH_NUMBERS = 14  # rows or columns


def matching_maps(marginals: Mapping[str, Tensor], rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Figure:
    """Draws marginals (R, C) of matchings by title, side by side; grey is exactly zero (see `attention_map`).

    `Matching.map` gives one pair to a row, `Matching.sparsemap` a few, `Matching.sinkhorn` all. Small ones have their
    numbers written, but for 0 and 1. The title counts the pairs above zero.
    """
    marginals = to_cpu_tensors(marginals)
    shapes = {tuple(getattr(matrix, "shape", ())) for matrix in marginals.values()}
    for title, matrix in marginals.items():
        check_map("matching_maps", repr(title), matrix)
    if len(shapes) != 1 or 0 in (shape := next(iter(shapes))):
        raise ValueError(
            f"matching_maps: marginals must be matrices of one shape, got {sorted(shapes)}; give {{title: (R, C)}}"
        )
    n_rows, n_columns = shape
    left = typesetting.labels("matching_maps", "rows", rows, n_rows)
    below = typesetting.labels("matching_maps", "columns", columns, n_columns)
    cell = min(0.34, 2.6 / max(n_rows, n_columns))
    upright = max([0.0, *(typesetting.width(label, 8.5) for label in below)]) > cell
    with figure_style([*marginals, *left, *below]):
        beside = max([0.1, *(typesetting.width(label, 8.5) for label in left)])
        foot = max([0.1, *(typesetting.width(label, 8.5) if upright else 0.15 for label in below)])
        wide = max(1.35, cell * n_columns)  # a title has room
        size = (0.2 + beside + (wide + 0.15) * len(marginals), 0.3 + foot + cell * n_rows)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, len(marginals), squeeze=False)[0]
        for place, (axes, (title, matrix)) in enumerate(zip(grid, marginals.items())):
            _draw(axes, matrix.double())
            axes.set_title(f"{typesetting.title(title)}: {part_count(matrix, 'pair')}", loc="left", pad=3)
            axes.set_yticks(range(len(left) if place == 0 else 0), left if place == 0 else [])
            axes.set_xticks(range(len(below)), below, rotation=90 if upright else 0)
    return figure


def _draw(axes: Axes, matrix: Tensor) -> None:
    n_rows, n_columns = matrix.shape
    top = max(1.0, float(matrix.nan_to_num(0, 0, 0).max()))
    shown = np.ma.masked_where(((matrix == 0) & ~rounded_to_zero(matrix)).numpy(), matrix.numpy())
    axes.imshow(shown, cmap=WEIGHTS, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    width = min(1.0, 8 / max(n_rows, n_columns))
    for row in range(1, n_rows):
        axes.axhline(row - 0.5, color="white", linewidth=width)
    for column in range(1, n_columns):
        axes.axvline(column - 0.5, color="white", linewidth=width)
    if max(n_rows, n_columns) <= _LARGEST_WITH_NUMBERS:
        for row, column in ((matrix > 0) & (matrix < 1)).nonzero().tolist():
            weight = float(matrix[row, column])
            ink = "white" if weight > 0.45 * top else INK
            said = f"{weight:.2f}".lstrip("0") if weight >= 0.005 else "<.01"
            axes.text(column, row, said, ha="center", va="center", color=ink, fontsize=6.5 if weight >= 0.005 else 5.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    hide_tick_marks(axes)
