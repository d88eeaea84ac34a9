"""Draws matrices of distances between time series, and trees of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.extras import how_to_install
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_float_tensor
from omegamax.plots.style import INK, WEIGHTS, figure_style
from omegamax.plots.time_series import HUES

_METHODS = ("average", "complete", "single", "weighted")
_MOST_NAMES = 40


def distance_matrix(
    distances: Any, *, labels: Sequence[Any] | None = None, columns: Sequence[Any] | None = None, title: str = ""
) -> Figure:
    """Draws distances (n, p); with `labels` of a square matrix, series of one class stand together between thin lines.

    Arguments:
        distances: (n, p), for example by `omegamax.timeseries.cdist`
        labels: one for each row; rows are sorted by them, and the columns of a square matrix too
        columns: one for each column, if these are other series
        title: written above
    """
    who = "distance_matrix"
    matrix = _matrix(who, distances)
    rows, places = _sorted(who, "labels", labels, matrix.shape[0])
    across = columns if columns is not None or matrix.shape[0] != matrix.shape[1] else labels
    others, lines = _sorted(who, "columns", across, matrix.shape[1])
    shown = matrix[rows][:, others]
    with figure_style([title, *places, *lines]):
        width = 3.4 * min(1.8, max(0.6, matrix.shape[1] / matrix.shape[0]))
        figure = Figure(figsize=(width + 1.2, 3.6), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(shown, cmap=WEIGHTS.reversed(), interpolation="nearest", aspect="auto")
        for ends, name in ((places, "y"), (lines, "x")):
            _mark_classes(axes, ends, name)
        axes.set_xlabel("series")
        axes.set_ylabel("series")
        if title:
            axes.set_title(typesetting.title(title), loc="left")
        for spine in axes.spines.values():
            spine.set(visible=True, edgecolor="#BBBBBB")
        bar = figure.colorbar(image, ax=axes, shrink=0.9)
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.set_label("distance")
    return figure


def series_dendrogram(
    distances: Any, *, names: Sequence[Any] | None = None, method: str = "average", n_clusters: int | None = None
) -> Figure:
    """Draws the tree of agglomerative clustering of a square matrix of distances; needs SciPy.

    Arguments:
        distances: (n, n), symmetric, for example by `omegamax.timeseries.cdist`
        names: one for each series, for example its class
        method: how the distance of two clusters is defined: "average", "complete", "single" or "weighted"
        n_clusters: colours the tree below the cut that leaves so many clusters
    """
    who = "series_dendrogram"
    try:
        from scipy.cluster.hierarchy import dendrogram, linkage
        from scipy.spatial.distance import squareform
    except ImportError as error:
        raise ImportError(f"{who}: the tree needs SciPy; {how_to_install('timeseries')}") from error
    matrix = _matrix(who, distances)
    n = len(matrix)
    if matrix.shape[1] != n or n < 2 or not np.allclose(matrix, matrix.T, rtol=1e-5, atol=1e-8):
        raise ValueError(
            f"{who}: distances must be square, symmetric and of at least two series, got {matrix.shape}; use cdist(x)"
        )
    if method not in _METHODS:
        raise ValueError(f"{who}: method must be one of {', '.join(_METHODS)}, got {method!r}; average is the default")
    words = [str(number) for number in range(n)] if names is None else [str(name) for name in names]
    if len(words) != n:
        raise ValueError(f"{who}: names must be {n}, one for each series, got {len(words)}; leave them out for numbers")
    if n_clusters is not None and not 1 <= n_clusters <= n:
        raise ValueError(f"{who}: n_clusters must be from 1 to {n}, got {n_clusters}; leave it out for one colour")
    even = (matrix + matrix.T) / 2
    low = min(0.0, float(even.min()))  # soft-DTW may be negative
    tree = linkage(squareform(even - low, checks=False), method)
    cut = 0.0
    if n_clusters is not None and n_clusters > 1:
        cut = float(tree[n - n_clusters, 2])  # links at this height and above join the clusters
    with figure_style(words):
        figure = Figure(figsize=(max(4.6, min(9.0, 0.6 + 0.17 * n)), 3.0), layout="constrained")
        axes = figure.subplots()
        from scipy.cluster.hierarchy import set_link_color_palette

        set_link_color_palette(HUES)
        try:
            dendrogram(
                tree,
                labels=[typesetting.title(word) for word in words],
                ax=axes,
                color_threshold=cut,
                above_threshold_color=INK,
                no_labels=n > _MOST_NAMES,
                leaf_rotation=90 if n * max(map(len, words)) > 36 else 0,
                leaf_font_size=8,
            )
        finally:
            set_link_color_palette(None)
        axes.set_ylabel("distance")
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(axis="x", length=0)
    return figure


def _matrix(who: str, given: Any) -> np.ndarray:
    found = to_float_tensor(given)
    if not isinstance(found, Tensor) or found.dim() != 2 or found.numel() == 0:
        came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"{who}: distances must be a matrix (n, p), got {came}; use omegamax.timeseries.cdist")
    if not bool(torch.isfinite(found).all()):
        raise ValueError(f"{who}: distances must be finite, got NaN or inf; look for bad series")
    return found.double().numpy()


def _sorted(who: str, name: str, labels: Sequence[Any] | None, n: int) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """Returns the order that puts equal labels together, and each label with the place where it ends."""
    if labels is None:
        return np.arange(n), []
    words = [str(each) for each in labels]
    if len(words) != n:
        raise ValueError(f"{who}: {name} must be {n}, got {len(words)}; give one for each series")
    kinds = list(dict.fromkeys(sorted(words)))
    numbers = np.array([kinds.index(word) for word in words])
    ends = np.cumsum(np.bincount(numbers, minlength=len(kinds))).tolist()
    return np.argsort(numbers, kind="stable"), list(zip(kinds, ends))


def _mark_classes(axes: Any, ends: list[tuple[str, int]], which: str) -> None:
    if not ends or len(ends) > _MOST_NAMES:
        return
    starts = [0, *(end for _, end in ends[:-1])]
    for _, end in ends[:-1]:
        (axes.axhline if which == "y" else axes.axvline)(end - 0.5, color="white", linewidth=0.8)
    middles = [(start + end - 1) / 2 for start, (_, end) in zip(starts, ends)]
    names = [typesetting.title(name) for name, _ in ends]
    (axes.set_yticks if which == "y" else axes.set_xticks)(middles, names)
    axes.tick_params(axis=which, length=0)
