"""One cell of a benchmark of a recipe: a run of `omegamax train`, tested, and kept as a line beside the tables.

A cell that is finished is not computed again, and a run that was interrupted is resumed, so a benchmark can be stopped
at any time and go on, here or elsewhere.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import timing


def arguments(description: str | None, variants: Iterable[str], default: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Returns the options that these benchmarks share; all variants are run by default, or those of `default`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(variants)
    parser.add_argument("--runs", help="where the runs are kept")
    parser.add_argument("--variants", nargs="+", default=list(default) or names, choices=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="train nothing; write the tables of finished cells")
    parser.add_argument("--train-options", nargs=argparse.REMAINDER, default=[], help="the rest goes to omegamax train")
    return parser


def compute(
    recipe: str,
    wanted: Mapping[str, Any],
    given: Sequence[str],
    options: argparse.Namespace,
    test: Callable[[Path, int], Any] | None = None,
) -> dict[str, Any]:
    """Trains and tests one cell, or reads what an earlier call found.

    Arguments:
        recipe: its name, and that of the files of results
        wanted: what identifies the cell, its seed among it, in the order of the run's name
        given: the options of `omegamax train` that make the variant
        options: as parsed
        test: computes what is kept from the run and the number of threads; None runs `omegamax evaluate`
    """
    wanted = {**wanted, "more": [_without_folders(word) for word in options.train_options]}
    for cell in timing.read_cells(recipe):
        if wanted.items() <= cell.items():
            return cell
    names = [str(value) for key, value in wanted.items() if key not in ("kind", "more")]
    run = Path(options.runs) / "-".join([*names, *(word.strip("-.") for word in wanted["more"])])
    command = [sys.executable, "-m", "omegamax", "train", recipe, *given, "--seed", str(wanted["seed"])]
    command += ["--out", str(run), "--threads", str(options.threads), *options.train_options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    resumed = (run / "config.json").exists()
    subprocess.run([*command, "--resume"] if resumed else command, check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cell = {
        **wanted,
        "date": datetime.date.today().isoformat(),
        "options": ["--threads", str(options.threads)],
        # Processor time, because the machine is shared; that of a resumed run is not known.
        "seconds": None if resumed else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "test": evaluate(run, options.threads) if test is None else test(run, options.threads),
    }
    timing.add_cell(recipe, cell)
    return cell


def _without_folders(word: str) -> str:
    """Keeps the last part of a path, so that a cell says nothing of the machine that it was computed on."""
    return Path(word).name if "/" in word else word


def evaluate(run: Path, threads: int, *more: str) -> dict[str, Any]:
    """Returns what `omegamax evaluate --json` prints of a run."""
    command = [sys.executable, "-m", "omegamax", "evaluate", str(run), "--json", "--threads", str(threads), *more]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def spread(cells: Iterable[Mapping[str, Any]], metric: str, scale: float, digits: int) -> str:
    """Writes the mean of a metric, and after ± the largest distance from it if several cells have it."""
    values = [scale * cell["test"][metric] for cell in cells if metric in cell["test"]]
    if not values:
        return "–"
    mean = statistics.mean(values)
    apart = max(abs(value - mean) for value in values)
    return f"{mean:.{digits}f}" + (f" ± {apart:.{digits}f}" if len(values) > 1 else "")
