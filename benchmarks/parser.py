"""The dependency parser on a treebank: every loss, with gold tags and without, and the trees that SparseMAP keeps.

Each cell of the table is one run of `omegamax train parser` with the same settings, in a directory of its own. A cell
that is finished is kept in results/parser_cells.jsonl and not computed again, and one that was interrupted is resumed,
so the benchmark can be stopped at any time and goes on elsewhere. A run that takes more than --minutes is stopped, and
its best model so far is evaluated; the table says so. Pictures need the runs.

    python benchmarks/parser.py --data treebanks/ud_english_ewt --runs runs/parser
    python benchmarks/parser.py --data ... --runs ... --losses crf sparsemap --tags gold
    python benchmarks/parser.py --data ... --runs ... --report         only writes the tables of what is there
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import timing

LOSSES = ("crf", "crf-projective", "l2-projective", "sparsemap", "margin", "margin-sparsemap", "softmax")
TAGS = {"gold": "upos,xpos,feats", "none": ""}
SPARSE = ("sparsemap", "margin-sparsemap")
CURVES = ("las", "one_tree", "trees")  # scores on the dev data that are kept for each epoch
# UAS and LAS of UDPipe 1 on the test data of UD English-EWT with gold tokens.
UDPIPE = {"gold": (88.1, 86.2), "none": (84.5, 81.2)}
NAMES = {"gold": "with gold tags", "none": "without tags"}


def command(options: argparse.Namespace, loss: str, tags: str, run: Path) -> list[str]:
    found = [sys.executable, "-m", "omegamax", "train", "parser", "--data", options.data, "--loss", loss]
    found += ["--out", str(run), "--epochs", str(options.epochs), "--seed", str(options.seed)]
    found += ["--threads", str(options.threads), *options.train_options]
    found += ["--tags", TAGS[tags]] if TAGS[tags] else []
    return [*found, "--resume"] if (run / "config.json").exists() else found


def compute(options: argparse.Namespace, loss: str, tags: str) -> dict[str, Any]:
    """Trains and evaluates one cell, or reads what an earlier call found."""
    wanted = {"loss": loss, "tags": tags, "seed": options.seed, "more": options.train_options}
    for cell in timing.read_cells("parser"):
        if wanted.items() <= cell.items():
            return cell
    run = cell_directory(options, loss, tags)
    before = epochs_of(run)[-1]["seconds"] if epochs_of(run) else 0.0
    process = subprocess.Popen(command(options, loss, tags, run), stdout=sys.stderr)
    outcome = "finished"
    try:
        code = process.wait(timeout=max(1.0, 60 * options.minutes - before))
    except subprocess.TimeoutExpired:
        outcome = f"stopped after {options.minutes:g} minutes"
        process.send_signal(signal.SIGINT)  # it saves and ends
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise
    if code not in (0, 130) or (code == 130 and outcome == "finished"):
        raise SystemExit(f"parser: the run in {run} ended with code {code}; call the same command again to resume it")
    evaluate = [sys.executable, "-m", "omegamax", "evaluate", str(run), "--json", "--threads", str(options.threads)]
    test = json.loads(subprocess.run(evaluate, check=True, capture_output=True, text=True).stdout)
    seconds, words = ([epoch[name] for epoch in epochs_of(run)] for name in ("seconds", "items_per_second"))
    metrics = [epoch["metrics"] for epoch in epochs_of(run)]
    cell = {
        **wanted,
        "outcome": outcome,
        "date": datetime.date.today().isoformat(),
        "options": ["--epochs", str(options.epochs), "--threads", str(options.threads)],
        "test": test,
        "best_epoch": 1 + max(range(len(metrics)), key=lambda epoch: metrics[epoch]["las"]),
        "n_epochs": len(metrics),
        "first_epoch_seconds": seconds[0],
        "later_epoch_seconds": (seconds[-1] - seconds[0]) / max(1, len(seconds) - 1),
        "words_per_second": sum(words) / len(words),
        "by_epoch": {name: [epoch[name] for epoch in metrics] for name in CURVES if name in metrics[0]},
    }
    timing.add_cell("parser", cell)
    return cell


def cell_directory(options: argparse.Namespace, loss: str, tags: str, more: list[str] | None = None) -> Path:
    more = options.train_options if more is None else more
    return Path(options.runs) / "-".join([loss, tags, str(options.seed), *(word.removeprefix("--") for word in more)])


def name_of(cell: dict[str, Any]) -> str:
    """Returns the loss, and the further options of a cell that has some."""
    return " ".join([cell["loss"], *cell["more"]])


def epochs_of(run: Path) -> list[dict[str, Any]]:
    """Returns the records of the epochs of a run: metrics on the dev data, seconds since the beginning."""
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [record for record in map(json.loads, lines) if record["event"] == "epoch"]


def sections(cells: list[dict[str, Any]], options: argparse.Namespace) -> list[timing.Section]:
    how = sorted({(" ".join(cell["options"]), cell["date"], cell["seed"]) for cell in cells})
    rows = [[f"`{given}`", f"`--tags {TAGS['gold']}`", seed, date] for given, date, seed in how]
    found: list[timing.Section] = [("How", ["options beside the defaults", "gold tags", "seed", "date"], rows)]
    for tags in TAGS:
        mine = [cell for cell in cells if cell["tags"] == tags]
        if mine:
            found += [_scores(mine, tags, options), _speeds(mine, tags)]
    sparse = [cell for cell in cells if cell["loss"] in SPARSE]
    if sparse:
        found += [_accuracy_by_trees(sparse), *_over_training(sparse)]
    return found


def _scores(cells: list[dict[str, Any]], tags: str, options: argparse.Namespace) -> timing.Section:
    header = [
        "loss",
        "UAS",
        "LAS",
        "UAS, no punct.",
        "LAS, no punct.",
        "all heads",
        "all relations",
        "best epoch",
        "run",
    ]
    rows: list[list[Any]] = []
    for cell in sorted(cells, key=lambda cell: -cell["test"]["las"]):
        test, names = cell["test"], ("uas", "las", "uas_without_punctuation", "las_without_punctuation")
        best = f"{cell['best_epoch']} of {cell['n_epochs']}"
        more = [test["exact_heads"], test["exact_trees"], best, cell["outcome"]]
        rows.append([name_of(cell), *(test[name] for name in names), *more])
    if "english_ewt" in options.data.lower():
        rows.append(["UDPipe 1 (published)", *UDPIPE[tags], *["–"] * 6])
    return (f"Test scores {NAMES[tags]}, in percent", header, rows)


def _speeds(cells: list[dict[str, Any]], tags: str) -> timing.Section:
    rows = []
    for cell in cells:
        rates = [round(cell["words_per_second"]), round(cell["test"]["examples_per_second"])]
        rows.append([name_of(cell), cell["first_epoch_seconds"], cell["later_epoch_seconds"], *rates])
    header = ["loss", "first epoch, s", "later epochs, s", "training, words/s", "parsing, sentences/s"]
    return (f"Speed {NAMES[tags]} (an epoch includes the evaluation on the dev data)", header, rows)


def _accuracy_by_trees(cells: list[dict[str, Any]]) -> timing.Section:
    names = ("one_tree", "trees", "uas_one_tree", "uas_2_to_5_trees", "uas_more_trees")
    rows = [
        [f"{name_of(cell)}, {NAMES[cell['tags']]}", *(cell["test"].get(name, "–") for name in names)] for cell in cells
    ]
    header = ["loss", "one tree, %", "mean trees", "UAS, one tree", "UAS, 2 to 5", "UAS, 6 or more"]
    return ("SparseMAP on the test data: how many trees are kept, and the accuracy by it", header, rows)


def _over_training(cells: list[dict[str, Any]]) -> list[timing.Section]:
    longest = max(cell["n_epochs"] for cell in cells)
    found = []
    for name, title in (("one_tree", "Sentences with one tree, percent"), ("trees", "Mean number of trees")):
        rows = []
        for cell in cells:
            numbers = cell["by_epoch"][name]
            rows.append([f"{name_of(cell)}, {NAMES[cell['tags']]}", *numbers, *["–"] * (longest - len(numbers))])
        header = ["loss", *map(str, range(1, longest + 1))]
        found.append((f"{title}, on the dev data after each epoch", header, rows))
    return found


def draw(cells: list[dict[str, Any]], directory: Path, options: argparse.Namespace) -> None:
    """Draws curves over training, accuracy by number of trees, and a sentence that has two readings."""
    from omegamax.plots import accuracy_by_length, learning_curves

    directory.mkdir(parents=True, exist_ok=True)
    names = {id(cell): f"{name_of(cell)}, {NAMES[cell['tags']]}" for cell in cells}
    sparse = [cell for cell in cells if cell["loss"] in SPARSE]
    for name, metric in (("one_tree", "sentences with one tree, %"), ("trees", "mean number of trees")):
        if sparse:
            curves = {names[id(cell)]: cell["by_epoch"][name] for cell in sparse}
            learning_curves(curves, metric=metric).savefig(directory / f"parser_{name}.png")
    curves = {names[id(cell)]: cell["by_epoch"]["las"] for cell in cells if "las" in cell["by_epoch"]}
    learning_curves(curves, metric="LAS on the dev data").savefig(directory / "parser_las.png")
    buckets = {"1": "uas_one_tree", "2–5": "uas_2_to_5_trees", "6+": "uas_more_trees"}
    if sparse:
        scores = {
            names[id(cell)]: {said: cell["test"][name] for said, name in buckets.items() if name in cell["test"]}
            for cell in sparse
        }
        figure = accuracy_by_length(scores, metric="UAS on the test data", unit="trees that SparseMAP keeps")
        figure.savefig(directory / "parser_by_trees.png")
        run = cell_directory(options, sparse[0]["loss"], sparse[0]["tags"], sparse[0]["more"])
        if run.exists():
            draw_ambiguous_sentence(run).savefig(directory / "parser_ambiguous.png")


def draw_ambiguous_sentence(run: Path) -> Any:
    """Draws the short test sentence whose two trees are the most evenly likely."""
    import torch

    from omegamax.recipes import load
    from omegamax.recipes.settings import ParserPrediction

    torch.set_num_threads(1)
    found = load(run)
    short = [each for each in found.task.examples("test") if 6 <= len(each.forms) <= 10]
    with torch.no_grad():
        parses = found.task.parse(found.model, short, ParserPrediction(trees=True))
        two = [place for place, parse in enumerate(parses) if len(parse.trees) == 2]
        even = min(two, key=lambda place: abs(parses[place].trees[0].probability - 0.5))
        return found.task.draw(found.model, [short[even]])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a treebank, as for omegamax train parser")
    parser.add_argument("--runs", required=True, help="where the runs are kept")
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--tags", nargs="+", default=list(TAGS), choices=list(TAGS))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=45.0, help="most that a run may train (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pictures", type=Path, help="draw the trees and the scores over training into this directory")
    parser.add_argument("--report", action="store_true", help="train nothing; write the tables of finished cells")
    parser.add_argument("--train-options", nargs=argparse.REMAINDER, default=[], help="the rest goes to omegamax train")
    options = parser.parse_args()
    for tags, loss in itertools.product(options.tags, options.losses):
        if not options.report:
            began = time.monotonic()
            scores = compute(options, loss, tags)["test"]
            note = f"{loss}, {tags} tags: UAS {scores['uas']:.2f}, LAS {scores['las']:.2f}"
            print(f"{note} ({(time.monotonic() - began) / 60:.1f} minutes)", file=sys.stderr, flush=True)
            write_tables(options)  # after each cell: nothing is lost
    cells = write_tables(options)
    if options.pictures:
        draw(cells, options.pictures, options)


def write_tables(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Writes the tables of all finished cells, says which are missing, and returns the cells."""
    there = timing.read_cells("parser")
    known = {(cell["loss"], cell["tags"]) for cell in there if not cell["more"]}
    missing = [f"{loss}-{tags}" for tags, loss in itertools.product(TAGS, LOSSES) if (loss, tags) not in known]
    print(f"parser: not measured yet: {' '.join(missing) or 'nothing'}", file=sys.stderr)
    if not there:
        raise SystemExit("parser: no cell is finished yet; leave out --report")
    timing.write("parser", "Dependency parser", sections(there, options), peers=())
    return there


if __name__ == "__main__":
    main()
