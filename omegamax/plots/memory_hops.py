"""Draws what each hop of a memory network reads of a story: sentences from top to bottom, hops side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.cells import draw_cells
from omegamax.plots.style import COLOURS, INK, figure_style
from omegamax.plots.zeros import ExactZeros, rounded_to_zero

_CELL = (0.56, 0.22)  # inches of a cell, across and down
_SMALLEST_SHOWN = 0.005  # weights below are written as no number


def memory_hops(
    weights: Tensor,
    sentences: Sequence[str],
    *,
    facts: Collection[int] = (),
    title: str = "",
    exact_zeros: ExactZeros = None,
) -> Figure:
    """Draws weights (sentences, hops) of a story as cells with their numbers; grey is exactly zero.

    `facts` are the places of the sentences from which the answer follows: they are written in orange. `exact_zeros` is
    that of `attention_map`: False for a normalizer such as softmax, whose zeros were rounded.
    """
    matrix = to_cpu_tensor(weights)
    check_map("memory_hops", "weights", matrix)
    names = typesetting.labels("memory_hops", "sentences", sentences, matrix.shape[0])
    beside = max([0.3, *(typesetting.width(name, 8.5) for name in names)])
    n_rows, n_hops = matrix.shape
    rounded = rounded_to_zero(matrix, to_cpu_tensor(exact_zeros), name=title)
    with figure_style([title, *names]):
        wide = max(beside + 0.3 + _CELL[0] * max(1, n_hops), typesetting.width(title, 10))
        figure = Figure(figsize=(wide, _CELL[1] * max(1, n_rows) + (0.6 if title else 0.35)), layout="constrained")
        axes = figure.subplots()
        draw_cells(axes, matrix, rounded, top=1.0, cell=_CELL)
        axes.set_anchor("W")
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks(range(n_hops), [f"hop {hop + 1}" for hop in range(n_hops)])
        axes.xaxis.tick_top()
        axes.tick_params(top=False, labeltop=True)
        for place, label in enumerate(axes.get_yticklabels()):
            label.set_color(COLOURS["fusedmax"] if place in facts else INK)
        for row, column in (matrix >= _SMALLEST_SHOWN).nonzero().tolist():
            weight = float(matrix[row, column])
            colour = "white" if weight > 0.5 else INK
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=7, color=colour, zorder=3)
        if title:
            figure.suptitle(typesetting.title(title, max_characters=100), x=0.01, ha="left", fontsize=10)
    return figure
