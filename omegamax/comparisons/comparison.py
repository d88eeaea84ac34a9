"""Trains the same task under several normalizers, each at its own defaults, and compares the models.

    compare("dates", {"softmax": settings, "fusedmax": settings, ...}, training, Path("report"))

Every model has a run of its own below `out/runs`. The numbers are written to `out/comparison.json`; report.py makes a
page of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from omegamax.comparisons.examples import AttentionExamples, collect_examples
from omegamax.comparisons.statistics import attention_statistics, deviation_of, mean_of
from omegamax.data.files import refuse_links, write_file
from omegamax.recipes.train_and_test import RunResult, train_and_test
from omegamax.training import checkpoints
from omegamax.training.metrics_log import read_metrics
from omegamax.training.progress import Progress, progress_on
from omegamax.training.resources import using_threads
from omegamax.training.runs import RunDirectory
from omegamax.training.settings import TrainingSettings, to_dict
from omegamax.training.task import Task

COMPARISON, PAGE, FIGURES = "comparison.json", "index.html", "figures"
_N_BUCKETS = 4  # ranges of input lengths


@dataclass(frozen=True)
class ModelResult:
    """The numbers of one model; it holds JSON values only."""

    name: str
    metrics: dict[str, float]  # on the test data; of several seeds, the mean
    attention: dict[str, float] | None  # see AttentionStatistics; None without attention
    tokens_per_second: float | None  # while training
    seconds: float  # of training, with its evaluations
    by_length: dict[str, float]  # the watched metric for each range of input lengths
    curves: dict[str, list[float | None]]  # per epoch: the loss and the metrics on the development data
    losses: list[float]  # every `log_every` steps
    seeds: list[int]
    deviations: dict[str, float]  # of the metrics over seeds; empty for one seed
    metrics_by_seed: list[dict[str, float]]


@dataclass(frozen=True)
class Comparison:
    """The results of all models of one task."""

    task: str
    metric: str
    models: list[ModelResult]
    examples: dict[str, AttentionExamples]  # by the name of the model; not in comparison.json


def compare(
    task: str,
    settings: Mapping[str, Any],
    training: TrainingSettings,
    out: Path,
    *,
    seeds: Sequence[int] = (),
    existing: str = "refuse",
    progress: Progress | None = None,
) -> Comparison | None:
    """Trains a model for each of the settings, which have names; returns None if training was interrupted.

    With several seeds each model is trained once for each of them, and numbers are means; examples are of the first.
    """
    progress = progress_on() if progress is None else progress
    seeds = tuple(seeds) or (training.seed,)
    paths = {(name, seed): run_path(out, name, seed if len(seeds) > 1 else None) for name in settings for seed in seeds}
    _refuse_links(out, paths.values())  # before any work is done
    for path in paths.values():
        RunDirectory(path, existing).check()
    found: dict[str, list[ModelResult]] = {name: [] for name in settings}
    examples: dict[str, AttentionExamples] = {}
    metric = ""
    for place, ((name, seed), path) in enumerate(paths.items(), start=1):
        progress.message(f"{name}{f', seed {seed}' if len(seeds) > 1 else ''} ({place} of {len(paths)})")
        result = train_and_test(task, settings[name], replace(training, seed=seed), path, existing=existing)
        if result is None or result.best is None:
            return None
        metric = result.best.task.metric
        with using_threads(result.training.threads):
            collected = collect_examples(result.best, result.outputs)
        examples.setdefault(name, collected)
        found[name].append(_model_result(name, result, result.best.task, collected, path, seed))
    models = [_merge(several) for several in found.values()]
    comparison = Comparison(task, metric, models, examples)
    record: dict[str, Any] = {
        "versions": checkpoints.versions(),
        "training": to_dict(training),
        "task": task,
        "metric": metric,
    }
    record |= {"models": [asdict(model) for model in models]}
    record |= {"settings": {name: to_dict(each) for name, each in settings.items()}}
    write_file(out / COMPARISON, (json.dumps(record, indent=1) + "\n").encode())
    return comparison


def _merge(several: Sequence[ModelResult]) -> ModelResult:
    """Merges the results of one model under several seeds into one."""
    first = several[0]
    if len(several) == 1:
        return first
    metrics = [each.metrics for each in several]
    counts = [each.attention for each in several if each.attention is not None]
    speeds = [each.tokens_per_second for each in several if each.tokens_per_second is not None]
    return replace(
        first,
        metrics=mean_of(metrics),
        attention=mean_of(counts) if counts else None,
        tokens_per_second=median(speeds) if speeds else None,
        seconds=round(sum(each.seconds for each in several), 1),
        by_length=mean_of([each.by_length for each in several]),
        curves={name: _mean_curve([each.curves[name] for each in several]) for name in first.curves},
        losses=[fmean(values) for values in zip(*(each.losses for each in several))],
        seeds=[seed for each in several for seed in each.seeds],
        deviations=deviation_of(metrics),
        metrics_by_seed=metrics,
    )


def _mean_curve(curves: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Returns the mean of curves, as long as the shortest, since one may have stopped early; None if one value is."""
    return [None if None in values else fmean(value or 0.0 for value in values) for values in zip(*curves)]


