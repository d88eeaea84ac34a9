"""Draws attention weights as heat maps: rows are output tokens, columns are input tokens; one map or several."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from omegamax.attention.sparse_attention_output import SparseAttentionOutput
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor, to_cpu_tensors
from omegamax.plots.cells import BORDER, draw_cells, draw_clusters, draw_marks
from omegamax.plots.sparse_weights import one_map
from omegamax.plots.style import figure_style
from omegamax.plots.zeros import ExactZeros, rounded_to_zero, share_of_zeros

Labels = Sequence[str] | Mapping[str, Sequence[str]]  # for all maps, or by the name of the map

_PAGE = (6.8, 9.2)  # inches that maps and labels may fill, across and down
_CELL = 0.21  # inches of a cell, if there is room
_SMALLEST_TYPE = 4.0  # points
_TITLE = 10.0  # points
_LONGEST_TITLE = 100  # characters, over several lines
_LINE = 2.4  # inches of a title before it is broken, where the map is narrower


def attention_map(
    weights: Tensor | SparseAttentionOutput,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    title: str = "",
    clusters: Tensor | None = None,
    marked: Tensor | None = None,
    exact_zeros: ExactZeros = None,
) -> Figure:
    """Draws weights (Q, K) as in figure 1 of Niculae & Blondel: grey is exactly zero, equal neighbours have no border.

    `rows` are the Q output tokens, `columns` the K input tokens, in any script. `clusters` (Q, K), whole numbers as
    `clusters_of` gives them, puts the same sign on cells of a row that belong together (their figure 4), and `marked`
    (Q, K), boolean, underlines cells. Weights that are not numbers are hatched. Sparse weights are drawn too: those of
    `sparse_attention_with_weights` for one head, or `.head(item, head)` of what it returned.

    A weight of softmax is never exactly zero, though a small one is stored as 0: such cells are white. `exact_zeros`
    says which zeros are exact: True (all), False (none, as for softmax), or a boolean matrix (Q, K), such as ~mask. By
    default the title decides if it is an operator's name, and otherwise the weights: if some are nearly too small for
    their type (below 1e-30 in float32), others were rounded to zero.
    """
    matrix = to_cpu_tensor(one_map("attention_map", weights))
    check_map("attention_map", "weights", matrix)
    return _draw_maps(
        "attention_map",
        {title: matrix},
        {title: typesetting.title(title, max_characters=_LONGEST_TITLE)},
        {title: rows},
        {title: columns},
        clusters={} if clusters is None else {title: to_cpu_tensor(clusters)},
        marked={} if marked is None else {title: to_cpu_tensor(marked)},
        rounded={title: _rounded("attention_map", matrix, exact_zeros, title)},
    )


def attention_maps(
    weights: Mapping[str, Tensor | SparseAttentionOutput],
    rows: Labels = (),
    columns: Labels = (),
    *,
    clusters: Mapping[str, Tensor] | None = None,
    marked: Tensor | None = None,
    exact_zeros: ExactZeros | Mapping[str, ExactZeros] = None,
    across: int | None = None,
) -> Figure:
    """Draws several maps (Q, K) by name, side by side on one scale, each with its share of exact zeros.

    Maps are drawn as by `attention_map`. Labels are shared, or a mapping gives each map its own: models that read the
    same sentence may write different ones, of different lengths. `clusters` has numbers for the maps that it names.
    `exact_zeros` is shared, or by name. `across` maps stand next to each other; by default as many as keep the cells
    legible and the figure within a page. For every head of every layer see `attention_overview`.
    """
    if not weights:
        raise ValueError("attention_maps: weights must have at least one map, got none; give {name: matrix}")
    if across is not None and (not isinstance(across, int) or across < 1):
        raise ValueError(f"attention_maps: across must be a whole number from 1 up, got {across!r}; leave it out")
    maps = to_cpu_tensors({name: one_map("attention_maps", each) for name, each in weights.items()})
    for name, matrix in maps.items():
        check_map("attention_maps", repr(name), matrix)
    exact = exact_zeros if isinstance(exact_zeros, Mapping) else dict.fromkeys(maps, exact_zeros)
    rounded = {name: _rounded("attention_maps", matrix, exact.get(name), name) for name, matrix in maps.items()}
    shares = {name: f": {share_of_zeros(each, rounded[name])}" if each.numel() else "" for name, each in maps.items()}
    return _draw_maps(
        "attention_maps",
        maps,
        {name: typesetting.title(name, max_characters=_LONGEST_TITLE) + share for name, share in shares.items()},
        rows if isinstance(rows, Mapping) else dict.fromkeys(maps, rows),
        columns if isinstance(columns, Mapping) else dict.fromkeys(maps, columns),
        clusters=to_cpu_tensors(clusters or {}),
        marked={} if marked is None else dict.fromkeys(maps, to_cpu_tensor(marked)),
        rounded=rounded,
        across=across,
    )


def _rounded(who: str, weights: Tensor, exact: ExactZeros, name: str) -> Tensor:
    exact = to_cpu_tensor(exact)
    if isinstance(exact, Tensor) and (exact.dtype != torch.bool or exact.shape not in ((), weights.shape)):
        raise ValueError(
            f"{who}: exact_zeros must be a boolean, or boolean and {tuple(weights.shape)}, got {exact.dtype} "
            f"{tuple(exact.shape)}; give ~mask"
        )
    return rounded_to_zero(weights, exact, name=name)


def check_map(who: str, name: str, weights: Tensor) -> None:
    """Raises unless the weights are those of one item and one head."""
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
    """The number of maps across, and the size of cells and type."""

    across: int  # maps next to each other
    cell: tuple[float, float]  # inches, wide and high
    size: tuple[float, float]  # of the figure
    type_size: tuple[float, float]  # of column and row labels
    upright: bool  # the columns' labels are vertical
    titles: tuple[str, ...]  # in lines
    narrow: bool  # titles are wider than their maps


class _MapText(NamedTuple):
    """The title and the labels of a map."""

    title: str
    rows: list[str]
    columns: list[str]


def _draw_maps(
    who: str,
    weights: Mapping[str, Tensor],
    titles: Mapping[str, str],
    rows: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
    *,
    clusters: Mapping[str, Tensor],
    marked: Mapping[str, Tensor],
    rounded: Mapping[str, Tensor],
    across: int | None = None,
) -> Figure:
    words = [
        _MapText(
            titles[name],
            typesetting.labels(who, "rows", rows.get(name, ()), matrix.shape[0]),
            typesetting.labels(who, "columns", columns.get(name, ()), matrix.shape[1]),
        )
        for name, matrix in weights.items()
    ]
    for kind, given in (("clusters", clusters), ("marked", marked)):
        for name, matrix in given.items():
            if name not in weights or matrix.shape != weights[name].shape:
                expected = tuple(weights[name].shape) if name in weights else f"named as one of {list(weights)}"
                raise ValueError(f"{who}: {kind} must be {expected}, got {name!r} {tuple(matrix.shape)}; match the map")
    room = (  # rows and columns of a frame that holds each of the maps, and is not empty
        max(1, *(matrix.shape[0] for matrix in weights.values())),
        max(1, *(matrix.shape[1] for matrix in weights.values())),
    )
    plan = _choose_plan(room, words) if across is None else _plan_of(min(across, len(words)), room, words)
    tallest = max((float(m.nan_to_num(0, 0, 0).max()) for m in weights.values() if m.numel()), default=0.0)
    top = tallest if tallest > 0 else 1.0
    with figure_style([*weights, *(label for each in words for label in (*each.rows, *each.columns))]):
        layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, compress=not plan.narrow)
        figure = Figure(figsize=plan.size, layout=layout)
        grid = figure.subplots(math.ceil(len(words) / plan.across), plan.across, squeeze=False).ravel()
        shared = not _differ(words)
        for place, (axes, (name, matrix)) in enumerate(zip(grid, weights.items())):
            image = draw_cells(axes, matrix, rounded[name], top=top, cell=plan.cell)
            axes.set(xlim=(-0.5, room[1] - 0.5), ylim=(room[0] - 0.5, -0.5))  # cells of one size in all maps
            axes.spines["bottom"].set_position(("data", max(1, matrix.shape[0]) - 0.5))  # labels touch the map
            axes.set_anchor("W" if plan.narrow else "C")  # leaves free space on the right, for the title
            if name in clusters:
                draw_clusters(axes, clusters[name], matrix, top=top, cell=min(plan.cell))
            if name in marked:
                draw_marks(axes, marked[name], cell=min(plan.cell))
            below = place + plan.across >= len(words)  # nothing under this one
            first = place % plan.across == 0
            _draw_labels(axes, words[place], plan, left=not shared or first, below=not shared or below)
            axes.set_title(plan.titles[place], loc="left", pad=3)
        for axes in grid[len(words) :]:
            axes.remove()
        grey = any(bool(((matrix == 0) & ~rounded[name]).any()) for name, matrix in weights.items())
        _draw_colour_bar(figure, image, plan, grey=grey)
    return figure


def _differ(words: Sequence[_MapText]) -> bool:
    """Says whether every map needs labels of its own."""
    return len({(tuple(each.rows), tuple(each.columns)) for each in words}) > 1


def _choose_plan(room: tuple[int, int], words: Sequence[_MapText]) -> _Plan:
    """Puts as many maps across as leave legible cells, four at most; if none does, it maximises the cells."""
    plans = {across: _plan_of(across, room, words) for across in range(min(8, len(words)), 0, -1)}
    legible = 0.085 if any(each.columns for each in words) else 0.06
    legible = max(legible, min(_CELL, max(typesetting.width(each.title, _TITLE) for each in words) / room[1]))

    def fits(plan: _Plan) -> bool:
        return plan.size[0] <= _PAGE[0] + 0.2 and plan.size[1] <= _PAGE[1]

    good = (plan for across, plan in plans.items() if across <= 4 and fits(plan) and plan.cell[0] >= legible)
    chosen = next(good, None) or max(plans.values(), key=lambda plan: (fits(plan), plan.cell[0]))
    return plans[math.ceil(len(words) / math.ceil(len(words) / chosen.across))]  # two and two, not three and one


def _plan_of(across: int, room: tuple[int, int], words: Sequence[_MapText]) -> _Plan:
    """Finds the largest square cells with which this many maps across fit a page."""
    n_rows, n_columns = room
    lines = math.ceil(len(words) / across)
    own = _differ(words)
    left = max([0.0, *(typesetting.width(label, 8.5) for each in words for label in each.rows)])
    beside = left * (across if own else 1)
    under = [label for each in words for label in each.columns]

    wide = min(_CELL, (_PAGE[0] - 0.7 - beside - 0.15 * across) / across / n_columns)
    wide = max(wide, min(_CELL, 1.0 / n_columns))  # one inch, however long the labels are
    size_of_columns = _type_size(wide)
    longest = max((typesetting.width(label, size_of_columns) for label in under), default=0.0)
    upright = longest > 1.05 * wide
    foot = 0.08 + (longest if upright else size_of_columns / 72 if under else 0.0)
    feet = foot * (lines if own else 1)
    slot = max(wide * n_columns, min(_LINE, max(typesetting.width(each.title, _TITLE) for each in words)))
    titles = tuple(_wrap_title(each.title, slot) for each in words)
    head = 0.1 + 0.16 * max(title.count("\n") + 1 for title in titles)

    wide = max(0.02, min(wide, (_PAGE[1] - 0.1 - feet - head * lines) / lines / n_rows))
    high = max(wide, min(0.1, 0.6 / n_rows))  # square, unless a long and low map would be a line
    size = (0.75 + max(1.1, beside + (slot + 0.12) * across), 0.1 + feet + (high * n_rows + head) * lines)
    narrow = slot > wide * n_columns
    return _Plan(across, (wide, high), size, (_type_size(wide), _type_size(high)), upright, titles, narrow)


def _type_size(cell: float) -> float:
    return min(8.5, max(_SMALLEST_TYPE, 66 * cell))


def _wrap_title(title: str, slot: float) -> str:
    """Breaks a title into lines of this many inches."""
    return textwrap.fill(title, max(8, int(slot / typesetting.width("n", _TITLE)) + 1))


def _draw_labels(axes: Axes, words: _MapText, plan: _Plan, *, left: bool, below: bool) -> None:
    rows, columns = words.rows if left else [], words.columns if below else []
    every = max(1, math.ceil(plan.type_size[1] / 72 / plan.cell[1] - 0.2))
    axes.set_yticks(range(0, len(rows), every), rows[::every], fontsize=plan.type_size[1])
    every = max(1, math.ceil(plan.type_size[0] / 72 / plan.cell[0] - 0.2))
    axes.set_xticks(range(0, len(columns), every), columns[::every], fontsize=plan.type_size[0])
    long = [typesetting.width(label, plan.type_size[0]) > 1.05 * plan.cell[0] for label in columns[::every]]
    few = sum(long) <= max(2, len(long) // 10)  # letters with a word or two among them: only the words are turned
    for label, turned in zip(axes.get_xticklabels(), long):
        label.set_rotation(90 if turned or (plan.upright and not few) else 0)
    axes.tick_params(pad=2)


def _draw_colour_bar(figure: Figure, image: AxesImage, plan: _Plan, *, grey: bool) -> None:
    """Draws one colour bar for all maps."""
    shown = [axes for axes in figure.axes if axes.get_visible()]
    high = plan.size[1] > 1.3
    length = plan.size[1] - (0.5 if high else 0.2)
    shape: dict[str, Any] = {"aspect": max(4, length / 0.1), "pad": 0.02, "shrink": 0.9 if high else 1.0}
    bar = figure.colorbar(image, ax=shown, panchor=False if plan.narrow else (1.0, 0.5), **shape)
    bar.outline.set(edgecolor=BORDER, linewidth=0.4)  # type: ignore[operator]  # its white end would not show
    bar.ax.tick_params(length=0, labelsize=7.5, pad=2)
    bar.ax.locator_params(nbins=5 if high else 2)
    if plan.size[1] > 1.9:
        bar.set_label("weight (grey: exactly 0)" if grey else "weight", fontsize=8)
