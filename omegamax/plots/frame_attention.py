"""Draws the attention of words over the frames of a clip, with the frames themselves above the map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.cells import draw_cells, draw_marks
from omegamax.plots.style import figure_style, hide_tick_marks
from omegamax.plots.zeros import ExactZeros, rounded_to_zero

_WIDE = 6.8  # inches of a page
_CELL = 0.33  # inches across of a frame, if there is room
_ROW = 0.19  # inches of a word
_LINE = 0.35  # how dark the line around a frame is


def frame_attention(
    weights: Tensor,
    frames: Tensor,
    words: Sequence[str] = (),
    *,
    marked: Tensor | None = None,
    title: str = "",
    exact_zeros: ExactZeros = None,
) -> Figure:
    """Draws weights (words, T) below the frames (T, H, W) that they belong to; grey is exactly zero.

    `marked` (words, T), boolean, underlines cells, such as the frames that a word is about. `exact_zeros` is that of
    `attention_map`: False for a normalizer such as softmax, whose zeros were rounded.
    """
    matrix, pictures = to_cpu_tensor(weights), to_cpu_tensor(frames)
    check_map("frame_attention", "weights", matrix)
    if not isinstance(pictures, Tensor) or pictures.dim() != 3 or len(pictures) != matrix.shape[1] or not len(pictures):
        came = tuple(pictures.shape) if isinstance(pictures, Tensor) else type(frames).__name__
        raise ValueError(
            f"frame_attention: frames must be (T, H, W) with T = {matrix.shape[1]}, at least 1, as the weights have, "
            f"got {came}; give the frames of one clip"
        )
    rows = typesetting.labels("frame_attention", "words", words, matrix.shape[0])
    beside = max([0.3, *(typesetting.width(word, 8.5) for word in rows)])
    wide = min(_CELL, (_WIDE - beside - 0.3) / len(pictures))
    high = wide * pictures.shape[1] / pictures.shape[2]
    down = _ROW * max(1, len(matrix))
    with figure_style([title, *rows]):
        size = (max(1.5, beside + 0.3 + wide * len(pictures)), high + down + (0.65 if title else 0.45))
        figure = Figure(figsize=size, layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[high, down])
        above.imshow(_strip(pictures), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        above.set(xticks=[], yticks=[])
        hide_tick_marks(above)
        for spine in above.spines.values():
            spine.set_visible(False)
        above.set_title(typesetting.title(title, max_characters=100), loc="left", pad=3)
        tallest = float(matrix.nan_to_num(0, 0, 0).max()) if matrix.numel() else 0.0
        rounded = rounded_to_zero(matrix, to_cpu_tensor(exact_zeros), name=title)
        draw_cells(below, matrix, rounded, top=tallest if tallest > 0 else 1.0, cell=(wide, _ROW))
        below.set_aspect("auto")
        if marked is not None:
            draw_marks(below, to_cpu_tensor(marked), cell=min(wide, _ROW))
        below.set_yticks(range(len(rows)), rows)
        every = max(1, round(0.22 / wide))
        below.set_xticks(range(0, len(pictures), every), [str(number) for number in range(0, len(pictures), every)])
        below.set_xlabel("frame", labelpad=1)
    return figure


def _strip(pictures: Tensor) -> np.ndarray:
    """Puts the frames side by side, white where they are dark, with a grey line between two."""
    low, high = float(pictures.min()), float(pictures.max())
    shades = ((pictures.double() - low) / max(high - low, 1e-12)).numpy()
    finer = np.repeat(np.repeat(shades, 4, axis=1), 4, axis=2)  # so that the line is thinner than a pixel
    finer[:, :, [0, -1]] = _LINE
    finer[:, [0, -1]] = _LINE
    return np.concatenate(list(finer), axis=1)
