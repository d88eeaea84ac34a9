"""Two time series, and how each Ω aligns them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.operators.hard import Hard
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.plots.style import INK, WEIGHTS, bare, look
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
    """The expected alignment of two series under each Ω, as in the tutorial; cells of exactly zero weight are white.

    `x` (M,) and `y` (N,) are series of numbers; without them two bumps are drawn, one of them later and longer.
    """
    x, y = (_bump(30, 0.35, 0.09) if x is None else x), (_bump(36, 0.6, 0.13) if y is None else y)
    for name, series in (("x", x), ("y", y)):
        if not isinstance(series, Tensor) or series.dim() != 1 or series.numel() == 0:
            came = tuple(series.shape) if isinstance(series, Tensor) else type(series).__name__
            raise ValueError(
                f"alignment_comparison: {name} must be one series, a 1-d Tensor, got {came}; pick one, as in {name}[0]"
            )
    charts = _OMEGAS if regularizers is None else regularizers
    with look():
        figure = Figure(figsize=(0.9 + 2.05 * len(charts), 2.75), layout="constrained")
        grid = figure.subplots(
            2, 1 + len(charts), width_ratios=[0.3] + [1] * len(charts), height_ratios=[0.3, 1], squeeze=False
        )
        grid[0, 0].set_visible(False)
        _draw_series(grid[1, 0], x.detach().cpu(), upright=True)
        for column, (title, omega) in enumerate(charts.items(), start=1):
            weights = soft_dtw_alignment(x[:, None], y[:, None], gamma, regularizer=omega).detach().cpu()
            _draw_series(grid[0, column], y.detach().cpu(), upright=False)
            grid[0, column].set_title(title, loc="left", pad=3)
            _draw_weights(grid[1, column], weights)
    return figure


def _draw_series(axes: Axes, series: Tensor, *, upright: bool) -> None:
    place = range(len(series))
    if upright:
        axes.plot((-series).tolist(), place, color=INK, linewidth=1)
        axes.set_ylim(len(series) - 0.5, -0.5)
    else:
        axes.plot(place, series.tolist(), color=INK, linewidth=1)
        axes.set_xlim(-0.5, len(series) - 0.5)
    axes.axis("off")


def _draw_weights(axes: Axes, weights: Tensor) -> None:
    positive = np.ma.masked_equal(weights.numpy(), 0)
    axes.imshow(positive, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    share = float((weights == 0).double().mean())
    axes.set_xlabel(f"{100 * share:.0f}% of the cells are exactly zero")
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("#BBBBBB")
    bare(axes)


def _bump(n: int, centre: float, width: float) -> Tensor:
    time = torch.linspace(0, 1, n)
    return 2 * torch.exp(-0.5 * ((time - centre) / width) ** 2) + 0.5 * torch.exp(
        -0.5 * ((time - centre - 0.25) / 0.05) ** 2
    )
