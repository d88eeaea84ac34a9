"""A comparison as a page: the table, the curves, and where each model looked."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import torch

from omegamax.recipes import atomic, checkpoint
from omegamax.recipes.comparison import Compared, Comparison
from omegamax.recipes.data.vocabulary import join_tokens
from omegamax.recipes.page import Page
from omegamax.recipes.settings import TrainingSettings
from omegamax.recipes.task import AttentionMap

PAGE, FIGURES = "index.html", "figures"
_PIXELS = 115  # CSS pixels per inch of a figure: a little larger than print

_COUNTS = {
    "support": "support",
    "segments": "segments",
    "segment_length": "segment length",
    "clusters": "clusters",
}


def write_report(comparison: Comparison, settings: Mapping[str, Any], training: TrainingSettings, out: Path) -> Path:
    """Writes out/index.html, and its pictures also as files in out/figures; returns the page."""
    page = Page(f"{comparison.task}: attention under {len(comparison.models)} normalizers")
    page.paragraph(
        "The same model, data and seed; only the map from scores to attention weights differs. Metrics are on test "
        "data that was looked at once, after training, by the model that was best on the development data.",
    )
    _add_table(page, comparison)
    _add_curves(page, comparison, training.log_every, out)
    first = next(iter(settings.values()))
    _add_attention(page, comparison, getattr(first, "level", "word"), out)
    page.heading("Made with")
    page.paragraph(", ".join(f"{name} {version}" for name, version in checkpoint.versions().items()), small=True)
    for what, values in (("The task", {**vars(first), "attention": None}), ("Training", vars(training))):
        chosen = [f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value not in (None, "")]
        page.paragraph(f"{what}: {', '.join(chosen)}.", small=True)
    path = out / PAGE
    atomic.write_file(path, page.html().encode())
    return path


def _add_table(page: Page, comparison: Comparison) -> None:
    models, metrics = comparison.models, list(comparison.models[0].metrics)
    header = ["", *(name.replace("_", " ") for name in metrics), *_COUNTS.values(), "tokens/s"]
    rows = [[model.name, *_metrics(model, metrics), *_counts(model), _speed(model)] for model in models]
    highest = max(model.metrics.get(comparison.metric, 0.0) for model in models)
    best = {at for at, model in enumerate(models) if model.metrics.get(comparison.metric) == highest}
    column = metrics.index(comparison.metric) + 1
    page.table(header, rows, best=[best if at == column else set() for at in range(column + 1)])
    page.paragraph(
        "Per row of attention, on average: support is how many positions have weight; segments are runs of neighbours "
        "with exactly equal weight; clusters are different weights. Tokens per second while training, on this machine.",
        small=True,
    )


def _metrics(model: Compared, names: Sequence[str]) -> list[str]:
    return [f"{model.metrics[name]:.4g}" if name in model.metrics else "–" for name in names]


def _counts(model: Compared) -> list[str]:
    return ["–" if model.attention is None else f"{model.attention[name]:.2f}" for name in _COUNTS]


def _speed(model: Compared) -> str:
    return "–" if model.tokens_per_second is None else f"{model.tokens_per_second:.0f}"


def _add_curves(page: Page, comparison: Comparison, log_every: int, out: Path) -> None:
    from omegamax import plots

    page.heading("Learning")
    name = comparison.metric.replace("_", " ")
    runs = {model.name: _known(model.curves.get(comparison.metric, [])) for model in comparison.models}
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


def _known(numbers: Sequence[float | None]) -> list[float]:
    return [float("nan") if number is None else number for number in numbers]


def _add_attention(page: Page, comparison: Comparison, level: str, out: Path) -> None:
    """The maps of all models for some inputs, and the sizes of their supports."""
    from omegamax import plots

    with_maps = {name: each for name, each in comparison.looks.items() if each.maps}
    if not with_maps:
        return
    page.heading("Attention")
    page.paragraph(
        "Rows are output tokens, columns input tokens. Grey is a weight of exactly zero; neighbours with exactly equal "
        "weight have no border between them; oscarmax's clusters carry the same mark.",
        small=True,
    )
    for place in range(len(next(iter(with_maps.values())).shown)):
        shown = {name: each.shown[place] for name, each in comparison.looks.items()}
        maps = {name: _flat(each.attention) for name, each in shown.items() if each.attention is not None}
        target = next(iter(shown.values())).target
        page.heading(join_tokens(next(iter(maps.values())).columns, level), level=3)
        page.verdicts(target, [(name, each.output, each.output == target) for name, each in shown.items()])
        figure = plots.attention_maps(
            {name: each.weights for name, each in maps.items()},
            {name: each.rows for name, each in maps.items()},
            {name: each.columns for name, each in maps.items()},
            clusters={
                name: plots.clusters_of(each.weights) for name, each in maps.items() if name.startswith("oscarmax")
            },
        )
        _add_picture(page, figure, out, f"attention-{place + 1}", "")
    rows = {name: _stacked([_flat(each).weights for each in look.maps]) for name, look in with_maps.items()}
    page.heading("Support")
    _add_picture(
        page, plots.support_histograms(rows), out, "support", "how many positions have weight, over test inputs"
    )


def _flat(each: AttentionMap) -> AttentionMap:
    """Of several heads, the mean."""
    return each._replace(weights=each.weights.mean(0)) if each.weights.dim() == 3 else each


def _stacked(maps: Sequence[torch.Tensor]) -> torch.Tensor:
    longest = max(weights.shape[-1] for weights in maps)
    return torch.cat([torch.nn.functional.pad(weights, (0, longest - weights.shape[-1])) for weights in maps])


def _add_picture(page: Page, figure: Any, out: Path, name: str, caption: str) -> None:
    """Into the page, and into a file of its own."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    directory = out / FIGURES
    directory.mkdir(parents=True, exist_ok=True)
    atomic.write_file(directory / f"{name}.png", stream.getvalue())
    width = round(figure.get_size_inches()[0] * _PIXELS)
    page.picture(stream.getvalue(), alternative=caption or name, caption=caption, width=width)
