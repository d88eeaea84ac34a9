"""Draws every head of every layer on one page: small maps without words, one row for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from omegamax.attention.sparse_attention_output import SparseAttentionOutput
from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.cells import BORDER
from omegamax.plots.sparse_weights import all_heads, heaviest_of_blocks
from omegamax.plots.style import COLOURS, WEIGHTS, figure_style, hide_tick_marks
from omegamax.plots.zeros import ExactZeros, rounded_to_zero

_PAGE = (5.5, 8.2)  # inches that the maps may fill, across and down
_LARGEST = 1.5  # inches of a map
_GAP = 0.06  # of a map's width, between maps
_MOST_CELLS = 96  # on a side of a map; of more the heaviest of each block is drawn


def attention_overview(
    weights: Tensor | Sequence[Tensor | SparseAttentionOutput],
    *,
    layers: Sequence[str] = (),
    heads: Sequence[str] = (),
    exact_zeros: ExactZeros = None,
) -> Figure:
    """Draws the attention of all layers and heads, (L, H, Q, K) or a list of L tensors (H, Q, K), for one input.

    Rows of the figure are layers, columns are heads; inside each map rows are queries and columns are keys. Grey is
    exactly zero (see `attention_map`, also for `exact_zeros`, which may be a boolean matrix (Q, K)). Colours grow with
    the square root of the weight, so that weights of a few percent are seen; a map with NaN is hatched. A map of more
    than 96 rows or columns is drawn in blocks, each with its heaviest weight. `layers` and `heads` replace the numbers.
    A layer may also be what `sparse_attention_with_weights` returned for one item: its blocks are found without a dense
    map, and all its zeros are exact.
    """
    given = _layers(weights)
    stack = [each.weights for each in given]
    n_layers, n_heads = len(stack), len(stack[0])
    down = typesetting.labels("attention_overview", "layers", layers, n_layers) or [str(i + 1) for i in range(n_layers)]
    right = typesetting.labels("attention_overview", "heads", heads, n_heads) or [str(i + 1) for i in range(n_heads)]
    n_rows, n_columns = (max(each.shape[axis] for each in given) for axis in (0, 1))
    ratio = min(3.0, max(1 / 3, n_rows / n_columns))  # height of a map, whose width is 1
    step = (1 + _GAP, ratio + _GAP)
    inch = min(_LARGEST, _PAGE[0] / n_heads / step[0], _PAGE[1] / n_layers / step[1])
    tallest = max(float(each.nan_to_num(0, 0, 0).max()) for each in stack)
    scale = PowerNorm(0.5, vmin=0, vmax=tallest if tallest > 0 else 1.0)
    with figure_style([*down, *right]):
        beside = max(typesetting.width(label, 8.5) for label in down)
        turned = max(typesetting.width(label, 8.5) for label in right) > inch
        above = max(typesetting.width(label, 8.5) for label in right) if turned else 0.12
        size = (1.25 + beside + inch * step[0] * n_heads, 0.45 + above + inch * step[1] * n_layers)
        figure = Figure(figsize=size, layout="constrained")
        axes, grey = figure.subplots(), False
        for layer, each in enumerate(stack):
            for head, matrix in enumerate(each):
                shown = _shown(matrix, rounded_to_zero(matrix, to_cpu_tensor(exact_zeros)))
                left, top = head * step[0], layer * step[1]
                extent = (left, left + 1, top + ratio, top)
                image = axes.imshow(shown, cmap=WEIGHTS, norm=scale, interpolation="nearest", extent=extent)
                strange = {"hatch": "xxx", "edgecolor": COLOURS["fusedmax"]} if bool(matrix.isnan().any()) else {}
                frame: dict[str, Any] = {"facecolor": "none", "edgecolor": BORDER, "linewidth": 0.4, **strange}
                axes.add_patch(Rectangle((left, top), 1, ratio, **frame))
                grey = grey or bool(shown.mask.any())
        axes.set(xlim=(-_GAP, n_heads * step[0]), ylim=(n_layers * step[1], -_GAP), aspect="equal")
        axes.set_xticks([head * step[0] + 0.5 for head in range(n_heads)], right, rotation=90 if turned else 0)
        axes.set_yticks([layer * step[1] + ratio / 2 for layer in range(n_layers)], down)
        axes.xaxis.set(label_position="top", ticks_position="top")
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        for spine in axes.spines.values():
            spine.set_visible(False)
        hide_tick_marks(axes)
        bar = figure.colorbar(image, ax=axes, aspect=max(5.0, 8 * (size[1] - 0.5)), pad=0.02)
        bar.outline.set(edgecolor=BORDER, linewidth=0.4)  # type: ignore[operator]
        bar.ax.tick_params(length=0, labelsize=7.5, pad=2)
        if size[1] > 1.9:
            bar.set_label("weight (grey: exactly 0)" if grey else "weight", fontsize=8)
    return figure


class _Layer(NamedTuple):
    """The weights of a layer as they are drawn, (heads, rows, columns), and the (Q, K) of its maps."""

    weights: Tensor
    shape: tuple[int, int]


def _layers(weights: Any) -> list[_Layer]:
    """Returns the weights of each layer; sparse ones are reduced to blocks."""
    given = [weights] if isinstance(weights, SparseAttentionOutput) else weights
    if not isinstance(given, list | tuple) or not any(isinstance(each, SparseAttentionOutput) for each in given):
        given = to_cpu_tensor(given)
    stack = [_layer(each) for each in given] if isinstance(given, Tensor | list | tuple) else [given]
    wrong = [each for each in stack if not isinstance(each, _Layer)]
    if not stack or wrong or len({len(each.weights) for each in stack}) > 1:
        came = [
            (len(each.weights), *each.shape) if isinstance(each, _Layer) else
            tuple(getattr(each, "shape", ())) or type(each).__name__
            for each in stack
        ]  # fmt: skip
        raise ValueError(
            "attention_overview: weights must be (layers, heads, queries, keys), or a list of (heads, queries, keys) "
            f"with as many heads in every layer, got layers of {came[:3]}; pick one item of the batch, as in "
            "[layer[0] for layer in output.attentions]"
        )
    for each in stack:
        check_map("attention_overview", "weights", each.weights.flatten(0, 1))
    return [each._replace(weights=each.weights.double()) for each in stack]


def _layer(given: Any) -> Any:
    """Returns a layer, or what is none unchanged."""
    if isinstance(given, SparseAttentionOutput):
        maps = all_heads("attention_overview", given)
        n_rows, n_columns = maps[0].shape
        size = min(n_rows, _MOST_CELLS), min(n_columns, _MOST_CELLS)
        return _Layer(torch.stack([heaviest_of_blocks(each, size) for each in maps]), (n_rows, n_columns))
    each = to_cpu_tensor(given)
    if not isinstance(each, Tensor) or each.dim() != 3 or 0 in each.shape:
        return each
    return _Layer(each, (each.shape[1], each.shape[2]))


def _shown(matrix: Tensor, rounded: Tensor) -> np.ma.MaskedArray:
    """Returns the weights to draw, with exact zeros masked; large maps are reduced to blocks."""
    exact = (matrix == 0) & ~rounded
    if max(matrix.shape) > _MOST_CELLS:
        size = [min(length, _MOST_CELLS) for length in matrix.shape]
        matrix = torch.nn.functional.adaptive_max_pool2d(matrix[None], size)[0]
        exact = ~torch.nn.functional.adaptive_max_pool2d((~exact)[None].double(), size)[0].bool()
    shown: np.ma.MaskedArray = np.ma.masked_array(matrix.numpy(), exact.numpy())
    return shown
