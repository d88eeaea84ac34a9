"""Draws time series: two that are aligned, several with their mean, and clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor, to_float_tensor
from omegamax.plots.style import COLOURS, figure_style

_FIRST, _SECOND = COLOURS["softmax"], COLOURS["fusedmax"]
_MEAN = COLOURS["sparsemax"]
HUES = [hue for hue in dict.fromkeys(COLOURS.values()) if hue != COLOURS["max"]]
_GREY = "#7A7A7A"
_MOST_LINES = 60  # of an alignment, and of faint series in one panel


def aligned_series(
    x: Any, y: Any, path: Any, *, names: Sequence[str] = ("x", "y"), distance: float | None = None
) -> Figure:
    """Draws two series, one above the other, and lines between the times that a warping path matches.

    Of a long path every few cells are drawn.

    Arguments:
        x: series (M,) or (M, channels)
        y: series (N,) or (N, channels)
        path: cells (length, 2), as `omegamax.timeseries.alignment_path` returns them
        names: of the two series
        distance: printed in the title, if given
    """
    who = "aligned_series"
    first, second = _series(who, "x", x), _series(who, "y", y)
    cells = to_cpu_tensor(path)
    shape = tuple(cells.shape) if isinstance(cells, Tensor) else type(cells).__name__
    if not isinstance(cells, Tensor) or cells.dim() != 2 or cells.shape[1] != 2 or not len(cells):
        raise ValueError(f"{who}: path must be cells (length, 2), got {shape}; alignment_path returns one")
    ends = torch.tensor([len(first), len(second)])
    if bool((cells < 0).any()) or bool((cells >= ends).any()):
        raise ValueError(f"{who}: path must lie in a grid of {tuple(ends.tolist())} cells; is it of other series?")
    n_channels = first.shape[1]
    with figure_style(names):
        figure = Figure(figsize=(6.4, 2.5 * n_channels + 0.3), layout="constrained")
        for channel, axes in enumerate(figure.subplots(n_channels, 1, squeeze=False)[:, 0]):
            _draw_pair(axes, first[:, channel], second[:, channel], cells.long())
        lines = figure.axes[0].get_lines()
        lines[0].set_label(typesetting.title(names[0]))
        lines[1].set_label(typesetting.title(names[1]))
        title = "" if distance is None else f"distance {distance:.5g}"
        figure.axes[0].set_title(title, loc="right", pad=8)
        figure.axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.1)
    return figure


def _draw_pair(axes: Axes, above: Tensor, below: Tensor, cells: Tensor) -> None:
    numbers = torch.cat([above, below])
    spread = float(numbers.max() - numbers.min()) or 1.0
    n = min(len(above), len(below))
    overlap = float((below[:n] - above[:n]).max())  # where the lower one comes nearest to the upper one
    shift = overlap + 0.35 * spread
    upper, lower = above + shift, below
    chosen = cells[:: math.ceil(len(cells) / _MOST_LINES)]
    lines = [[(int(i), float(upper[i])), (int(j), float(lower[j]))] for i, j in chosen.tolist()]
    axes.add_collection(LineCollection(lines, colors="#B8B8B8", linewidths=0.6, zorder=1))
    for numbers, hue in ((upper, _FIRST), (lower, _SECOND)):
        axes.plot(numbers.numpy(), color=hue, marker="o" if len(numbers) == 1 else None, markersize=3, zorder=2)
    axes.set_xlim(-0.5, max(len(above), len(below)) - 0.5)
    axes.margins(y=0.08)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("time")


def series_barycenter(series: Sequence[Any], barycenters: Any, *, channel: int = 0) -> Figure:
    """Draws series as faint lines, and means of them: one panel for each, by title.

    Arguments:
        series: arrays (length,) or (length, channels), of any lengths
        barycenters: one mean (length,) or (length, channels), or a dict of several by title
        channel: which one is drawn
    """
    who = "series_barycenter"
    each = _list(who, series)
    means = barycenters if isinstance(barycenters, dict) else {"": barycenters}
    if not means:
        raise ValueError(f"{who}: barycenters must have at least one mean, got none; give a mean or {{title: mean}}")
    chosen = {title: _series(who, "barycenters", mean) for title, mean in means.items()}
    _check_channel(who, channel, [*each, *chosen.values()])
    with figure_style(means):
        figure = Figure(figsize=(0.4 + 2.9 * max(1.6, len(chosen)), 2.5), layout="constrained")
        panels = figure.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
        for axes, (title, mean) in zip(panels, chosen.items()):
            _draw_bundle(axes, each, mean, channel, _MEAN)
            axes.set_title(typesetting.title(title), loc="left")
            axes.set_xlabel("time")
    return figure


def series_clusters(
    series: Sequence[Any],
    labels: Sequence[int],
    centers: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    channel: int = 0,
) -> Figure:
    """Draws one panel for each cluster: its series as faint lines, and its centre.

    Arguments:
        series: arrays (length,) or (length, channels), of any lengths
        labels: the number of the cluster of each series, from 0
        centers: the centre of each cluster, (length,) or (length, channels)
        names: of the clusters, for example classes; by default "cluster 0" and so on
        channel: which one is drawn
    """
    who = "series_clusters"
    each = _list(who, series)
    means = _list(who, centers, "centers")
    numbers = np.asarray(labels)
    if (
        numbers.shape != (len(each),)
        or numbers.dtype.kind not in "iu"
        or numbers.min() < 0
        or numbers.max() >= len(means)
    ):
        raise ValueError(
            f"{who}: labels must be {len(each)} numbers from 0 to {len(means) - 1}, one for each series, got "
            f"{numbers.dtype} of shape {numbers.shape}; they count the centers"
        )
    _check_channel(who, channel, [*each, *means])
    words = [f"cluster {k}" for k in range(len(means))] if names is None else [str(name) for name in names]
    if len(words) != len(means):
        raise ValueError(f"{who}: names must be {len(means)}, one for each center, got {len(words)}; leave them out")
    n_columns = min(4, len(means))
    n_rows = math.ceil(len(means) / n_columns)
    with figure_style(words):
        figure = Figure(figsize=(0.5 + 2.2 * max(2, n_columns), 0.4 + 1.7 * n_rows), layout="constrained")
        panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).ravel()
        for k, axes in enumerate(panels):
            if k >= len(means):
                axes.set_visible(False)
                continue
            members = [one for one, number in zip(each, numbers.tolist()) if number == k]
            _draw_bundle(axes, members, means[k], channel, HUES[k % len(HUES)])
            axes.set_title(f"{typesetting.title(words[k])}: {len(members)} series", loc="left")
            if k + n_columns >= len(means):
                axes.set_xlabel("time")
                axes.tick_params(labelbottom=True)
    return figure


def _draw_bundle(axes: Axes, series: Sequence[Tensor], mean: Tensor, channel: int, hue: str) -> None:
    shown = series[:: math.ceil(len(series) / _MOST_LINES)] if series else []
    faint = max(0.2, min(0.6, 6 / max(1, len(shown))))
    for one in shown:
        axes.plot(one[:, channel].numpy(), color=_GREY, linewidth=0.6, alpha=faint, zorder=1)
    marker: dict[str, Any] = {"marker": "o", "markersize": 3} if len(mean) == 1 else {}
    axes.plot(mean[:, channel].numpy(), color=hue, linewidth=1.8, zorder=2, **marker)


def _series(who: str, name: str, given: Any) -> Tensor:
    one = to_float_tensor(given)
    if not isinstance(one, Tensor) or one.dim() not in (1, 2) or one.numel() == 0:
        came = tuple(one.shape) if isinstance(one, Tensor) else type(one).__name__
        raise ValueError(
            f"{who}: {name} must be one series, (time,) or (time, channels), got {came}; pick one, as in {name}[0]"
        )
    return one.double().reshape(len(one), -1)


def _list(who: str, given: Any, name: str = "series") -> list[Tensor]:
    each = [_series(who, name, one) for one in given]
    if not each:
        raise ValueError(f"{who}: {name} must be at least one series, got none; give a list of (length, channels)")
    return each


def _check_channel(who: str, channel: int, series: Sequence[Tensor]) -> None:
    fewest = min(one.shape[1] for one in series)
    if not 0 <= channel < fewest:
        raise ValueError(f"{who}: channel must be from 0 to {fewest - 1}, got {channel}; count from 0")
