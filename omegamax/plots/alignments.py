"""Draws two time series, and how each Ω aligns them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.operators.hard import Hard
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensors, to_float_tensor
from omegamax.plots.style import INK, WEIGHTS, figure_style, hide_tick_marks
from omegamax.plots.zeros import ExactZeros, rounded_to_zero, share_of_zeros
from omegamax.smoothmax import SmoothMax
from omegamax.structures.soft_dtw import soft_dtw_alignment

_OMEGAS = {"hard: DTW": Hard(), "entropy: soft-DTW": Shannon(), "squared norm: sparse": SquaredNorm()}


def alignment_comparison(
    x: Tensor | None = None,
    y: Tensor | None = None,
    *,
    gamma: float = 1.0,
    regularizers: Mapping[str, SmoothMax] | None = None,
) -> Figure:
    """Draws the expected alignment of two series under each Ω, as in the tutorial; cells of exactly zero are grey.

    Under the entropy no cell is exactly zero, however small: those that are stored as 0 are white.

    `x` (M,) or (M, D) and `y` (N,) or (N, D) are series; without them two bumps are drawn, one later and longer.
    """
    x, y = (_bump(30, 0.35, 0.09) if x is None else x), (_bump(36, 0.6, 0.13) if y is None else y)
    first, second = _checked("alignment_comparison", "x", x), _checked("alignment_comparison", "y", y)
    first, second = first.double(), second.double()  # in which fewer small weights are rounded to zero
    charts = _OMEGAS if regularizers is None else regularizers
    return alignment_matrices(
        {title: soft_dtw_alignment(first, second, gamma, regularizer=omega) for title, omega in charts.items()},
        x,
        y,
        exact_zeros={title: False for title, omega in charts.items() if omega.always_positive},
    )


def alignment_matrices(
    weights: Mapping[str, Tensor], x: Tensor, y: Tensor, *, exact_zeros: Mapping[str, ExactZeros] | None = None
) -> Figure:
    """Draws alignments (M, N) by title, with the series x (M,) or (M, D) and y (N,) or (N, D) on the margins.

    They may come from DTW, soft-DTW, attention, or a gold alignment. Grey cells are exactly zero. Soft-DTW has no such
    cells, only weights that are too small to be stored; `exact_zeros` says so by title, as for `attention_map`. Without
    it, weights that are nearly too small for their type are taken as a sign that others were rounded to zero.
    """
    who, weights = "alignment_matrices", to_cpu_tensors(weights)
    first, second = _checked(who, "x", x), _checked(who, "y", y)
    shape = (len(first), len(second))
    for title, matrix in weights.items():
        if not isinstance(matrix, Tensor) or tuple(matrix.shape) != shape:
            came = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
            raise ValueError(f"{who}: {title!r} must align x with y, {shape}, got {came}; rows are times of x")
    if not weights:
        raise ValueError(f"{who}: weights must have at least one alignment, got none; give {{title: (M, N)}}")
    with figure_style(weights):
        high = 2.05 * min(1.6, max(0.6, shape[0] / shape[1]))
        figure = Figure(figsize=(0.9 + 2.05 * len(weights), 0.7 + high), layout="constrained")
        grid = figure.subplots(
            2, 1 + len(weights), width_ratios=[0.3] + [1] * len(weights), height_ratios=[0.6, high], squeeze=False
        )
        grid[0, 0].set_visible(False)
        _draw_series(grid[1, 0], first, upright=True)
        for column, (title, matrix) in enumerate(weights.items(), start=1):
            _draw_series(grid[0, column], second, upright=False)
            grid[0, column].set_title(typesetting.title(title), loc="left", pad=3)
            _draw_weights(grid[1, column], matrix, rounded_to_zero(matrix, (exact_zeros or {}).get(title), name=title))
    return figure


def _checked(who: str, name: str, series: Tensor) -> Tensor:
    """Returns a series as (time, D), without its gradient, and raises if it is none."""
    series = to_float_tensor(series)
    if not isinstance(series, Tensor) or series.dim() not in (1, 2) or series.numel() == 0:
        came = tuple(series.shape) if isinstance(series, Tensor) else type(series).__name__
        raise ValueError(
            f"{who}: {name} must be one series, (time,) or (time, D), got {came}; pick one, as in {name}[0]"
        )
    return series.reshape(len(series), -1)


def _draw_series(axes: Axes, series: Tensor, *, upright: bool) -> None:
    place = range(len(series))
    sign = {"marker": "o", "markersize": 2.5} if len(series) == 1 else {}
    for dimension, numbers in enumerate(series.mT.tolist()):
        line_style: dict[str, Any] = {"color": INK, "linewidth": 1, "alpha": max(0.3, 1 - 0.3 * dimension), **sign}
        if upright:
            axes.plot([-number for number in numbers], place, **line_style)
        else:
            axes.plot(place, numbers, **line_style)
    if upright:
        axes.set_ylim(len(series) - 0.5, -0.5)
    else:
        axes.set_xlim(-0.5, len(series) - 0.5)
    axes.axis("off")


def _draw_weights(axes: Axes, weights: Tensor, rounded: Tensor) -> None:
    positive = np.ma.masked_where(((weights == 0) & ~rounded).numpy(), weights.double().numpy())
    top = max(1.0, float(weights.nan_to_num(0, 0, 0).max()))
    axes.imshow(positive, cmap=WEIGHTS, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    share, said = share_of_zeros(weights, rounded).split(" ", 1)
    axes.set_xlabel(f"{share} of the cells are {'exactly zero' if said == 'zeros' else said}")
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor="#BBBBBB")
    hide_tick_marks(axes)


def _bump(n: int, centre: float, width: float) -> Tensor:
    time = torch.linspace(0, 1, n)
    return 2 * torch.exp(-0.5 * ((time - centre) / width) ** 2) + 0.5 * torch.exp(
        -0.5 * ((time - centre - 0.25) / 0.05) ** 2
    )
