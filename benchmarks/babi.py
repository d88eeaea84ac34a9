"""Memory networks on the 20 tasks of bAbI, one by one and together, under several normalizers.

The protocol is that of Sukhbaatar et al. (2015): ten runs from other beginnings for each task, of which the one with
the least training error counts; the mean of all runs stands beside it. A finished run is kept as a line of
results/babi_cells.jsonl and not trained again, so a benchmark that was stopped goes on, here or elsewhere. --tables
writes the tables of what is there, and says how many runs are missing.

    python benchmarks/babi.py --data DIR                                        DIR has qa1_..._train.txt, ...
    python benchmarks/babi.py --data DIR --kinds joint --attentions sparsemax --seeds 3
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import timing
import torch

from omegamax.recipes import TASKS, load
from omegamax.recipes.babi import StoryQuestions
from omegamax.recipes.settings import BabiSettings
from omegamax.training import RunDirectory, TrainingSettings, evaluate, train
from omegamax.training.progress import Silent

ATTENTIONS = ("softmax", "sparsemax", "entmax15")
NAME = "babi"  # of the files of results
N_TASKS = 20
SIZES = {"single": 20, "joint": 50}  # features of a word, as in the paper
# Beside the recipe's defaults, which are the paper's for one task. For all together the paper halves the rate after 15
# epochs, and ends after 60; the linear start comes before.
TRAINING = {"single": {}, "joint": {"epochs": 80, "pieces": "0.5x20,1x15,0.5x15,0.25x15,0.125x15"}}
# Errors in percent of Sukhbaatar et al. (2015), table 1: three hops, position encoding, linear start, random noise; the
# last column of each kind of training is their best one on 1,000 questions per task.
PUBLISHED = {"single": 13.8, "joint": 12.4}
HOPS = BabiSettings().n_hops


def name_of(cell: dict[str, Any]) -> str:
    return f"{cell['kind']}-{cell['attention']}-{cell['task']}-{cell['seed']}"


def measure(cell: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Trains one model and evaluates it on all splits."""
    settings = BabiSettings(
        data=str(options.data),
        tasks="" if cell["kind"] == "joint" else str(cell["task"]),
        attention=cell["attention"],
        size=SIZES[cell["kind"]],
    )
    task = StoryQuestions.prepare(settings)
    more = {**TRAINING[cell["kind"]], "seed": cell["seed"], "threads": 1}
    training = TrainingSettings(**{**TASKS["babi"].training, **more})
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        ended = train(task, training, RunDirectory(Path(folder) / "run"), progress=Silent())
        if ended.outcome == "interrupted":
            raise SystemExit(f"babi: {name_of(cell)} was interrupted; the same command begins it again")
        seconds = time.process_time() - began
        model = load(Path(folder) / "run", which="latest").model
        with torch.no_grad():
            found = {split: dict(evaluate(task, model, task.examples(split))) for split in ("train", "dev", "test")}
    kept = {"train": {name: found["train"][name] for name in ("mean_error", "loss")}, "test": found["test"]}
    return {**cell, "date": datetime.date.today().isoformat(), "seconds": round(seconds, 1), **kept}


def tables(cells: list[dict[str, Any]]) -> list[timing.Section]:
    sections: list[timing.Section] = []
    for kind in SIZES:
        mine = [cell for cell in cells if cell["kind"] == kind]
        if mine:
            sections += [_errors(kind, mine), _facts(kind, mine)]
    return sections


def _groups(cells: list[dict[str, Any]]) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Runs by attention and task, that with the least training error first (then the least training loss)."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for cell in cells:
        found.setdefault(cell["attention"], {}).setdefault(cell["task"], []).append(cell)
    for tasks in found.values():
        for runs in tasks.values():
            runs.sort(key=lambda cell: (cell["train"]["mean_error"], cell["train"]["loss"]))
    return {attention: found[attention] for attention in ATTENTIONS if attention in found}


