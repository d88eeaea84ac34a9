"""Draws where a model looks in a picture at each word: the picture, then one panel for each word."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.style import COLOURS, INK, figure_style, hide_tick_marks

_WIDE = 6.8  # inches of a page
_PANEL = 0.92  # inches across of a panel, at least
_LABEL = 0.2  # inches of a word above its panel
_INK, _TINT = np.array([0.10, 0.12, 0.15]), np.array([0.86, 0.33, 0.08])  # of the picture, and of the heaviest cell

Box = tuple[float, float, float, float]


def grid_attention(
    weights: Tensor,
    picture: Tensor,
    words: Sequence[str] = (),
    *,
    cell: int,
    boxes: Sequence[Box | None] = (),
    title: str = "",
) -> Figure:
    """Draws weights (words, h, w) over the picture (H, W) that they belong to, one panel for each word.

    High values of the picture are dark. A cell of the grid is `cell` pixels up and across; it is orange as far as it
    has weight, relative to the largest of its word, and white if it has none. `boxes` are frames around what a word is
    about: top, left, height and width in pixels, or None.
    """
    looks, pixels = to_cpu_tensor(weights), to_cpu_tensor(picture)
    _check(looks, pixels, cell)
    count = len(looks)
    names = typesetting.labels("grid_attention", "words", words, count)
    if boxes and len(boxes) != count:
        raise ValueError(
            f"grid_attention: boxes must have one entry for each of the {count} words, got {len(boxes)}; use None for "
            "words about nothing"
        )
    height, width = pixels.shape
    widest = max([0.0, *(typesetting.width(name, 8.5) for name in names)])
    across = max(widest + 0.1, _PANEL, min(_WIDE, 0.012 * width))  # wide pictures get few panels in a line
    columns = max(1, min(count + 1, int(_WIDE / across)))
    lines = math.ceil((count + 1) / columns)
    down = across * height / width + _LABEL
    with figure_style([title, *names]):
        figure = Figure(figsize=(columns * across + 0.1, lines * down + (0.3 if title else 0.1)), layout=_tight())
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes in grid[count + 1 :]:
            axes.set_axis_off()
        shade = _shades(pixels)
        _show(grid[0], shade, np.zeros_like(shade), "")
        for place, axes in enumerate(grid[1 : count + 1]):
            _show(axes, shade, _spread(looks[place], cell, (height, width)), names[place])
            if boxes and boxes[place] is not None:
                top, left, tall, wide = boxes[place]  # type: ignore[misc]
                frame = Rectangle((left - 0.5, top - 0.5), wide, tall, fill=False, edgecolor=COLOURS["softmax"], lw=1.2)
                frame.set_gid("box")
                axes.add_patch(frame)
        if title:
            figure.suptitle(typesetting.title(title, max_characters=100), x=0.01, ha="left", fontsize=9)
    return figure


def _tight() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)


def _check(looks: Tensor, pixels: Tensor, cell: int) -> None:
    for name, given, axes in (("weights", looks, "(words, h, w)"), ("picture", pixels, "(H, W)")):
        expected = axes.count(",") + 1
        if not isinstance(given, Tensor) or given.dim() != expected or 0 in given.shape[1:] or not given.numel():
            came = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(f"grid_attention: {name} must be {axes}, none of them 0, got {came}; pick one picture")
    if bool((looks < 0).any()):
        raise ValueError(
            f"grid_attention: weights must be none below zero, got {float(looks.min()):g}; normalize the scores first"
        )
    wanted = tuple(-(-size // cell) for size in pixels.shape) if cell >= 1 else None
    if tuple(looks.shape[1:]) != wanted:
        raise ValueError(
            f"grid_attention: cells of {cell} pixels must cover the picture {tuple(pixels.shape)}, got a grid "
            f"{tuple(looks.shape[1:])}; give the size of a cell in pixels"
        )


def _shades(pixels: Tensor) -> np.ndarray:
    low, high = float(pixels.min()), float(pixels.max())
    return ((pixels.double() - low) / max(high - low, 1e-12)).numpy()


def _spread(look: Tensor, cell: int, size: tuple[int, int]) -> np.ndarray:
    """Returns for each pixel the weight of its cell, relative to the largest."""
    matrix = look.double().nan_to_num(0, 0, 0).numpy()
    whole = np.repeat(np.repeat(matrix, cell, 0), cell, 1)[: size[0], : size[1]]
    return whole / max(float(matrix.max()), 1e-12)


def _show(axes: Axes, shade: np.ndarray, heat: np.ndarray, name: str) -> None:
    paper = 1 - heat[..., None] * (1 - _TINT) * 0.85
    faint = 0.35 + 0.65 * (heat[..., None] if name else 1.0)  # what is not looked at is pale
    axes.imshow(paper * (1 - faint * shade[..., None]) + _INK * faint * shade[..., None], interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(name, loc="left", pad=2, fontsize=8.5)
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor=INK, linewidth=0.5)
    hide_tick_marks(axes)
