"""Draws one row of scores under many operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax import registry
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_float_tensor
from omegamax.plots.groups import segments
from omegamax.plots.style import INK, ZERO, colour, figure_style, hide_tick_marks
from omegamax.plots.zeros import rounded_to_zero
from omegamax.smoothmax import SmoothMax

_WIDTH = 6.4  # inches of a printed page that panels may fill


def row_comparison(
    scores: Tensor,
    labels: Sequence[str] | None = None,
    *,
    regularizers: Mapping[str, SmoothMax] | None = None,
) -> Figure:
    """Draws the scores of one row, and its weights under each operator, as small bar charts.

    A grey column marks a weight that is exactly zero; softmax has none. Neighbours of exactly equal weight
    share one bar, and a dotted line joins equal weights that do not touch. Panels share one scale, except that a row
    with a weight of 1 is drawn up to 1. `regularizers` maps titles to operators; by default it is `registry.lineup`,
    one of each.
    """
    scores = to_float_tensor(scores)
    if not isinstance(scores, Tensor) or scores.dim() != 1 or scores.numel() == 0:
        came = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"row_comparison: scores must be one row of numbers, got {came}; pick a row, as in scores[0]")
    names = (
        [str(i + 1) for i in range(scores.numel())]
        if labels is None
        else [typesetting.label(label) for label in labels]
    )
    if len(names) != scores.numel():
        raise ValueError(
            f"row_comparison: labels must name each of the {scores.numel()} scores, got {len(names)}; give one each"
        )
    charts = registry.lineup(scores.numel()) if regularizers is None else regularizers
    columns = min(3 if scores.numel() <= 16 else 2 if scores.numel() <= 26 else 1, len(charts) + 1)
    lines = math.ceil((len(charts) + 1) / columns)
    weights = {name: smooth.argmax(scores) for name, smooth in charts.items()}
    tallest = max((height for row in weights.values() if 0 < (height := float(row.max())) < 1), default=1.0)
    with figure_style([*names, *charts]):
        figure = Figure(figsize=(_WIDTH + 0.6, 0.45 + (1.25 if columns > 1 else 0.95) * lines), layout="constrained")
        grid = figure.subplots(lines, columns, sharex=True, squeeze=False).ravel()
        _draw_scores(grid[0], scores)
        for axes, (name, row) in zip(grid[1:], weights.items()):
            exact = False if charts[name].always_positive else None
            draw_bars(axes, row, colour(name), rounded_to_zero(row, exact, name=name))
            axes.set_title(typesetting.title(name), loc="left", pad=3)
            axes.set_ylim(0, 1.06 * (tallest if float(row.max()) < 1 else 1))
        for place in range(len(charts) + 1, len(grid)):  # an empty place: the panel above it carries the labels
            grid[place].set_visible(False)
            grid[place - columns].tick_params(labelbottom=True)
        slot = _WIDTH / columns / scores.numel()  # inches for one position
        every = math.ceil(0.12 / slot)  # a line of type is 0.12 inches high
        upright = 0.065 * max(map(len, names)) > slot * every
        for axes in grid:
            axes.set_xlim(-0.6, scores.numel() - 0.4)
            axes.set_xticks(range(0, scores.numel(), every), names[::every], rotation=90 if upright else 0)
            axes.locator_params(axis="y", nbins=4)
            hide_tick_marks(axes)
    return figure


def _draw_scores(axes: Axes, scores: Tensor) -> None:
    finite = torch.where(scores.isfinite(), scores, 0)
    axes.bar(range(scores.numel()), finite.tolist(), width=0.84, color="white", edgecolor=INK, linewidth=0.7)
    axes.axhline(0, color=INK, linewidth=0.6)
    reach = 1.1 * float(finite.abs().max()) or 1.0
    axes.set_ylim(-reach if float(finite.min()) < 0 else 0, reach)
    axes.set_title("scores", loc="left", pad=3)


def draw_bars(axes: Axes, weights: Tensor, fill: str, rounded: Tensor) -> None:
    """Draws weights (K,) as bars: grey columns are exact zeros, equal neighbours share a bar, dots join the others."""
    row = weights.tolist()
    for position, (weight, small) in enumerate(zip(row, rounded.tolist())):
        if weight == 0 and not small:
            axes.axvspan(position - 0.5, position + 0.5, color=ZERO, linewidth=0, zorder=0)
    for first, last in segments(weights):
        axes.bar((first + last) / 2, row[first], width=last - first + 0.84, color=fill, linewidth=0, zorder=2)
    for height in {weight for weight in row if weight > 0}:
        places = [position for position, weight in enumerate(row) if weight == height]
        if places[-1] - places[0] + 1 > len(places):  # equal, and not one block
            axes.hlines(height, places[0], places[-1], color=INK, linewidth=0.8, linestyles=":", zorder=3)
