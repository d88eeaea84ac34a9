"""Draws where each written word is in a sound, below the spectrogram of the sound."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.attention import check_map
from omegamax.plots.cells import draw_cells
from omegamax.plots.style import figure_style
from omegamax.plots.zeros import ExactZeros, rounded_to_zero

_WIDE = 6.2  # inches of the sound
_HIGH = 0.9  # inches of the spectrogram
_ROW = 0.19  # inches of a word
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds between numbers of the axis
_MOST = 9  # numbers of the axis


def sound_attention(
    weights: Tensor,
    bands: Tensor,
    words: Sequence[str] = (),
    *,
    seconds: float,
    title: str = "",
    exact_zeros: ExactZeros = None,
) -> Figure:
    """Draws weights (words, T) below a spectrogram (frames, bands) of the same sound; grey is exactly zero.

    The frames of the spectrogram may be finer than the T steps of the weights. `seconds` is how long the T steps take.
    `exact_zeros` is that of `attention_map`: False for a normalizer such as softmax, whose zeros were rounded.
    """
    matrix, shades = to_cpu_tensor(weights), to_cpu_tensor(bands)
    check_map("sound_attention", "weights", matrix)
    if not isinstance(shades, Tensor) or shades.dim() != 2 or not shades.numel() or not matrix.shape[1]:
        came = tuple(shades.shape) if isinstance(shades, Tensor) else type(bands).__name__
        raise ValueError(
            "sound_attention: bands must be (frames, bands) of a sound with weights (words, T), none of them 0, got "
            f"{came} and {tuple(matrix.shape)}; give the features of one sound"
        )
    if not seconds > 0:
        raise ValueError(f"sound_attention: seconds must be above 0, got {seconds!r}; give the length of the sound")
    n_rows, n_steps = matrix.shape
    rows = typesetting.labels("sound_attention", "words", words, n_rows)
    beside = max([0.3, *(typesetting.width(word, 8.5) for word in rows)])
    down = _ROW * max(1, n_rows)
    with figure_style([title, *rows]):
        figure = Figure(figsize=(beside + 0.2 + _WIDE, _HIGH + down + (0.75 if title else 0.5)), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[_HIGH, down])
        above.imshow(shades.T.double().numpy(), cmap="gray_r", aspect="auto", origin="lower", interpolation="nearest")
        above.set(xticks=[], yticks=[])
        above.set_ylabel("frequency", labelpad=4)
        above.set_title(typesetting.title(title, max_characters=100), loc="left", pad=3)
        tallest = float(matrix.nan_to_num(0, 0, 0).max()) if matrix.numel() else 0.0
        rounded = rounded_to_zero(matrix, to_cpu_tensor(exact_zeros), name=title)
        draw_cells(below, matrix, rounded, top=tallest if tallest > 0 else 1.0, cell=(_WIDE / n_steps, _ROW))
        below.set_aspect("auto")
        below.set_yticks(range(len(rows)), rows)
        step = next((each for each in _STEPS if seconds / each <= _MOST), seconds)
        times = [step * number for number in range(int(seconds / step) + 1)]
        below.set_xticks([time / seconds * n_steps - 0.5 for time in times], [f"{time:g}" for time in times])
        below.set_xlabel("seconds", labelpad=1)
    return figure
