"""Draws where a model looked at an image, look after look, beside what each look saw."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from omegamax.plots import typesetting
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.style import COLOURS, INK, figure_style, hide_tick_marks

_WIDE = 6.8  # inches of a page
_CELL = 1.05  # inches across of a look
_IMAGE = 1.9  # as many times as a look: the image


def glimpse_path(
    image: Tensor,
    places: Tensor,
    views: Tensor,
    answers: Sequence[str] = (),
    *,
    box: tuple[int, int, int, int] | None = None,
    title: str = "",
) -> Figure:
    """Draws an image (H, W) with the path over `places` (T, 2), and beside it the `views` (T, H, W) in two rows.

    A place is (x, y) from −1 to 1, as that of `GlimpseSensor`; the first is a ring, the last a dot. `answers` are
    written over the views. `box` frames an object: its upper row, left column, end of rows and end of columns. Mnih et
    al., "Recurrent models of visual attention", NIPS 2014, figure 3.
    """
    picture, path, seen = (to_cpu_tensor(each) for each in (image, places, views))
    _check(picture, path, seen)
    labels = typesetting.labels("glimpse_path", "answers", answers, len(path))
    across = max(1, (len(path) + 1) // 2)
    cell = min(_CELL, (_WIDE - 0.4) / (across + _IMAGE))
    with figure_style([title, *labels]):
        size = ((across + _IMAGE + 0.1) * cell + 0.3, (2 * cell) + 0.75)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(2, across + 1, width_ratios=[_IMAGE, *[1.0] * across])
        whole = figure.add_subplot(grid[:, 0])
        _show(whole, picture)
        whole.set_title(typesetting.title(title, max_characters=60), loc="left", pad=3)
        _draw_path(whole, path, picture.shape, box)
        for look, view in enumerate(seen):
            axes = figure.add_subplot(grid[look // across, 1 + look % across])
            _show(axes, view)
            axes.set_title(f"{look + 1}" + (f": {labels[look]}" if labels[look] else ""), loc="left", pad=2)
    return figure


def _check(picture: object, path: object, seen: object) -> None:
    shapes = [tuple(each.shape) if isinstance(each, Tensor) else type(each).__name__ for each in (picture, path, seen)]
    fine = all(isinstance(each, Tensor) for each in (picture, path, seen)) and len(shapes[0]) == 2
    if not fine or shapes[1] != (len(shapes[1]) and shapes[1][0], 2) or shapes[2] != (shapes[1][0], *shapes[0]):
        raise ValueError(
            "glimpse_path: image, places and views must be (H, W), (T, 2) and (T, H, W), got "
            f"{', '.join(map(str, shapes))}; give those of one image"
        )


def _show(axes: Axes, pixels: Tensor) -> None:
    axes.imshow(pixels.double().numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    hide_tick_marks(axes)
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor=INK, linewidth=0.6)


def _draw_path(axes: Axes, path: Tensor, size: Sequence[int], box: tuple[int, int, int, int] | None) -> None:
    height, width = size
    colour = COLOURS["fusedmax"]
    if box is not None:
        top, left, bottom, right = box
        corner = (left - 0.5, top - 0.5)
        frame = Rectangle(corner, right - left, bottom - top, fill=False, edgecolor="0.6", linewidth=0.8, gid="object")
        axes.add_patch(frame)
    across, down = (((path[:, 0] + 1) * width - 1) / 2).tolist(), (((path[:, 1] + 1) * height - 1) / 2).tolist()
    axes.plot(across, down, "-", color=colour, linewidth=1.2, gid="path")
    axes.plot(across[:1], down[:1], "o", color=colour, markersize=5, markerfacecolor="none", gid="first")
    axes.plot(across[-1:], down[-1:], "o", color=colour, markersize=4, gid="last")
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
