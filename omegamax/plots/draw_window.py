"""Draws DRAW's filter grid on an image: the place and width of each Gaussian filter, and the patch that they read."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from omegamax.attention.draw import DrawWindow
from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.style import COLOURS, INK, figure_style, hide_tick_marks


def draw_window(image: Tensor, window: DrawWindow, *, patch_size: int) -> Figure:
    """Draws one image (H, W) or (channels, H, W) with the window's N × N filters, beside the patch γ F_Y x F_Xᵀ.

    Each cross is a filter's centre and each ring has its deviation σ as radius. The window is one item of what
    `DrawAttention.window` gives: its fields are scalars. Gregor et al., "DRAW", ICML 2015, figure 3.
    """
    pixels = to_cpu_tensor(image)
    if not isinstance(pixels, Tensor) or pixels.dim() not in (2, 3):
        came = tuple(pixels.shape) if isinstance(pixels, Tensor) else type(image).__name__
        raise ValueError(f"draw_window: image must be (H, W) or (channels, H, W), got {came}; pick one item")
    fields = DrawWindow(*(field.detach().double().cpu() for field in window))
    if any(field.dim() for field in fields):
        raise ValueError(
            f"draw_window: window must be of one item, got fields of shape {tuple(fields.x.shape)}; index them, as in "
            "DrawWindow(*(field[0] for field in window))"
        )
    pixels = pixels.double()
    height, width = pixels.shape[-2:]
    rows, columns = fields.filters(patch_size, height, width)
    patch = fields.intensity * (rows @ pixels @ columns.mT)
    with figure_style():
        wide = 2.6 * min(1.6, max(0.6, width / height))
        figure = Figure(figsize=(wide + 2.7, 2.75), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[wide, 2.6])
        _show(left, pixels, f"image, {height} × {width}")
        _show(right, patch, f"patch, {patch_size} × {patch_size}")
        _draw_filters(left, fields, patch_size, (height, width))
    return figure


def _show(axes: Axes, pixels: Tensor, title: str) -> None:
    shown = pixels.mean(0) if pixels.dim() == 3 and pixels.shape[0] != 3 else pixels
    if shown.dim() == 3:  # colours
        low, high = float(shown.min()), float(shown.max())
        shown = ((shown - low) / max(high - low, 1e-12)).movedim(0, -1)
    axes.imshow(shown.numpy(), cmap="gray", interpolation="nearest")
    axes.set_title(title, loc="left", pad=3)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor=INK, linewidth=0.6)
    hide_tick_marks(axes)


def _draw_filters(axes: Axes, window: DrawWindow, patch_size: int, size: tuple[int, int]) -> None:
    """Draws the centres, in pixels from 0 (DRAW counts from 1); what lies outside the image is cut off."""
    steps = [step - patch_size / 2 + 0.5 for step in range(patch_size)]
    stride, radius = float(window.stride), float(window.variance) ** 0.5
    across = [float(window.x) - 1 + step * stride for step in steps]
    down = [float(window.y) - 1 + step * stride for step in steps]
    colour = COLOURS["fusedmax"]
    for y in down:
        axes.plot(across, [y] * patch_size, "+", color=colour, markersize=3.5, markeredgewidth=0.8, gid="centres")
        for x in across:
            axes.add_patch(Circle((x, y), radius, facecolor="none", edgecolor=colour, linewidth=0.5, alpha=0.7))
    axes.set_xlim(-0.5, size[1] - 0.5)
    axes.set_ylim(size[0] - 0.5, -0.5)
