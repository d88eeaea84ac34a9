"""How many inputs get weight: histograms of support sizes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from omegamax.plots import glyphs
from omegamax.plots.arrays import drawables
from omegamax.plots.style import INK, bare, look, palette


def support_histograms(weights: Mapping[str, Tensor]) -> Figure:
    """The share of rows by the number of weights above zero, for weights (..., K) by name.

    Rows without any weight, such as padding, are left out. A dotted line marks the mean.
    """
    weights = drawables(weights)
    if not weights or not all(isinstance(given, Tensor) and given.dim() for given in weights.values()):
        came = {name: getattr(given, "shape", type(given).__name__) for name, given in weights.items()}
        raise ValueError(f"support_histograms: weights must be tensors (..., K) by name, got {came}; give at least one")
    sizes = {name: (given > 0).sum(-1).flatten() for name, given in weights.items()}
    sizes = {name: counts[counts > 0] for name, counts in sizes.items()}
    largest = max([1, *(int(counts.max()) for counts in sizes.values() if len(counts))])
    with look(weights):
        figure = Figure(
            figsize=(min(6.4, max(2.8, 0.6 + 0.16 * largest)), 0.45 + 0.78 * len(sizes)), layout="constrained"
        )
        grid = figure.subplots(len(sizes), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, (colour, _)) in zip(grid, palette(sizes).items()):
            counts = sizes[name]
            share = counts.bincount(minlength=largest + 1)[1:].double() / max(1, len(counts))
            axes.bar(
                range(1, largest + 1), share.tolist(), width=0.86 if largest <= 60 else 1.0, color=colour, linewidth=0
            )
            said = "no rows"
            if len(counts):
                mean = float(counts.double().mean())
                axes.axvline(mean, color=INK, linewidth=0.8, linestyle=":")
                said = f"{mean:.1f} on average"
            axes.set_title(glyphs.name(name) + f": {said}", loc="left", pad=2)
            axes.set(xlim=(0.4, largest + 0.6), ylim=(0, 1.08 * max(float(share.max()), 1e-9)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
            axes.locator_params(axis="y", nbins=3)
            axes.locator_params(axis="x", integer=True)
            bare(axes)
        grid[-1].set_xlabel("weights above zero in a row")
    return figure
