"""Draws one row of attention as bars, for each normalizer: figure 3 of Niculae & Blondel, NIPS 2017."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensors
from omegamax.plots.rows import draw_bars
from omegamax.plots.style import figure_style, hide_tick_marks, palette
from omegamax.plots.zeros import rounded_to_zero


def attention_bars(weights: Mapping[str, Tensor], columns: Sequence[str] = ()) -> Figure:
    """Draws the weights (K,) of one query under each name, one below the other on one scale, over the K input tokens.

    A grey column is a weight of exactly zero, which softmax never gives (see `attention_map`). Neighbours of exactly
    equal weight share one bar, and a dotted line joins equal weights that do not touch.
    """
    weights = to_cpu_tensors(weights)
    sizes = {row.numel() if isinstance(row, Tensor) and row.dim() == 1 else None for row in weights.values()}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        came = {name: tuple(getattr(row, "shape", ())) for name, row in weights.items()}
        raise ValueError(
            f"attention_bars: weights must be rows of one length, one for each name, got {came}; pick one query, as in "
            "weights[0]"
        )
    (n_columns,) = sizes
    assert n_columns is not None
    said = typesetting.labels("attention_bars", "columns", columns, n_columns)
    wide = min(6.4, max(1.8, 0.34 * n_columns))
    size = min(8.5, max(4.5, 66 * wide / n_columns))
    longest = max((typesetting.width(label, size) for label in said), default=0.12)
    upright = longest > 0.95 * wide / n_columns
    every = max(1, math.ceil(size / 72 / (wide / n_columns) - 0.2))
    tallest = max(float(row.nan_to_num(0, 0, 0).max()) for row in weights.values()) or 1.0
    with figure_style([*weights, *said]):
        height = 0.2 + 0.78 * len(weights) + (longest if upright else 0.15)
        figure = Figure(figsize=(0.7 + wide, height), layout="constrained")
        grid = figure.subplots(len(weights), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        lines = palette(weights)
        for axes, (name, row) in zip(grid, weights.items()):
            draw_bars(axes, row.double(), lines[name][0], rounded_to_zero(row, name=name))
            axes.set_title(typesetting.title(name), loc="left", pad=2)
            axes.set(xlim=(-0.6, n_columns - 0.4), ylim=(0, 1.05 * tallest))
            axes.locator_params(axis="y", nbins=3)
            hide_tick_marks(axes)
        turn = 90 if upright else 0
        grid[-1].set_xticks(range(0, len(said), every), said[::every], fontsize=size, rotation=turn)
    return figure
