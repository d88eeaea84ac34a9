"""Draws a metric by the length of the input, for several models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from matplotlib.figure import Figure

from omegamax.plots import typesetting
from omegamax.plots.learning import add_legend, draw_grid_lines
from omegamax.plots.style import figure_style, palette


def accuracy_by_length(
    scores: Mapping[str, Mapping[Hashable, float]],
    *,
    counts: Mapping[Hashable, int] | None = None,
    metric: str = "accuracy",
    unit: str = "input length",
) -> Figure:
    """Draws numbers by bucket of lengths, by the name of the model; a model may lack buckets.

    A bucket is a number, a pair (first, last), or a word. Numbers and pairs are sorted, words stay in the order in
    which they come. `counts` says how many inputs each bucket has, which is written under it.
    """
    buckets = _in_order({bucket: None for by_bucket in scores.values() for bucket in by_bucket})
    if not buckets:
        raise ValueError("accuracy_by_length: scores must have numbers, got none; give {name: {bucket: number}}")
    said = [_name(bucket) for bucket in buckets]
    if counts is not None:
        said = [f"{name}\nn = {counts.get(bucket, 0)}" for name, bucket in zip(said, buckets)]
    with figure_style([*scores, *said, metric, unit]):
        wide = 1.9 + min(5.0, max(2.4, 0.45 * len(buckets)))
        figure = Figure(figsize=(wide, max(2.5, 0.4 + 0.17 * len(scores))), layout="constrained")
        axes = figure.subplots()
        for name, (colour, line) in palette(scores).items():
            numbers = [float(scores[name].get(bucket, float("nan"))) for bucket in buckets]
            axes.plot(range(len(buckets)), numbers, line, color=colour, linewidth=1.3)
            axes.lines[-1].set(marker="o", markersize=3.5)
        axes.set_xticks(range(len(buckets)), said)
        if len(buckets) > 11:
            axes.tick_params(axis="x", rotation=90)
        axes.set(
            xlabel=typesetting.printable(unit), ylabel=typesetting.printable(metric), xlim=(-0.4, len(buckets) - 0.6)
        )
        draw_grid_lines(axes)
        add_legend(figure, axes, [typesetting.title(name) for name in scores])
    return figure


def _in_order(buckets: Mapping[Hashable, None]) -> list[Hashable]:
    numbers = [bucket for bucket in buckets if isinstance(bucket, int | float | tuple)]
    if len(numbers) < len(buckets):
        return list(buckets)
    return sorted(numbers, key=lambda bucket: bucket if isinstance(bucket, tuple) else (bucket,))


def _name(bucket: Hashable) -> str:
    if isinstance(bucket, tuple):
        return "–".join(str(end) for end in dict.fromkeys(bucket))
    return typesetting.label(bucket)
