"""The paper's translation and summarization tables, cell by cell: train, evaluate with a beam, write a table.

A cell is one run of `omegamax train translate` or `summarize`. A cell that has its evaluation is not run again, and one
that was interrupted goes on where it was, so this may be stopped and started at any time:

    python benchmarks/translate.py --list
    python benchmarks/translate.py --en-de corpus/en-de --en-fr corpus/en-fr --only 'paper/en-de/lstm/*'
    python benchmarks/translate.py --scitldr corpus/scitldr --only 'paper/tldr/*' --minutes 60
    python benchmarks/translate.py --table

Groups of cells: `paper` (normalizers × tasks × models at the same, untuned settings), `seeds` (more seeds of some of
them), `lecture` (with and without attention, two largest lengths), `ablation` (the Transformer with one thing changed),
`output` (sparse outputs), `best` (larger models), `pointer` (summaries with copying). `--bootstrap A B` tests whether
the outputs of cell A have a higher BLEU than those of B by paired resampling (Koehn, EMNLP 2004).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

NORMALIZERS = ("softmax", "sparsemax", "entmax15", "fusedmax", "oscarmax", "sqpnormmax")
TRANSFORMER = ("--model", "transformer", "--n-layers", "3", "--n-heads", "4", "--feed-forward-size", "1024")
MODELS = {"lstm": ("--model", "lstm"), "transformer": TRANSFORMER}
# Name of the data set's option, the task, what is read and what is written.
TASKS = {
    "en-de": ("en_de", "translate", "1", "2"),
    "de-en": ("en_de", "translate", "2", "1"),
    "en-fr": ("en_fr", "translate", "1", "2"),
    "fr-en": ("en_fr", "translate", "2", "1"),
    "tldr": ("scitldr", "summarize", "source", "target"),
    "title": ("scitldr", "summarize", "source", "title"),
    "headline": ("scitldr", "summarize", "source.0", "title"),
}
ABLATIONS = {
    "base": (),
    "A-heads-1": ("--n-heads", "1"),
    "A-heads-8": ("--n-heads", "8"),
    "C-layers-1": ("--n-layers", "1"),
    "C-layers-6": ("--n-layers", "6"),
    "C-size-128": ("--hidden-size", "128"),
    "C-feed-forward-256": ("--feed-forward-size", "256"),
    "D-no-dropout": ("--dropout", "0"),
    "D-no-smoothing": ("--label-smoothing", "0"),
    "E-joint-vocabulary": ("--vocabulary", "joint"),
}


class Cell(NamedTuple):
    """One run: its name, its task, and options of training beside those that all runs of the command have."""

    name: str
    task: str  # a key of TASKS
    options: tuple[str, ...]


def cells() -> Iterator[Cell]:
    for task in ("en-de", "fr-en", "tldr", "headline"):
        for model, shape in MODELS.items():
            for name in NORMALIZERS:
                yield Cell(f"paper/{task}/{model}/{name}", task, (*shape, "--attention", name))
    for task in ("en-de", "fr-en"):
        for name in ("softmax", "fusedmax", "sparsemax"):
            for seed in ("1", "2"):
                yield Cell(f"seeds/{task}/lstm/{name}-{seed}", task, ("--attention", name, "--seed", seed))
    for name in ("softmax", "none"):
        for length in ("15", "50"):
            yield Cell(f"lecture/en-de/{name}-{length}", "en-de", ("--attention", name, "--max-length", length))
    for name, changed in ABLATIONS.items():
        yield Cell(f"ablation/en-de/{name}", "en-de", (*TRANSFORMER, *changed))
    for name in ("softmax", "entmax15", "sparsemax"):
        yield Cell(f"output/en-de/{name}", "en-de", ("--output", name, "--label-smoothing", "0"))
    for task in ("tldr", "headline"):
        for name in NORMALIZERS:
            yield Cell(f"pointer/{task}/{name}", task, ("--copy", "pointer", "--attention", name))
    for task in ("en-de", "en-fr"):
        for model, shape in MODELS.items():
            yield Cell(f"best/{task}/{model}", task, (*shape, "--hidden-size", "512", "--vocabulary", "joint"))


def run_cell(cell: Cell, options: argparse.Namespace) -> None:
    where, task, source, target = TASKS[cell.task]
    data, out = getattr(options, where), options.out / cell.name
    common = ["--data", str(data), "--source", source, "--target", target, "--epochs", str(options.epochs)]
    common += ["--threads", str(options.threads), "--out", str(out)]
    resumed = ["--resume"] if (out / "config.json").exists() else []
    # An option that is given twice has its last value, so a cell overrules what all cells have.
    command("train", task, *common, *cell.options, *resumed)
    printed = command("evaluate", str(out), "--beam", str(options.beam), "--json", "--threads", str(options.threads))
    (out / "beam.json").write_text(printed)


def command(*arguments: str) -> str:
    print("omegamax", *arguments, flush=True)
    capture = subprocess.PIPE if "--json" in arguments else None
    return subprocess.run([sys.executable, "-m", "omegamax", *arguments], check=True, stdout=capture, text=True).stdout


class Result(NamedTuple):
    metrics: dict[str, float]
    tokens_per_second: float  # target tokens, while training: the median over epochs
    minutes: float


def result_of(out: Path) -> Result | None:
    if not (out / "beam.json").exists():
        return None
    epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    epochs = [record for record in epochs if record["event"] == "epoch"]
    rates = [record["items_per_second"] for record in epochs if record["items_per_second"]]
    seconds = epochs[-1]["seconds"] if epochs else 0.0
    return Result(json.loads((out / "beam.json").read_text()), statistics.median(rates or [0.0]), seconds / 60)


def table(options: argparse.Namespace) -> str:
    """All cells that have an evaluation; speeds relative to the softmax of the same group, task and model."""
    lines = ["| cell | metrics on test | tokens/s | of softmax's | minutes |", "|---|---|---|---|---|"]
    found = {cell.name: result_of(options.out / cell.name) for cell in cells()}
    for name, result in found.items():
        if result is None:
            continue
        shown = ", ".join(
            f"{key} {value:.2f}"
            for key, value in result.metrics.items()
            if isinstance(value, float) and key != "tokens_per_second"
        )
        softmax = found.get(f"{name.rpartition('/')[0]}/softmax")
        ratio = f"{result.tokens_per_second / softmax.tokens_per_second:.2f}" if softmax else ""
        lines.append(f"| {name} | {shown} | {result.tokens_per_second:.0f} | {ratio} | {result.minutes:.0f} |")
    return "\n".join(lines)


def bootstrap(a: str, b: str, options: argparse.Namespace, n_samples: int = 1000) -> str:
    """Resamples test sentences: in how many samples does the first cell have the higher BLEU?"""
    import sacrebleu

    from omegamax.recipes import load, predict

    outputs, targets = [], []
    for name in (a, b):
        found = load(options.out / name)
        examples = found.task.examples("test")
        targets = [example.target for example in examples]
        outputs.append(predict(found.task, found.model, examples))
    draw, n_better = random.Random(0), 0
    for _ in range(n_samples):
        places = draw.choices(range(len(targets)), k=len(targets))
        scores = [
            sacrebleu.corpus_bleu([each[at] for at in places], [[targets[at] for at in places]]).score
            for each in outputs
        ]
        n_better += scores[0] > scores[1]
    return f"{a} has a higher BLEU (greedy search) than {b} in {n_better} of {n_samples} samples of the test data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--en-de", "--en-fr", "--scitldr"):
        parser.add_argument(name, type=Path, help="the data: a directory, or the beginning of the names of its files")
    parser.add_argument("--out", type=Path, default=Path("runs/translate"), help="where runs are written")
    parser.add_argument("--only", default="*", help="a pattern of names of cells")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further cell after this time")
    parser.add_argument("--list", action="store_true", help="print the names of the cells")
    parser.add_argument("--table", action="store_true", help="print the table of the cells that are done")
    parser.add_argument("--bootstrap", nargs=2, metavar="CELL", help="compare the outputs of two cells")
    options = parser.parse_args()
    if options.table or options.bootstrap:
        print(bootstrap(*options.bootstrap, options) if options.bootstrap else table(options))
        return
    began = time.monotonic()
    for cell in cells():
        if not fnmatch(cell.name, options.only):
            continue
        done = (options.out / cell.name / "beam.json").exists()
        if options.list:
            print(cell.name, "(done)" if done else "")
            continue
        where = TASKS[cell.task][0]
        if done or getattr(options, where) is None:
            print(f"{cell.name}: {'done' if done else f'no data, give --{where}'}".replace("_", "-"))
            continue
        if (time.monotonic() - began) / 60 > options.minutes:
            print("no time is left for", cell.name)
            return
        run_cell(cell, options)
    if not options.list:
        print(table(options))


if __name__ == "__main__":
    main()
