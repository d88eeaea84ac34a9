"""Attention weights as heat maps: rows are what is written, columns what is read; one map, or several side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from omegamax.plots import glyphs
from omegamax.plots.arrays import drawable, drawables
from omegamax.plots.cells import BORDER, draw_cells, draw_clusters, draw_marks
from omegamax.plots.style import look

Labels = Sequence[str] | Mapping[str, Sequence[str]]  # for all maps, or by the name of the map

_PAGE = 6.8  # inches that maps and labels may fill
_CELL = 0.21  # inches of a cell, if there is room
_LONGEST_TITLE = 100  # characters that such a page has room for


def attention_map(
    weights: Tensor,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    title: str = "",
    clusters: Tensor | None = None,
    marked: Tensor | None = None,
) -> Figure:
    """Weights (Q, K) as in figure 1 of Niculae & Blondel: grey is exactly zero, equal neighbours have no border.

    `rows` are the Q output tokens, `columns` the K input tokens, in any script. `clusters` (Q, K), whole numbers as
    `clusters_of` gives them, puts the same sign on cells of a row that belong together (their figure 4), and `marked`
    (Q, K), boolean, underlines cells. Weights that are not numbers are hatched.
    """
    weights = drawable(weights)
    check_map("attention_map", "weights", weights)
    figure = _drawn(
        "attention_map",
        {title: weights},
        {title: rows},
        {title: columns},
        {} if clusters is None else {title: drawable(clusters)},
        {} if marked is None else {title: drawable(marked)},
    )
    figure.axes[0].set_title(glyphs.name(title, max_characters=_LONGEST_TITLE), loc="left", pad=3)
    return figure


def attention_maps(
    weights: Mapping[str, Tensor],
    rows: Labels = (),
    columns: Labels = (),
    *,
    clusters: Mapping[str, Tensor] | None = None,
    marked: Tensor | None = None,
) -> Figure:
    """Several maps (Q, K) by name, side by side on one scale, each with its share of exact zeros.

    As `attention_map`. Labels are shared, or a mapping gives each map its own: models that read the same sentence may
    write different ones, of different lengths. `clusters` has numbers for the maps that it names.
    """
    if not weights:
        raise ValueError("attention_maps: weights must have at least one map, got none; give {name: matrix}")
    weights = drawables(weights)
    for name, matrix in weights.items():
        check_map("attention_maps", repr(name), matrix)
    marks = {} if marked is None else dict.fromkeys(weights, drawable(marked))
    rows_of = rows if isinstance(rows, Mapping) else dict.fromkeys(weights, rows)
    columns_of = columns if isinstance(columns, Mapping) else dict.fromkeys(weights, columns)
    figure = _drawn("attention_maps", weights, rows_of, columns_of, drawables(clusters or {}), marks)
    for axes, (name, matrix) in zip(figure.axes, weights.items()):
        share = f": {100 * float((matrix == 0).double().mean()):.0f}% zeros" if matrix.numel() else ""
        axes.set_title(glyphs.name(name, max_characters=_LONGEST_TITLE) + share, loc="left", pad=3)
    return figure


def check_map(who: str, name: str, weights: Tensor) -> None:
    """Weights of one item and one head."""
    if not isinstance(weights, Tensor) or weights.dim() != 2:
        came = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(
            f"{who}: {name} must be one matrix (queries, keys), got {came}; pick one item and one head, as in "
            "weights[0, 0]"
        )
    if weights.numel() and bool((weights < 0).any()):
        raise ValueError(
            f"{who}: {name} must be weights, none below zero, got {float(weights.min()):g}; normalize the scores first"
        )


class _Plan(NamedTuple):
    """How maps are laid out."""

    across: int  # maps next to each other
    cell: tuple[float, float]  # inches, wide and high
    size: tuple[float, float]  # of the figure
    type_size: tuple[float, float]  # of column and row labels
    upright: bool  # the columns' labels stand


def _drawn(
    who: str,
    weights: Mapping[str, Tensor],
    rows: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
    clusters: Mapping[str, Tensor],
    marked: Mapping[str, Tensor],
) -> Figure:
    said = {
        name: (
            glyphs.labels(who, "rows", rows.get(name, ()), matrix.shape[0]),
            glyphs.labels(who, "columns", columns.get(name, ()), matrix.shape[1]),
        )
        for name, matrix in weights.items()
    }
    for kind, given in (("clusters", clusters), ("marked", marked)):
        for name, matrix in given.items():
            if name not in weights or matrix.shape != weights[name].shape:
                expected = tuple(weights[name].shape) if name in weights else f"named as one of {list(weights)}"
                raise ValueError(f"{who}: {kind} must be {expected}, got {name!r} {tuple(matrix.shape)}; match the map")
    plan = _plan(weights, said)
    tallest = max((float(m.nan_to_num(0, 0, 0).max()) for m in weights.values() if m.numel()), default=0.0)
    top = tallest if tallest > 0 else 1.0
    with look([*weights, *(label for pair in said.values() for side in pair for label in side)]):
        figure = Figure(figsize=plan.size, layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02))
        grid = figure.subplots(math.ceil(len(weights) / plan.across), plan.across, squeeze=False).ravel()
        shared = len({tuple(map(tuple, pair)) for pair in said.values()}) == 1
        for place, (axes, (name, matrix)) in enumerate(zip(grid, weights.items())):
            image = draw_cells(axes, matrix, top=top, cell=min(plan.cell))
            if name in clusters:
                draw_clusters(axes, clusters[name], matrix, top=top, cell=min(plan.cell))
            if name in marked:
                draw_marks(axes, marked[name], cell=min(plan.cell))
            below = place + plan.across >= len(weights)  # nothing under this one
            _label(axes, said[name], plan, left=not shared or place % plan.across == 0, below=not shared or below)
        for axes in grid[len(weights) :]:
            axes.remove()
        _scale(figure, image, plan)
    return figure


def _plan(weights: Mapping[str, Tensor], said: Mapping[str, tuple[list[str], list[str]]]) -> _Plan:
    n_rows = max(1, max(matrix.shape[0] for matrix in weights.values()))
    n_columns = max(1, max(matrix.shape[1] for matrix in weights.values()))
    beside = max([0.0, *(glyphs.width(label, 8.5) for pair in said.values() for label in pair[0])])
    own = len({tuple(pair[0]) for pair in said.values()}) > 1  # then every map has its labels
    titled = max(glyphs.width(f"{name}: 100% zeros" if name else "", 10) for name in weights) / n_columns
    least = 0.085 if any(columns for _, columns in said.values()) else 0.06  # labels must be legible

    def cell_of(across: int) -> float:
        return (_PAGE - 0.7 - beside * (across if own else 1) - 0.15 * across) / across / n_columns

    fit = (across for across in range(min(4, len(weights)), 1, -1) if cell_of(across) >= max(least, min(titled, _CELL)))
    across = math.ceil(len(weights) / math.ceil(len(weights) / next(fit, 1)))  # two and two, not three and one
    wide = cell_of(across)
    wide = min(max(_CELL, titled), max(wide, 1.0 / n_columns))  # one inch at least, however long the labels are
    high = min(_CELL, max(8.0 / n_rows, wide / 2)) if n_rows * _CELL > 8 else min(_CELL, max(wide, 0.13))
    type_size = (min(8.5, max(4.5, 66 * wide)), min(8.5, max(4.5, 66 * high)))
    under = [label for pair in said.values() for label in pair[1]]
    longest = max((glyphs.width(label, type_size[0]) for label in under), default=0.0)
    upright = longest > 1.05 * wide
    foot = 0.08 + (longest if upright else type_size[0] / 72 if under else 0.0)
    lines = math.ceil(len(weights) / across)
    feet = foot * (lines if own else 1)
    size = (
        0.75 + max(1.1, beside * (across if own else 1) + (wide * n_columns + 0.12) * across),
        0.1 + feet + (high * n_rows + 0.26) * lines,
    )
    return _Plan(across, (wide, high), size, type_size, upright)


def _label(axes: Axes, said: tuple[list[str], list[str]], plan: _Plan, *, left: bool, below: bool) -> None:
    rows, columns = said[0] if left else [], said[1] if below else []
    every = max(1, math.ceil(plan.type_size[1] / 72 / plan.cell[1] - 0.2))
    axes.set_yticks(range(0, len(rows), every), rows[::every], fontsize=plan.type_size[1])
    every = max(1, math.ceil(plan.type_size[0] / 72 / plan.cell[0] - 0.2))
    axes.set_xticks(range(0, len(columns), every), columns[::every], fontsize=plan.type_size[0])
    long = [glyphs.width(label, plan.type_size[0]) > 1.05 * plan.cell[0] for label in columns[::every]]
    few = sum(long) <= max(2, len(long) // 10)  # letters with a word or two among them: only the words are turned
    for label, turned in zip(axes.get_xticklabels(), long):
        label.set_rotation(90 if turned or (plan.upright and not few) else 0)
    axes.tick_params(pad=2)


def _scale(figure: Figure, image: AxesImage, plan: _Plan) -> None:
    """One bar for all maps."""
    shown = [axes for axes in figure.axes if axes.get_visible()]
    high = plan.size[1] > 1.3
    length = plan.size[1] - (0.5 if high else 0.2)
    bar = figure.colorbar(image, ax=shown, aspect=max(4, length / 0.1), pad=0.02, shrink=0.9 if high else 1.0)
    bar.outline.set(edgecolor=BORDER, linewidth=0.4)  # type: ignore[operator]  # its white end would not show
    bar.ax.tick_params(length=0, labelsize=7.5, pad=2)
    bar.ax.locator_params(nbins=5 if high else 2)
    if plan.size[1] > 1.9:
        bar.set_label("weight (grey: exactly 0)", fontsize=8)
