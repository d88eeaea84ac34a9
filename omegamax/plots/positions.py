"""Draws positional encodings: the table itself, and the cosine between positions."""

from __future__ import annotations

from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots.arrays import to_cpu_tensor
from omegamax.plots.style import figure_style


def positional_encodings(table: Tensor) -> Figure:
    """Draws vectors (N, size) of N positions, and the cosine between each two of them.

    The table of `SinusoidalPositions` is `SinusoidalPositions()(torch.zeros(N, size))`, that of `LearnedPositions` its
    weight. Where the second picture is constant along diagonals, only distances matter.
    """
    table = to_cpu_tensor(table)
    if not isinstance(table, Tensor) or table.dim() != 2 or 0 in table.shape:
        came = tuple(table.shape) if isinstance(table, Tensor) else type(table).__name__
        raise ValueError(f"positional_encodings: table must be (positions, size), got {came}; pick one item")
    vectors = table.double()
    length = vectors.norm(dim=-1, keepdim=True)
    unit = vectors / length.clamp(min=1e-300)
    reach = float(vectors.abs().max()) or 1.0
    with figure_style():
        figure = Figure(figsize=(6.6, 2.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
        for axes, values, top, title, below in (
            (left, vectors, reach, "encodings", "dimension"),
            (right, unit @ unit.mT, 1.0, "cosine of two positions", "position"),
        ):
            image = axes.imshow(
                values.numpy(), cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest"
            )
            axes.set_title(title, loc="left", pad=3)
            axes.set(xlabel=below, ylabel="position")
            axes.locator_params(integer=True)
            bar = figure.colorbar(image, ax=axes, aspect=28, pad=0.02)
            bar.outline.set_visible(False)  # type: ignore[operator]
            bar.ax.tick_params(length=0, labelsize=7.5, pad=2)
            bar.ax.locator_params(nbins=5)
    return figure
