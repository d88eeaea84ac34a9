"""A task from its name to its numbers: prepare, train, take the best model, evaluate it on the test data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.data import atomic
from omegamax.errors import DataError
from omegamax.recipes import TASKS, resolve
from omegamax.training import checkpoints as checkpoint
from omegamax.training.loading import Loaded, load
from omegamax.training.loop import Trained, train
from omegamax.training.prediction import predict, scored
from omegamax.training.processes import joined
from omegamax.training.progress import Progress
from omegamax.training.resources import using_threads
from omegamax.training.runs import EVALUATION, RunDirectory
from omegamax.training.settings import TrainingSettings, plain
from omegamax.training.task import Task


class Experiment(NamedTuple):
    """How it went, on the first of the processes."""

    trained: Trained
    evaluation: dict[str, dict[str, float]]  # metrics by split
    best: Loaded | None = None  # the best model, and the task with its data; None if training was interrupted
    outputs: Sequence[str] = ()  # what it wrote for the test data


def run_experiment(
    name: str,
    settings: Any,
    training: TrainingSettings,
    out: Path,
    *,
    existing: str = "refuse",
    progress: Progress | None = None,
) -> Experiment | None:
    """Trains the named task in `out`; None on processes that are not the first.

    The test data is looked at once, after training, by the model that was best on the development data; its metrics
    go to evaluation.json with the settings, the seed and the versions they depend on.
    """
    directory = RunDirectory(out, existing)
    directory.check()
    with joined(training.device) as crew:
        task = prepared(name, settings)
        trained = train(task, training, directory, progress=progress, crew=crew)
        if trained.outcome == "interrupted":
            return Experiment(trained, {}) if crew.first else None
        found = load(out, task=type(task), device=crew.device)
        examples = task.examples("test")
        with using_threads(trained.threads):
            outputs = predict(task, found.model, examples, batch_size=training.batch_size, crew=crew)
            tested = scored(task, examples, outputs, crew=crew) if len(examples) else {}
        evaluation = {"dev": _numbers(trained.metrics), "test": tested}
        if not crew.first:
            return None
        record = {"task": name, "metric": task.metric, "settings": plain(settings), "training": plain(training)}
        record |= {"versions": checkpoint.versions(), "evaluation": evaluation}
        atomic.write_file(out / EVALUATION, (json.dumps(record, indent=2) + "\n").encode())
    return Experiment(trained, evaluation, found._replace(task=task), outputs)


def prepared(name: str, settings: Any) -> Task:
    """The task with its data; DataError says which file or setting is wrong."""
    with _of_data():
        return resolve(TASKS[name].task).prepare(settings)


def read_lines(task: Task, lines: list[str]) -> list[Any]:
    """A user's own input as examples."""
    with _of_data():
        return task.read(lines)


def split_of(task: Task, split: str) -> Any:
    """The examples of a split, read now if they were not before."""
    with _of_data():
        examples = task.examples(split)
    if not len(examples):
        raise DataError(f"the split {split} has no examples; choose another one, or other data with --data")
    return examples


def _numbers(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if value is not None}


@contextmanager
def _of_data() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DataError(str(error)) from error
