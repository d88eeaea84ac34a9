"""Spoken strings: CTC and four kinds of attention, trained on up to five words, tested on strings of 5, 10, 20 and 40.

Each cell is one run of `omegamax train speech` in a directory of its own, evaluated on strings of every length that are
made of recordings held out from training. A cell that is finished is kept in results/speech_cells.jsonl and not
computed again, and a run that was interrupted is resumed, so the benchmark can be stopped at any time.

    python benchmarks/speech.py --data fsdd --runs runs/speech                          every cell
    python benchmarks/speech.py --data fsdd --runs runs/speech --variants ctc-softmax --train-options --hidden-size 64
    python benchmarks/speech.py --report                                 only writes the tables of what is there
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import timing

VARIANTS = {
    "ctc-softmax": ("ctc", "softmax"),
    "ctc-sparsemax": ("ctc", "sparsemax"),  # the squared norm smooths the sum over alignments
    "content-softmax": ("content", "softmax"),
    "location-softmax": ("location", "softmax"),
    "gaussian-softmax": ("gaussian", "softmax"),
    "monotonic-softmax": ("monotonic", "softmax"),
    "location-sparsemax": ("location", "sparsemax"),
}
LENGTHS = (5, 10, 20, 40)


def compute(options: argparse.Namespace, variant: str, seed: int) -> dict[str, Any]:
    """Trains and evaluates one cell, or reads what an earlier call found."""
    wanted = {"variant": variant, "seed": seed, "more": options.train_options}
    for cell in timing.read_cells("speech"):
        if wanted.items() <= cell.items():
            return cell
    run = Path(options.runs) / "-".join([variant, str(seed), *(word.removeprefix("--") for word in wanted["more"])])
    model, attention = VARIANTS[variant]
    command = [sys.executable, "-m", "omegamax", "train", "speech", "--data", options.data, "--model", model]
    command += ["--attention", attention, "--seed", str(seed), "--out", str(run), "--threads", str(options.threads)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    resumed = (run / "config.json").exists()
    subprocess.run([*command, *wanted["more"], *(["--resume"] if resumed else [])], check=True, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cell = {
        **wanted,
        "date": datetime.date.today().isoformat(),
        "options": ["--threads", str(options.threads)],
        # Processor time, because the machine is shared; that of a resumed run is not known.
        "seconds": None if resumed else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "test": evaluate_lengths(run, options.threads),
    }
    timing.add_cell("speech", cell)
    return cell


def evaluate_lengths(run: Path, threads: int) -> dict[str, dict[str, float]]:
    """Returns the metrics of a run on test strings of each length."""
    import torch

    from omegamax.recipes import load
    from omegamax.recipes.speech import Speech
    from omegamax.training import evaluate

    torch.set_num_threads(threads)
    found = load(run)
    task = found.task
    assert isinstance(task, Speech)
    scores = {}
    for length in LENGTHS:
        longer = Speech(dataclasses.replace(task.settings, test_words=length), task.labels)
        with torch.no_grad():
            scores[str(length)] = dict(evaluate(longer, found.model, longer.examples("test")))
    return scores


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    found: list[timing.Section] = []
    for more in sorted({tuple(cell["more"]) for cell in cells}):
        mine = [cell for cell in cells if tuple(cell["more"]) == more]
        title = f"with `{' '.join(more)}`" if more else "with the defaults of the recipe"
        header = ["model", "seeds", *(f"{length} words" for length in LENGTHS), "minutes of processor time", "date"]
        rows: list[list[object]] = []
        for name in VARIANTS:
            some = [cell for cell in mine if cell["variant"] == name]
            if some:
                seeds = ", ".join(str(cell["seed"]) for cell in some)
                errors = [_mean(cell["test"][str(length)]["word_error"] for cell in some) for length in LENGTHS]
                times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
                dates = max(cell["date"] for cell in some)
                rows.append([name, seeds, *errors, _mean(times) if times else "–", dates])
        found.append((f"Errors in percent of the words that were said, {title}", header, rows))
    return found


def _mean(values: Any) -> str:
    return f"{statistics.mean(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="recordings, as for omegamax train speech")
    parser.add_argument("--runs", help="where the runs are kept")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="train nothing; write the tables of finished cells")
    parser.add_argument("--train-options", nargs=argparse.REMAINDER, default=[], help="the rest goes to omegamax train")
    options = parser.parse_args()
    if not options.report and not (options.runs and options.data):
        parser.error("--data and --runs must name directories, got none; or add --report")
    for seed, variant in itertools.product(options.seeds, [] if options.report else options.variants):
        test = compute(options, variant, seed)["test"]
        errors = ", ".join(f"{length} words {test[str(length)]['word_error']:.1f} %" for length in LENGTHS)
        print(f"{variant}, seed {seed}: {errors}", file=sys.stderr, flush=True)
        write_tables()  # after each cell: nothing is lost
    write_tables()


def write_tables() -> None:
    cells = timing.read_cells("speech")
    if not cells:
        raise SystemExit("speech: no cell is finished yet; leave out --report")
    timing.write("speech", "Spoken strings of digits", sections(cells), peers=())


if __name__ == "__main__":
    main()
