"""Draws learning curves: a metric by epoch, for several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from omegamax.plots import typesetting
from omegamax.plots.style import figure_style, hide_tick_marks, palette


def learning_curves(
    runs: Mapping[str, Sequence[float]], *, metric: str = "accuracy", unit: str = "epoch", first: int = 1
) -> Figure:
    """Draws numbers after each epoch, by the name of the run; runs may have different lengths.

    The legend has the last number of each run. A number that is missing (NaN) leaves a gap. `first` is the number of
    the first epoch.
    """
    curves = {name: [float(number) for number in numbers] for name, numbers in runs.items()}
    if not any(curves.values()):
        raise ValueError(f"learning_curves: runs must have numbers, got {dict(runs)}; give {{name: [0.1, 0.5, ...]}}")
    longest = max(map(len, curves.values()))
    with figure_style([*curves, metric, unit]):
        figure = Figure(figsize=(5.2, max(2.5, 0.4 + 0.17 * len(curves))), layout="constrained")
        axes = figure.subplots()
        for name, (colour, line) in palette(curves).items():
            epochs = range(first, first + len(curves[name]))
            axes.plot(epochs, curves[name], line, color=colour, linewidth=1.3)
            if longest <= 40:  # the dots of longer runs would overlap
                axes.lines[-1].set(marker="o", markersize=2.5)
        axes.set(xlabel=typesetting.printable(unit), ylabel=typesetting.printable(metric))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(first - max(0.3, 0.03 * longest), first + longest - 1 + max(0.3, 0.03 * longest))
        draw_grid_lines(axes)
        add_legend(figure, axes, [_with_last(name, numbers) for name, numbers in curves.items()])
    return figure


def add_legend(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    """Writes a name for each line beside the axes; by itself, matplotlib would leave out names such as _run."""
    figure.legend(axes.lines, names, loc="outside right upper", handlelength=1.8)


def draw_grid_lines(axes: Axes) -> None:
    """Draws faint horizontal lines, to read numbers by."""
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    hide_tick_marks(axes)


def _with_last(name: str, numbers: Sequence[float]) -> str:
    known = [number for number in numbers if math.isfinite(number)]
    return typesetting.title(name) + (f": {known[-1]:.4g}" if known else "")