def _refuse_links(out: Path, runs: Iterable[Path]) -> None:
    refuse_links(out / name for name in (COMPARISON, PAGE, FIGURES, "runs"))
    refuse_links(runs)
    if (out / FIGURES).is_dir():
        refuse_links((out / FIGURES).iterdir())


def run_path(out: Path, name: str, seed: int | None = None) -> Path:
    """Returns the directory of the run of one normalizer, or of one of its seeds."""
    plain_name = name.replace("(", "-").replace(")", "")
    return out / "runs" / (plain_name if seed is None else f"{plain_name}-seed-{seed}")


def _model_result(
    name: str, result: RunResult, task: Task, examples: AttentionExamples, path: Path, seed: int
) -> ModelResult:
    statistics = attention_statistics(examples.maps)
    records = read_metrics(path)
    speeds = [[each["items_per_second"] for each in records if each["event"] == event] for event in ("step", "epoch")]
    epochs = [record for record in records if record["event"] == "epoch"]
    curves: dict[str, list[float | None]] = {"loss": [record["loss"] for record in epochs]}
    for metric in epochs[0]["metrics"] if epochs else ():
        curves[metric] = [record["metrics"].get(metric) for record in epochs]
    return ModelResult(
        name=name,
        metrics=result.evaluation["test"],
        attention=None if statistics is None else dict(statistics._asdict()),
        tokens_per_second=next((median(each) for each in speeds if each), None),  # a short run has no lines of steps
        seconds=round(result.training.seconds, 1),
        by_length=_by_length(task, task.examples("test"), result.outputs),
        curves=curves,
        losses=[record["loss"] for record in records if record["event"] == "step"],
        seeds=[seed],
        deviations={},
        metrics_by_seed=[result.evaluation["test"]],
    )


def _by_length(task: Task, examples: Sequence[Any], lines: Sequence[str]) -> dict[str, float]:
    """Returns the metric on quarters of the test data, from the shortest inputs to the longest."""
    scores = {}
    for low, high, places in length_buckets([task.length(example) for example in examples], _N_BUCKETS):
        name = f"{low}" if low == high else f"{low}–{high}"
        scores[name] = task.score([examples[at] for at in places], [lines[at] for at in places])[task.metric]
    return scores


def length_buckets(lengths: Sequence[int], n_buckets: int) -> list[tuple[int, int, list[int]]]:
    """Returns (shortest, longest, positions) of about equally many examples each; no length is in two of them.

    >>> length_buckets([5, 1, 2, 2, 9, 3], 3)
    [(1, 2, [1, 2, 3]), (3, 3, [5]), (5, 9, [0, 4])]
    """
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    buckets: list[tuple[int, int, list[int]]] = []
    start = 0
    for bucket in range(1, n_buckets + 1):
        stop = max(start, round(bucket * len(order) / n_buckets))
        while 0 < stop < len(order) and lengths[order[stop]] == lengths[order[stop - 1]]:
            stop += 1
        if stop > start:
            buckets.append((lengths[order[start]], lengths[order[stop - 1]], order[start:stop]))
        start = stop
    return buckets
