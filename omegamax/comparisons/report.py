"""Writes a comparison as a web page: the table, the learning curves, and the attention of each model."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

from omegamax.comparisons.comparison import FIGURES, PAGE, Comparison, ModelResult
from omegamax.comparisons.page import Page
from omegamax.comparisons.statistics import clearly_best
from omegamax.data.files import make_directory, write_file
from omegamax.data.printable import printable
from omegamax.data.vocabulary import join_tokens
from omegamax.training import checkpoints
from omegamax.training.settings import TrainingSettings
from omegamax.training.task import AttentionMap

_PIXELS = 115  # CSS pixels per inch of a figure: a little larger than print

_COUNTS = {
    "support": "support",
    "segments": "segments",
    "segment_length": "segment length",
    "clusters": "clusters",
}


def write_report(comparison: Comparison, settings: Mapping[str, Any], training: TrainingSettings, out: Path) -> Path:
    """Writes out/index.html, and its pictures also as files in out/figures; returns the path of the page."""
    page = Page(f"{comparison.task}: attention under {len(comparison.models)} normalizers")
    page.paragraph(
        "Model, data and seeds are the same; only the map from scores to attention weights differs. Metrics are on "
        "test data that was used once, after training, by the model that was best on the development data.",
    )
    _add_table(page, comparison)
    _add_curves(page, comparison, training.log_every, out)
    first = next(iter(settings.values()))
    _add_attention(page, comparison, getattr(first, "level", "word"), out)
    page.heading("Made with")
    page.paragraph(", ".join(f"{name} {version}" for name, version in checkpoints.versions().items()), small=True)
    for what, values in (("The task", {**vars(first), "attention": None}), ("Training", vars(training))):
        chosen = [f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value not in (None, "")]
        page.paragraph(f"{what}: {', '.join(chosen)}.", small=True)
    path = out / PAGE
    write_file(path, page.html().encode())
    return path


def _add_table(page: Page, comparison: Comparison) -> None:
    models, metrics = comparison.models, list(comparison.models[0].metrics)
    header = ["", *(name.replace("_", " ") for name in metrics), *_COUNTS.values(), "tokens/s"]
    rows = [[model.name, *_metrics(model, metrics), *_counts(model), _speed(model)] for model in models]
    chosen = clearly_best([[each[comparison.metric] for each in model.metrics_by_seed] for model in models])
    best = set() if chosen is None else {chosen}
    column = metrics.index(comparison.metric) + 1
    page.table(header, rows, best=[best if at == column else set() for at in range(column + 1)])
    if len(models[0].seeds) > 1:
        seeds = ", ".join(map(str, models[0].seeds))
        page.paragraph(
            f"Means over the seeds {seeds}, ± one standard deviation. Bold: higher than all others by more than chance "
            "(Welch's test at 5 %).",
            small=True,
        )
    else:
        page.paragraph("One seed: small differences are chance. --seeds 3 would show how large it is.", small=True)
    page.paragraph(
        "Per row of attention, on average: support is how many positions have weight; segments are runs of neighbours "
        "with exactly equal weight; clusters are different weights. Tokens per second while training, on this machine.",
        small=True,
    )


def with_deviation(value: float | None, deviation: float | None) -> str:
    """Writes a number with its deviation, where there is one, to as many places as make sense.

    >>> with_deviation(0.98765, None), with_deviation(0.98765, 0.0123), with_deviation(None, None)
    ('0.9877', '0.988 ± 0.012', '–')
    """
    if value is None:
        return "–"
    if not deviation or not math.isfinite(deviation):
        return f"{value:.4g}" if deviation is None else f"{value:.4g} ± {deviation:.2g}"
    places = max(0, 1 - math.floor(math.log10(deviation)))
    return f"{value:.{places}f} ± {deviation:.{places}f}"


def _metrics(model: ModelResult, names: Sequence[str]) -> list[str]:
    return [with_deviation(model.metrics.get(name), model.deviations.get(name)) for name in names]


def _counts(model: ModelResult) -> list[str]:
    return ["–" if model.attention is None else f"{model.attention[name]:.2f}" for name in _COUNTS]


def _speed(model: ModelResult) -> str:
    return "–" if model.tokens_per_second is None else f"{model.tokens_per_second:.0f}"


def _add_curves(page: Page, comparison: Comparison, log_every: int, out: Path) -> None:
    from omegamax import plots

    page.heading("Learning")
    name = comparison.metric.replace("_", " ")
    runs = {model.name: _with_nan(model.curves.get(comparison.metric, [])) for model in comparison.models}
    if any(runs.values()):
        figure = plots.learning_curves(runs, metric=name)
        _add_picture(page, figure, out, "curve-metric", f"{name} on the development data after each epoch")
    losses = {model.name: model.losses for model in comparison.models}
    if all(len(each) > 1 for each in losses.values()):
        figure = plots.learning_curves(losses, metric="loss", unit=f"{log_every} steps")
        _add_picture(page, figure, out, "curve-loss", f"loss on the training data, means over {log_every} steps")
    by_length: dict[str, dict[Any, float]] = {model.name: dict(model.by_length) for model in comparison.models}
    if any(by_length.values()):
        figure = plots.accuracy_by_length(
            by_length, metric=comparison.metric.replace("_", " "), unit="input length (tokens)"
        )
        name = comparison.metric.replace("_", " ")
        _add_picture(page, figure, out, "by-length", f"{name} by the length of the input, on the test data")
        header = ["input length (tokens)", *next(iter(by_length.values()))]
        page.table(
            header, [[name, *(f"{each.get(key, nan):.4g}" for key in header[1:])] for name, each in by_length.items()]
        )


def _with_nan(numbers: Sequence[float | None]) -> list[float]:
    return [float("nan") if number is None else number for number in numbers]


def _add_attention(page: Page, comparison: Comparison, level: str, out: Path) -> None:
    """Adds the attention of all models for some inputs, and the sizes of their supports."""
    from omegamax import plots

    with_maps = {name: each for name, each in comparison.examples.items() if each.maps}
    if not with_maps:
        return
    page.heading("Attention")
    page.paragraph(
        "Rows are output tokens, columns input tokens. Grey is a weight of exactly zero; neighbours with exactly equal "
        "weight have no border between them; oscarmax's clusters carry the same mark.",
        small=True,
    )
    for place in range(len(next(iter(with_maps.values())).shown)):
        shown = {name: each.shown[place] for name, each in comparison.examples.items()}
        maps = {name: _to_draw(each.attention) for name, each in shown.items() if each.attention is not None}
        target = next(iter(shown.values())).target
        page.heading(join_tokens(next(iter(maps.values())).columns, level), level=3)
        if target:
            page.verdicts(target, [(name, each.output, each.output == target) for name, each in shown.items()])
        figure = plots.attention_maps(
            {name: each.weights for name, each in maps.items()},
            {name: each.rows for name, each in maps.items()},
            {name: each.columns for name, each in maps.items()},
            clusters={
                name: plots.clusters_of(each.weights) for name, each in maps.items() if name.startswith("oscarmax")
            },
            exact_zeros={name: not each.always_positive for name, each in maps.items()},
        )
        _add_picture(page, figure, out, f"attention-{place + 1}", "")
    rows = {name: [_to_draw(attention).weights for attention in each.maps] for name, each in with_maps.items()}
    page.heading("Support")
    _add_picture(
        page, plots.support_histograms(rows), out, "support", "how many positions have weight, over test inputs"
    )


def _to_draw(each: AttentionMap) -> AttentionMap:
    """Returns an attention map that can be drawn: the mean over heads, and printable tokens."""
    shown = each._replace(rows=[*map(printable, each.rows)], columns=[*map(printable, each.columns)])
    return shown._replace(weights=each.weights.mean(0)) if each.weights.dim() == 3 else shown


def _add_picture(page: Page, figure: Any, out: Path, name: str, caption: str) -> None:
    """Adds a picture to the page, and writes it to a file of its own."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    directory = out / FIGURES
    make_directory(directory)
    write_file(directory / f"{name}.png", stream.getvalue())
    width = round(figure.get_size_inches()[0] * _PIXELS)
    page.picture(stream.getvalue(), alternative=caption or name, caption=caption, width=width)
