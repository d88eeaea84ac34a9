"""The command `omegamax train`, which trains a model on a task and tests it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.cli.parser import Parser
from omegamax.cli.settings_options import add_task_settings, chosen_settings
from omegamax.cli.tables import aligned, number, terminal_width
from omegamax.data.printable import printable
from omegamax.recipes.settings import AttentionSettings
from omegamax.recipes.tasks import TASKS, TaskEntry

HELP = "train a model on a task"
DESCRIPTION = """\
Trains a model, evaluates it after every epoch, and keeps the best. Everything
of a run is in one directory: config.json, metrics.jsonl, checkpoints/ and, at
the end, evaluation.json."""
EXAMPLES = """\
examples:
  omegamax train dates                            generated data, softmax
  omegamax train dates --attention fusedmax --strength 0.2 --out runs/fused
  omegamax train seq2seq --data pairs.tsv --level word --attention sparsemax
  omegamax train language --attention sparsemax --quick
  omegamax train translate --data en-de --model transformer --attention entmax15
  omegamax train dates --out runs/fused --resume  after kill -9: the same bits
  omegamax train dates --config dates.toml --seed 1
  torchrun --nproc-per-node=2 -m omegamax train dates
                                                  two processes, same result
  omegamax train dates --help                     the options of a task"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each task."""
    # dest is not "task": the recipe `memory` has a setting of that name.
    tasks = parser.add_subparsers(dest="recipe", metavar="task", required=True, parser_class=Parser)
    for name, entry in TASKS.items():
        tasks.add_parser(
            name,
            help=entry.summary,
            description=textwrap.fill(f"Trains a model: {entry.summary}.", 80),
            epilog=f"example:\n  omegamax train {name} {_example(entry)} --epochs 5 --out runs/{name}",
            fill=partial(_add_options, entry),
        )


def _example(entry: TaskEntry) -> str:
    return "--attention sparsemax" if issubclass(entry.settings_class(), AttentionSettings) else "--loss l2"


def _add_options(entry: TaskEntry, parser: argparse.ArgumentParser) -> None:
    add_task_settings(parser, entry)
    add_output(parser, "where the run is written (default: runs/TASK-VARIANT)")


def add_output(parser: argparse.ArgumentParser, help: str) -> None:
    """Adds --out, --resume and --overwrite."""
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="DIR", type=Path, help=help)
    existing = group.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue the run in DIR")
    existing.add_argument("--overwrite", action="store_true", help="replace the run in DIR")


def existing(options: argparse.Namespace) -> str:
    """Returns what to do with a run that is in the directory already."""
    return "resume" if options.resume else "overwrite" if options.overwrite else "refuse"


def run(options: argparse.Namespace) -> int:
    """Trains, evaluates the best model on the test data, and prints the metrics."""
    settings, training = chosen_settings(options.recipe, options)
    out = options.out or Path("runs") / f"{options.recipe}-{settings.variant}"
    if options.resume:
        settings, training = chosen_settings(options.recipe, options, stored_settings(options.recipe, out))
    from omegamax.recipes.train_and_test import train_and_test

    result = train_and_test(options.recipe, settings, training, out, existing=existing(options))
    if result is None:  # this process is not rank 0
        return 0
    if result.training.outcome == "interrupted":
        print("omegamax train: stopped; continue with the same command and --resume", file=sys.stderr)
        return 130
    print(table(result.evaluation))
    print(f"\n{result.training.outcome} after {result.training.epochs} epochs; the run is in {printable(out)}")
    return 0


def stored_settings(task: str, out: Path) -> dict[str, Any]:
    """Returns the settings of the run that is resumed, for those that are not given again."""
    from omegamax.training.runs import read_run_config

    config = read_run_config(out) or {}
    if config.get("task", task) != task:
        raise CommandError(
            f"{out} is a run of {config['task']}, not of {task}; name that task, or choose another --out"
        )
    return {**config.get("settings", {}), **config.get("training", {})}


def table(evaluation: dict[str, dict[str, float]]) -> str:
    """Returns a table of the metrics of each split."""
    names = list(dict.fromkeys(name for metrics in evaluation.values() for name in metrics))
    rows = [["", *evaluation]]
    rows += [[name, *(number(metrics.get(name)) for metrics in evaluation.values())] for name in names]
    return aligned(rows, terminal_width())
