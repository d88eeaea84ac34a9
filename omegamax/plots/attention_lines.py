"""Draws attention as lines between two sentences, one panel for each head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.attention.sparse_attention_output import SparseAttentionOutput
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.sparse_weights import all_heads
from omegamax.plots.style import COLOURS, figure_style
from omegamax.plots.zeros import rounded_to_zero

_COLOURS = [COLOURS[name] for name in ("softmax", "fusedmax", "entmax15", "sqpnormmax", "sparsemax", "groupmax")]


def attention_lines(
    weights: Tensor | SparseAttentionOutput,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    heads: Sequence[str] = (),
    exact_zeros: bool | None = None,
) -> Figure:
    """Draws lines from the words that attend, `rows` on the left, to those they attend to, `columns` on the right.

    `weights` is (Q, K), or (H, Q, K) with a panel for each head; `heads` are their titles. Lines are as wide as their
    weight; a weight of exactly zero has no line. For softmax, say `exact_zeros=False` (see `attention_map`): then
    weights that were rounded to zero have one. What `sparse_attention_with_weights` returned for one item is drawn too.
    """
    if isinstance(weights, SparseAttentionOutput):
        weights = torch.stack([to_cpu_tensor(each) for each in all_heads("attention_lines", weights)])
    weights = to_cpu_tensor(weights)
    each: Any = weights.unsqueeze(0) if isinstance(weights, Tensor) and weights.dim() == 2 else weights
    if not isinstance(each, Tensor) or each.dim() != 3 or 0 in each.shape:
        came = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(
            f"attention_lines: weights must be (queries, keys) or (heads, queries, keys), got {came}; pick one item"
        )
    check_map("attention_lines", "weights", each.flatten(0, 1))
    left = typesetting.labels("attention_lines", "rows", rows, each.shape[1])
    right = typesetting.labels("attention_lines", "columns", columns, each.shape[2])
    titles = typesetting.labels("attention_lines", "heads", heads, len(each))
    if not titles and each is weights:
        titles = [f"head {head + 1}" for head in range(len(each))]
    margins = [max([0.05, *(typesetting.width(word, 8.5) for word in side)]) for side in (left, right)]
    one = sum(margins) + 1.0  # inches of a panel
    across = max(1, min(len(each), 4, int(7.0 / one)))
    lines = math.ceil(len(each) / across)
    across = math.ceil(len(each) / lines)  # two and two rather than three and one
    with figure_style([*left, *right, *titles]):
        high = 0.3 + 0.175 * max(each.shape[1:])
        figure = Figure(figsize=(one * across, high * lines), layout="constrained")
        grid = figure.subplots(lines, across, squeeze=False).ravel()
        for head, (axes, matrix) in enumerate(zip(grid, each.double())):
            drawn = (matrix > 0) | rounded_to_zero(matrix, exact_zeros, name=heads[head] if heads else "")
            _draw(axes, matrix, drawn, left, right, _COLOURS[head % len(_COLOURS)])
            # Axes reach over the words, which are drawn inside.
            axes.set_xlim(-0.08 - margins[0] / 0.8, 1.08 + margins[1] / 0.8)
            if titles:
                axes.set_title(titles[head], pad=2)
        for axes in grid[len(each) :]:
            axes.remove()
    return figure


def _draw(axes: Axes, weights: Tensor, drawn: Tensor, left: Sequence[str], right: Sequence[str], colour: str) -> None:
    n_left, n_right = weights.shape
    tallest = max(n_left, n_right)
    from_left = [(tallest - n_left) / 2 + place for place in range(n_left)]  # the shorter side is centred
    from_right = [(tallest - n_right) / 2 + place for place in range(n_right)]
    pairs = drawn.nonzero().tolist()
    strength = [min(1.0, float(weights[q, k])) for q, k in pairs]
    lines = LineCollection(
        [[(0, from_left[q]), (1, from_right[k])] for q, k in pairs],
        linewidths=[0.25 + 2.4 * weight for weight in strength],
        colors=[to_rgba(colour, 0.12 + 0.88 * weight) for weight in strength],
        gid="lines",
    )
    axes.add_collection(lines, autolim=False)
    for words, places, x, side in ((left, from_left, -0.04, "right"), (right, from_right, 1.04, "left")):
        for word, place in zip(words, places):
            axes.text(x, place, word, ha=side, va="center", fontsize=8.5)
    axes.set_ylim(tallest - 0.4, -0.6)
    axes.axis("off")
