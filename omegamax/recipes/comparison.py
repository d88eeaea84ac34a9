"""The same task under several normalizers, each at its own defaults: one line of numbers for each.

    compare("dates", {"softmax": settings, "fusedmax": settings, ...}, training, Path("report"))

Every model is a run of its own below `out/runs`, and what is compared is written to `out/comparison.json`, from which
the report is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from omegamax.recipes import atomic, checkpoint
from omegamax.recipes.attention_statistics import attention_statistics
from omegamax.recipes.experiment import Experiment, run_experiment
from omegamax.recipes.looks import Looks, looks
from omegamax.recipes.progress import Progress, shown_on
from omegamax.recipes.run import METRICS, RunDirectory
from omegamax.recipes.settings import TrainingSettings, plain
from omegamax.recipes.task import Task

COMPARISON = "comparison.json"
_N_BUCKETS = 4  # of input lengths


@dataclass(frozen=True)
class Compared:
    """One model: JSON values only."""

    name: str
    metrics: dict[str, float]  # on the test data
    attention: dict[str, float] | None  # see AttentionStatistics; None without attention
    tokens_per_second: float | None  # while training
    seconds: float  # of training, with its evaluations
    by_length: dict[str, float]  # the watched metric for each range of input lengths
    curves: dict[str, list[float | None]]  # per epoch: the loss and the metrics on the development data
    losses: list[float]  # every `log_every` steps


@dataclass(frozen=True)
class Comparison:
    """All models of one task."""

    task: str
    metric: str
    models: list[Compared]
    looks: dict[str, Looks]  # by name; not in comparison.json


def compare(
    task: str,
    settings: Mapping[str, Any],
    training: TrainingSettings,
    out: Path,
    *,
    existing: str = "refuse",
    progress: Progress | None = None,
) -> Comparison | None:
    """Trains each of the settings, by name, and compares the best models; None if it was interrupted."""
    progress = shown_on() if progress is None else progress
    for name in settings:  # before any work is done
        RunDirectory(run_path(out, name), existing).check()
    models, seen, metric = [], {}, ""
    for place, (name, each) in enumerate(settings.items(), start=1):
        progress.say(f"{name} ({place} of {len(settings)})")
        path = run_path(out, name)
        experiment = run_experiment(task, each, training, path, existing=existing)
        if experiment is None or experiment.best is None:
            return None
        metric = experiment.best.task.metric
        seen[name] = looks(experiment.best, experiment.outputs)
        models.append(_compared(name, experiment, experiment.best.task, seen[name], path))
    comparison = Comparison(task, metric, models, seen)
    record: dict[str, Any] = {
        "versions": checkpoint.versions(),
        "training": plain(training),
        "task": task,
        "metric": metric,
    }
    record |= {"models": [asdict(model) for model in models]}
    record |= {"settings": {name: plain(each) for name, each in settings.items()}}
    atomic.write_file(out / COMPARISON, (json.dumps(record, indent=1) + "\n").encode())
    return comparison


def run_path(out: Path, name: str) -> Path:
    """Where the run of one normalizer is."""
    return out / "runs" / name.replace("(", "-").replace(")", "")


def _compared(name: str, experiment: Experiment, task: Task, seen: Looks, path: Path) -> Compared:
    statistics = attention_statistics(seen.maps)
    records = [json.loads(line) for line in (path / METRICS).read_text(encoding="utf-8").splitlines()]
    speeds = [[each["items_per_second"] for each in records if each["event"] == event] for event in ("step", "epoch")]
    epochs = [record for record in records if record["event"] == "epoch"]
    curves: dict[str, list[float | None]] = {"loss": [record["loss"] for record in epochs]}
    for metric in epochs[0]["metrics"] if epochs else ():
        curves[metric] = [record["metrics"].get(metric) for record in epochs]
    return Compared(
        name=name,
        metrics=experiment.evaluation["test"],
        attention=None if statistics is None else dict(statistics._asdict()),
        tokens_per_second=next((median(each) for each in speeds if each), None),  # a short run has no lines of steps
        seconds=round(experiment.trained.seconds, 1),
        by_length=_by_length(task, task.examples("test"), experiment.outputs),
        curves=curves,
        losses=[record["loss"] for record in records if record["event"] == "step"],
    )


def _by_length(task: Task, examples: Sequence[Any], lines: Sequence[str]) -> dict[str, float]:
    """The metric on quarters of the test data, from its shortest inputs to its longest."""
    scores = {}
    for low, high, places in length_buckets([task.length(example) for example in examples], _N_BUCKETS):
        name = f"{low}" if low == high else f"{low}–{high}"
        scores[name] = task.score([examples[at] for at in places], [lines[at] for at in places])[task.metric]
    return scores


def length_buckets(lengths: Sequence[int], n_buckets: int) -> list[tuple[int, int, list[int]]]:
    """(shortest, longest, positions) of about equally many examples each; no length is in two of them.

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
