"""Draws how far probabilities can be trusted: what came true, by what was said to be probable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from omegamax.plots import typesetting
from omegamax.plots.style import INK, figure_style, palette

_LARGEST = 130.0  # points², the area of the dot of the fullest bin


def reliability_plot(models: Mapping[str, Sequence[tuple[float, float, float]]], *, of: str = "answers") -> Figure:
    """Draws the share of right answers by their probability, by the name of the model; the diagonal is ideal.

    Arguments:
        models: bins of each model as (count, mean probability, share of right ones)
        of: what has the probabilities, in the plural

    Dots grow with the number of answers in their bin. Below the diagonal a model is too sure, above it too careful.
    """
    for name, bins in models.items():
        for count, probability, right in bins:
            if not (count > 0 and 0 <= probability <= 1 and 0 <= right <= 1):
                raise ValueError(
                    f"reliability_plot: a bin must be a positive count, a probability and a share from 0 to 1, got "
                    f"{(count, probability, right)} for {name}; leave empty bins out"
                )
    if not any(models.values()):
        raise ValueError(f"reliability_plot: models must have bins, got {dict(models)}; give at least one")
    fullest = max(count for bins in models.values() for count, *_ in bins)
    with figure_style([*models, of]):
        figure = Figure(figsize=(3.9 if len(models) == 1 else 4.9, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], "--", color=INK, linewidth=0.8, zorder=1)
        lines = []
        for name, (colour, line) in palette(models).items():
            counts, probabilities, rights = zip(*models[name]) if models[name] else ((), (), ())
            lines += axes.plot(probabilities, rights, line, color=colour, linewidth=1.2, zorder=2)
            sizes = [max(4.0, _LARGEST * count / fullest) for count in counts]
            axes.scatter(probabilities, rights, sizes, color=colour, alpha=0.75, linewidths=0, zorder=3, clip_on=False)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel(f"probability of {typesetting.printable(of)}")
        axes.set_ylabel("share that is right")
        axes.grid()
        axes.set_axisbelow(True)
        if len(models) == 1:
            axes.set_title(typesetting.title(next(iter(models))))
        else:
            figure.legend(lines, [typesetting.title(name) for name in models], loc="outside right upper")
    return figure
