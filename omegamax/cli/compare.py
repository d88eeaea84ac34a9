"""The command `omegamax compare`, which trains one task under several normalizers and writes a report."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from omegamax import operator_table
from omegamax.cli.errors import CommandError, as_command_errors
from omegamax.cli.parser import Parser
from omegamax.cli.settings_options import add_task_settings, chosen_settings
from omegamax.cli.tables import aligned, number, terminal_width
from omegamax.cli.train import add_output, existing, stored_settings
from omegamax.data.printable import printable, short_repr
from omegamax.recipes.settings import AttentionSettings
from omegamax.recipes.tasks import TASKS, TaskEntry

HELP = "train one task under several normalizers: a table and a report"
DESCRIPTION = """\
Trains the same model with several normalizers, each at its own defaults, and
prints one line for each: the metrics, how many positions have weight (support),
in how many runs of equal neighbours (segments) of which length, with how many
different weights (clusters), the speed of training, and the metric by length of
the input. Writes DIR/index.html: a page that needs no network, with learning
curves and the attention of all models side by side."""
EXAMPLES = """\
examples:
  omegamax compare dates
  omegamax compare dates --attention softmax,fusedmax,none --out report
  omegamax compare dates --attention "fusedmax(0.05),fusedmax(0.2)"
                                                  the number is the strength
  omegamax compare seq2seq --data pairs.tsv --attention softmax,sparsemax
  omegamax compare seq2seq --attention softmax,sparsemax --resume
  omegamax compare dates --seeds 3                means and deviations"""

_PARAMETERS = {facts.function: facts.options[0] for facts in operator_table.for_attention() if facts.options}
_ATTENTION = ("attention", *dict.fromkeys(_PARAMETERS.values()))  # what differs from model to model
_MOST_SEEDS = 100
_COLUMNS = ("support", "segments", "segment_length", "clusters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each task."""
    # dest is not "task": the recipe `memory` has a setting of that name.
    tasks = parser.add_subparsers(dest="recipe", metavar="task", required=True, parser_class=Parser)
    for name, entry in TASKS.items():
        if not issubclass(entry.settings_class(), AttentionSettings):
            continue  # without attention there are no normalizers to compare
        tasks.add_parser(
            name,
            help=entry.summary,
            description=DESCRIPTION,
            epilog=f"example:\n  omegamax compare {name} --attention softmax,fusedmax --out report",
            fill=partial(_add_options, entry),
        )


def _add_options(entry: TaskEntry, parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attention",
        dest="normalizers",
        metavar="LIST",
        default="softmax,sparsemax,fusedmax,oscarmax",
        help="comma-separated, with a parameter in brackets (default: softmax,sparsemax,fusedmax,oscarmax)",
    )
    parser.add_argument(
        "--seeds",
        metavar="N",
        help="train each with several seeds, and give means and deviations: how many, from --seed on, or a list "
        "such as 1,5,9 (default: 1)",
    )
    add_task_settings(parser, entry, without=_ATTENTION)
    add_output(parser, "where the report and its runs are written (default: comparisons/TASK)")


def run(options: argparse.Namespace) -> int:
    """Trains all models, prints the comparison, and writes the report."""
    normalizers = parse_normalizers(options.normalizers)
    out = options.out or Path("comparisons") / options.recipe
    settings, training = chosen_settings(
        options.recipe, options, _stored(options.recipe, out) if options.resume else None
    )
    seeds = parse_seeds(options.seeds, training.seed)
    training = dataclasses.replace(training, seed=seeds[0])
    if settings.attention != "softmax":  # from a file; here the list decides
        settings = dataclasses.replace(settings, **{**dict.fromkeys(_ATTENTION), "attention": "softmax"})
    with as_command_errors(ValueError):
        several = {name: dataclasses.replace(settings, **each) for name, each in normalizers.items()}
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CommandError(
            "compare runs in one process, and torchrun started several; train each normalizer with torchrun"
        )
    from omegamax.comparisons.comparison import COMPARISON, FIGURES, PAGE, compare
    from omegamax.comparisons.report import write_report
    from omegamax.recipes.normalizers import check_attention

    import_module("omegamax.plots")  # so that a missing package is noticed now rather than after training
    with as_command_errors(ValueError):
        for each in several.values():
            check_attention(each)
    if (out / COMPARISON).exists() and existing(options) == "refuse":
        raise CommandError(f"{out} holds a comparison already; say --resume, --overwrite, or choose another --out")
    foreign = [name for name in (PAGE, FIGURES) if (out / name).exists()]
    if foreign and not (out / COMPARISON).exists() and not options.overwrite:
        raise CommandError(f"{out} has a {foreign[0]} of something else; say --overwrite, or choose another --out")
    comparison = compare(options.recipe, several, training, out, seeds=seeds, existing=existing(options))
    if comparison is None:
        return 130
    print(table(comparison))
    print(f"\nReport: {printable(write_report(comparison, several, training, out))}")
    return 0


