"""Trains a recipe and tests it: prepare the data, train, take the best model, evaluate it on the test data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.data.files import write_file
from omegamax.recipes.tasks import load, prepare_task
from omegamax.training import checkpoints
from omegamax.training.loop import TrainingResult, train
from omegamax.training.prediction import TrainedModel, assess, score_predictions
from omegamax.training.processes import join_processes
from omegamax.training.progress import Progress
from omegamax.training.resources import using_threads
from omegamax.training.runs import EVALUATION, RunDirectory
from omegamax.training.settings import TrainingSettings, to_dict


class RunResult(NamedTuple):
    """The results of training and testing, on rank 0."""

    training: TrainingResult
    evaluation: dict[str, dict[str, float]]  # metrics by split
    best: TrainedModel | None = None  # the best model, and the task with its data; None if training was interrupted
    outputs: Sequence[str] = ()  # of the best model, for the test data: see Task.assess


def train_and_test(
    name: str,
    settings: Any,
    training: TrainingSettings,
    out: Path,
    *,
    existing: str = "refuse",
    progress: Progress | None = None,
) -> RunResult | None:
    """Trains the named recipe in the directory `out`; returns None on processes other than rank 0.

    The test data is used once, after training, by the model that was best on the development data. Its metrics go to
    evaluation.json with the settings, the seed and the versions they depend on.
    """
    directory = RunDirectory(out, existing)
    directory.check()
    with join_processes(training.device) as processes:
        task = prepare_task(name, settings)
        trained = train(task, training, directory, progress=progress, processes=processes)
        if trained.outcome == "interrupted":
            return RunResult(trained, {}) if processes.is_rank_zero else None
        best = load(out, task=type(task), device=processes.device)
        examples = task.examples("test")
        with using_threads(trained.threads):
            outputs = assess(task, best.model, examples, batch_size=training.batch_size, processes=processes)
            tested = score_predictions(task, examples, outputs, processes=processes) if len(examples) else {}
        dev = {metric: value for metric, value in trained.metrics.items() if value is not None}
        evaluation = {"dev": dev, "test": tested}
        if not processes.is_rank_zero:
            return None
        record = {"task": name, "metric": task.metric, "settings": to_dict(settings), "training": to_dict(training)}
        record |= {"versions": checkpoints.versions(), "evaluation": evaluation}
        write_file(out / EVALUATION, (json.dumps(record, indent=2) + "\n").encode())
    return RunResult(trained, evaluation, best._replace(task=task), outputs)
