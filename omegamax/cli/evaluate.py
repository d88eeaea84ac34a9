"""The command `omegamax evaluate`, which prints the metrics of a trained model."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from omegamax.cli.parser import at_least
from omegamax.recipes.settings import MAX_BEAM
from omegamax.training.settings import MAX_THREADS

# Settings of a trained model that may be changed when it is used.
DECODING = ("beam", "length_penalty", "coverage_penalty", "unknown", "entity_threshold", "decoding")

HELP = "print the metrics of a trained model"
DESCRIPTION = """\
Prints the metrics of a trained model on a split of its own data, or on other
data, and how many examples and input tokens it read in a second."""
EXAMPLES = """\
examples:
  omegamax evaluate runs/dates-fusedmax         the best model on the test data
  omegamax evaluate runs/dates-fusedmax --split dev --checkpoint latest
  omegamax evaluate runs/translation --data newer.tsv --beam 5 --json
  torchrun --nproc-per-node=2 -m omegamax evaluate runs/dates-fusedmax"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, and the data to evaluate it on."""
    add_run(parser)
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), default="test", help="which split of the data (default: test)"
    )
    parser.add_argument(
        "--data",
        metavar="PATH",
        help="other data than the model was trained with; a single file is divided as for training, a tenth of it "
        "for its test split: name a directory with train.tsv, dev.tsv and test.tsv to evaluate on all of one",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--pictures",
        metavar="DIR",
        type=Path,
        help="draw what the task has pictures of, such as the reliability of a tagger's probabilities",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace pictures that exist")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that every command on a trained model has."""
    parser.add_argument("run_directory", metavar="RUN", type=Path, help="the --out of a training run, or a checkpoint")
    parser.add_argument(
        "--checkpoint",
        choices=("best", "latest"),
        default="best",
        help="which of the run's checkpoints (default: best)",
    )
    parser.add_argument(
        "--average",
        metavar="N",
        type=at_least(1, 10_000),
        default=1,
        help="average the parameters of the N latest checkpoints, of a run with --keep N (default: 1, none)",
    )
    parser.add_argument(
        "--beam", metavar="N", type=at_least(1, MAX_BEAM), help="hypotheses while decoding (default: as trained)"
    )
    parser.add_argument(
        "--entity-threshold",
        metavar="X",
        type=float,
        help="of a tagger: find entities with more probability than this; 0 takes the best sequence of tags "
        "(default: as trained)",
    )
    parser.add_argument(
        "--decoding",
        choices=("auto", "projective", "nonprojective"),
        help="trees among which a parser chooses (default: as trained)",
    )
    parser.add_argument(
        "--length-penalty",
        metavar="X",
        type=float,
        help="power of the length that scores of translations are divided by (default: as trained)",
    )
    parser.add_argument(
        "--coverage-penalty",
        metavar="X",
        type=float,
        help="cost of source tokens without attention, in scores of translations (default: as trained)",
    )
    parser.add_argument(
        "--unknown",
        choices=("copy", "forbid"),
        help="unknown words of translations: copied from the source, or forbidden (default: as trained)",
    )
    parser.add_argument(
        "--batch-size", metavar="N", type=at_least(1, 1_000_000), help="examples at a time (default: as trained)"
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(0, MAX_THREADS),
        default=0,
        help="threads of PyTorch; 0 takes 1 or all, whichever a trial finds faster (default: 0)",
    )
    parser.add_argument(
        "--device", metavar="NAME", default="auto", help="device to compute on: cpu, cuda, ... (default: auto)"
    )


def load_run(options: argparse.Namespace, device: Any, **changes: Any) -> Any:
    """Loads the model of a run; settings that are given replace those of the run, if the task has them."""
    from omegamax.cli.errors import CommandError, as_command_errors
    from omegamax.recipes.tasks import load

    found = load(options.run_directory, which=options.checkpoint, average=options.average, device=device)
    given = {name: getattr(options, name) for name in DECODING}
    wanted = {name: value for name, value in {**given, **changes}.items() if value is not None}
    names = {each.name for each in dataclasses.fields(found.task.settings)}
    for name in wanted:
        if name not in names:
            raise CommandError(f"{options.run_directory} is a task without --{name.replace('_', '-')}; leave it out")
    options.batch_size = options.batch_size or _trained_batch_size(found.card)
    if not wanted:
        return found
    with as_command_errors(ValueError):
        settings = dataclasses.replace(found.task.settings, **wanted)
        _check_positions(settings, getattr(found.task.settings, "max_positions", None))
        return found._replace(task=type(found.task).restore(settings, found.task.assets()))


def _check_positions(settings: Any, n_learned: int | None) -> None:
    """Raises ValueError for outputs that have more tokens than a model has learned positions; they begin with one."""
    if n_learned is not None and settings.max_length >= n_learned:
        raise ValueError(
            f"max_length must be at most {n_learned - 1}, because the model has learned {n_learned} positions, got "
            f"{settings.max_length}; change it with --max-length"
        )


def _trained_batch_size(card: Any) -> int:
    """Returns the batch size of training; 64 if the checkpoint names none that can be."""
    size = card.training.get("batch_size")
    return size if type(size) is int and 1 <= size <= 1_000_000 else 64


def choose_threads(
    options: argparse.Namespace, found: Any, examples: Any, processes: Any
) -> AbstractContextManager[None]:
    """Returns a context with the number of threads that --threads names, or that a trial finds faster."""
    from omegamax.training.resources import threads_for_prediction, using_threads

    if options.threads or processes.size > 1 or processes.device.type != "cpu":
        return using_threads(options.threads)
    return using_threads(threads_for_prediction(found.task, found.model, examples, options.batch_size))


def run(options: argparse.Namespace) -> None:
    """Prints the metrics on rank 0."""
    from omegamax.cli.train import table
    from omegamax.recipes.tasks import read_split
    from omegamax.training.prediction import evaluate, score_predictions
    from omegamax.training.processes import join_processes
    from omegamax.training.progress import progress_bar

    with join_processes(options.device) as processes:
        found = load_run(options, processes.device, data=options.data)
        examples = read_split(found.task, options.split)
        threads = choose_threads(options, found, examples, processes)
        with threads, progress_bar("evaluating", shown=processes.is_rank_zero) as on_batch:
            began = time.perf_counter()
            how: Any = {"batch_size": options.batch_size, "processes": processes, "on_batch": on_batch}
            metrics: dict[str, Any] = {}
            if found.task.inspects_quickly:
                lines = _inspect(options, found, examples, processes, on_batch)
                seconds = time.perf_counter() - began
            else:
                metrics = evaluate(found.task, found.model, examples, **how)
                seconds = time.perf_counter() - began
                lines = _inspect(options, found, examples, processes, on_batch)
        if lines is not None:
            metrics = score_predictions(found.task, examples, lines, processes=processes)
        metrics["tokens_per_second"] = sum(found.task.length(example) for example in examples) / seconds
        metrics["examples_per_second"] = len(examples) / seconds
        if processes.is_rank_zero:
            signatures = found.task.signatures(examples)
            if options.json and signatures:
                metrics["signatures"] = signatures
            if options.pictures is not None:
                _draw(options, found.task.draw_scores(examples, lines or []))
            print(json.dumps(metrics) if options.json else table({options.split: metrics}))


def _inspect(options: argparse.Namespace, found: Any, examples: Any, processes: Any, on_batch: Any) -> list[str] | None:
    """Returns the lines of the task's `inspect`, which has more in it than metrics after every epoch need; or None."""
    from omegamax.training.prediction import inspect
    from omegamax.training.task import Task

    if type(found.task).inspect is Task.inspect:
        return None
    return inspect(
        found.task, found.model, examples, batch_size=options.batch_size, processes=processes, on_batch=on_batch
    )


def _draw(options: argparse.Namespace, figures: dict[str, Any]) -> None:
    from omegamax.cli.errors import CommandError
    from omegamax.cli.output import check_pictures, make_writable, save_picture

    if not figures:
        raise CommandError(f"{options.run_directory} is a task without pictures of its metrics; leave --pictures out")
    make_writable(options.pictures)
    paths = {name: options.pictures / f"{name}.png" for name in figures}
    check_pictures(list(paths.values()), overwrite=options.overwrite)
    for name, figure in figures.items():
        save_picture(figure, paths[name])