def _stored(task: str, out: Path) -> dict[str, Any]:
    """Returns the settings that all runs of the resumed comparison share, for those that are not given again."""
    runs = sorted(path for path in (out / "runs").glob("*") if path.is_dir()) if (out / "runs").is_dir() else []
    several = [stored_settings(task, path) for path in runs]
    stored = {} if not several else {**several[0], "seed": min(each.get("seed", 0) for each in several)}
    return {name: value for name, value in stored.items() if name not in _ATTENTION}


def parse_seeds(text: str | None, first: int) -> list[int]:
    """Reads --seeds: how many seeds, from the first on, or a list of them.

    >>> parse_seeds(None, 5), parse_seeds("3", 5), parse_seeds("1,9", 5)
    ([5], [5, 6, 7], [1, 9])
    """
    if text is None:
        return [first]
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError:
        numbers = [-1]
    if "," not in text:
        numbers = [first + more for more in range(numbers[0])] if 1 <= numbers[0] <= _MOST_SEEDS else [-1]
    if min(numbers) < 0 or max(numbers) >= 2**63 or not 1 <= len(set(numbers)) == len(numbers) <= _MOST_SEEDS:
        raise CommandError(
            f"--seeds must be a count from 1 to {_MOST_SEEDS} or a list of different seeds such as 1,5,9, "
            f"got {short_repr(text)}; correct it"
        )
    return numbers


def parse_normalizers(normalizers: str) -> dict[str, dict[str, Any]]:
    """Reads --attention: attention settings by name.

    >>> parse_normalizers("softmax, fusedmax(0.2)")
    {'softmax': {'attention': 'softmax'}, 'fusedmax(0.2)': {'attention': 'fusedmax', 'strength': 0.2}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name in (each.strip() for each in normalizers.split(",")):
        match = re.fullmatch(r"(\w+)(?:\(([^)]+)\))?", name)
        if match is None:
            raise CommandError(f"--attention must be names such as softmax,fusedmax(0.2), got {normalizers!r}")
        settings: dict[str, Any] = {"attention": match[1]}
        if match[2] is not None:
            if match[1] not in _PARAMETERS:
                raise CommandError(
                    f"--attention: {match[1]} takes no parameter in brackets, got {name!r}; leave it out"
                )
            try:
                settings[_PARAMETERS[match[1]]] = float(match[2])
            except ValueError:
                raise CommandError(
                    f"--attention: the parameter of {match[1]} must be a number, got {match[2]!r}"
                ) from None
        if name in found:
            raise CommandError(f"--attention names {name} twice; once is enough")
        found[name] = settings
    return found


def table(comparison: Any) -> str:
    """Returns a table with one line for each model, and a second one by the length of inputs."""
    from omegamax.comparisons.report import with_deviation

    width = terminal_width()
    metrics = list(comparison.models[0].metrics)
    rows = [["", *metrics, *(name.replace("_", " ") for name in _COLUMNS), "tokens/s"]]
    for model in comparison.models:
        counts = model.attention or {}
        scores = [with_deviation(model.metrics.get(name), model.deviations.get(name)) for name in metrics]
        rows.append([model.name, *scores, *(number(counts.get(name)) for name in _COLUMNS)])
        rows[-1].append(number(model.tokens_per_second))
    lengths = list(comparison.models[0].by_length)
    by_length = [[f"{comparison.metric} by input length", *lengths]]
    by_length += [[model.name, *(number(model.by_length.get(name)) for name in lengths)] for model in comparison.models]
    return f"{aligned(rows, width)}\n\n{aligned(by_length, width)}\n\n{_verdict(comparison)}"


def _verdict(comparison: Any) -> str:
    """Says which model is clearly best, if any is."""
    from omegamax.comparisons.statistics import clearly_best

    models, metric = comparison.models, comparison.metric
    n_seeds = len(models[0].seeds)
    if len(models) == 1:
        return f"{metric} of one model over {n_seeds} seeds" if n_seeds > 1 else f"{metric} of one model"
    if n_seeds == 1:
        return "One seed: small differences are chance; --seeds 3 shows how large it is."
    best = clearly_best([[each[metric] for each in model.metrics_by_seed] for model in models])
    if best is None:
        return f"No model has a clearly higher {metric} than all others over {n_seeds} seeds."
    return f"{models[best].name} has a clearly higher {metric} than all others over {n_seeds} seeds."
