"""Attention weights as maps, one for each normalizer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots.style import INK, WEIGHTS, bare, look


def attention_maps(
    weights: Mapping[str, Tensor],
    *,
    marked: Tensor | None = None,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> Figure:
    """Weights (Q, K) by name, side by side; exact zeros are white, the largest of each map is darkest.

    `marked` (Q, K), boolean, puts a dot where the weight should be; `queries` and `keys` label rows and columns.
    """
    shapes = {tuple(matrix.shape) for matrix in weights.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(
            f"attention_maps: weights must be matrices (queries, keys) of one shape, got {sorted(shapes)}; pick one "
            "item and one head, as in weights[0, 0]"
        )
    ((n_queries, n_keys),) = shapes
    for name, labels, count in (("queries", queries, n_queries), ("keys", keys, n_keys)):
        if labels and len(labels) != count:
            raise ValueError(
                f"attention_maps: {name} must name each of the {count}, got {len(labels)}; give one label each"
            )
    columns = min(3, len(weights))
    lines = math.ceil(len(weights) / columns)
    height = 2.1 * min(1.5, max(0.4, n_queries / max(1, n_keys)))
    with look():
        figure = Figure(figsize=(0.4 + 2.1 * columns, 0.3 + (height + 0.35) * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for place, (axes, (name, matrix)) in enumerate(zip(grid, weights.items())):
            _draw(axes, matrix.detach().cpu(), None if marked is None else marked.cpu())
            share = float((matrix == 0).double().mean()) if matrix.numel() else 0.0
            axes.set_title(f"{name}: {100 * share:.0f}% zeros", loc="left", pad=3)
            axes.set_yticks(
                range(len(queries)) if place % columns == 0 else [], queries if place % columns == 0 else ()
            )
            below = place + columns >= len(weights)  # nothing under this one
            axes.set_xticks(range(len(keys)) if below else [], keys if below else (), rotation=90)
        for axes in grid[len(weights) :]:
            axes.set_visible(False)
    return figure


def _draw(axes: Axes, weights: Tensor, marked: Tensor | None) -> None:
    positive = np.ma.masked_equal(weights.double().numpy(), 0)
    axes.imshow(positive, cmap=WEIGHTS, vmin=0, vmax=max(1e-12, float(positive.max() or 0)), aspect="auto")
    if marked is not None:
        rows, columns = marked.nonzero(as_tuple=True)
        axes.scatter(columns.tolist(), rows.tolist(), s=3, color=INK, linewidths=0)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("#BBBBBB")
    bare(axes)