def _errors(kind: str, cells: list[dict[str, Any]]) -> timing.Section:
    groups = _groups(cells)
    header = ["task"]
    for attention in groups:
        header += [f"{attention}, best", f"{attention}, mean"]
    rows: list[list[Any]] = []
    columns: dict[str, list[float]] = {name: [] for name in header[1:]}
    for task in range(1, N_TASKS + 1):
        row: list[Any] = [task]
        for attention, tasks in groups.items():
            runs = tasks.get(task if kind == "single" else 0, [])
            errors = [_error(run, task, kind) for run in runs]
            for name, value in zip(("best", "mean"), (errors[:1], errors)):
                row.append(round(statistics.mean(value), 1) if value else "–")
                columns[f"{attention}, {name}"] += [statistics.mean(value)] if value else []
        rows.append(row)
    means = [round(statistics.mean(values), 2) if len(values) == N_TASKS else "–" for values in columns.values()]
    rows.append(["mean", *means])
    rows.append(["above 5 %", *(sum(value > 5 for value in values) for values in columns.values())])
    n_runs = {attention: sum(map(len, tasks.values())) for attention, tasks in groups.items()}
    said = ", ".join(f"{attention} {count} runs" for attention, count in n_runs.items())
    kinds = {"single": "One task at a time", "joint": "All tasks together"}
    title = f"{kinds[kind]}: test errors in percent, best run by training error and mean ({said}; published mean "
    return (f"{title}{PUBLISHED[kind]})", header, rows)


def _error(run: dict[str, Any], task: int, kind: str) -> float:
    return run["test"]["mean_error"] if kind == "single" else run["test"][f"error_{task}"]


def _facts(kind: str, cells: list[dict[str, Any]]) -> timing.Section:
    """Precision and recall of what each hop reads, in the best run of each task, means over the tasks."""
    header = ["attention", "sentences read", "precision", "recall"]
    header += [f"{what}, hop {hop}" for hop in range(1, HOPS + 1) for what in ("precision", "recall")]
    rows: list[list[Any]] = []
    for attention, tasks in _groups(cells).items():
        best = [runs[0]["test"] for runs in tasks.values()]
        names = ["sentences_read", "fact_precision", "fact_recall"]
        names += [f"fact_{what}_hop_{hop}" for hop in range(1, HOPS + 1) for what in ("precision", "recall")]
        rows.append([attention, *(round(statistics.mean(each[name] for each in best), 3) for name in names)])
    kinds = {"single": "one task at a time", "joint": "all tasks together"}
    return (f"Facts that were looked up, {kinds[kind]}: best runs, means over their tasks", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the directory of one language of bAbI")
    parser.add_argument("--kinds", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--attentions", nargs="*", default=list(ATTENTIONS), choices=ATTENTIONS)
    parser.add_argument("--tasks", nargs="*", type=int, default=list(range(1, N_TASKS + 1)))
    parser.add_argument("--seeds", type=int, default=10, help="runs of each cell")
    parser.add_argument("--tables", action="store_true", help="train nothing; write the tables of what is there")
    options = parser.parse_args()
    if options.data is None and not options.tables:
        parser.error("--data must name a directory, got none; or add --tables")
    done, missing = {name_of(cell) for cell in timing.read_cells(NAME)}, 0
    for kind, seed, attention in itertools.product(options.kinds, range(options.seeds), options.attentions):
        for task in options.tasks if kind == "single" else [0]:
            cell = {"kind": kind, "attention": attention, "task": task, "seed": seed}
            if name_of(cell) in done:
                continue
            if options.tables:
                missing += 1
            else:
                timing.add_cell(NAME, measure(cell, options))
    cells = timing.read_cells(NAME)
    if not cells:
        raise SystemExit("babi: no run is finished yet; leave out --tables")
    timing.write(NAME, "Memory networks on bAbI", tables(cells))
    if missing:
        print(f"{missing} of the runs that were asked for are missing")


if __name__ == "__main__":
    main()
