"""Spoken strings: CTC and four kinds of attention, trained on up to five words, tested on strings of 5, 10, 20 and 40.

Each cell is one run of `omegamax train speech` in a directory of its own, evaluated on strings of every length that are
made of recordings held out from training. A cell that is finished is kept in results/speech_cells.jsonl and not
computed again, and a run that was interrupted is resumed, so the benchmark can be stopped at any time.

    python benchmarks/speech.py --data fsdd --runs runs/speech                          every cell
    python benchmarks/speech.py --data fsdd --runs runs/speech --variants ctc-softmax --train-options --hidden-size 64
    python benchmarks/speech.py --report                                 only writes the tables of what is there
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

import timing
from recipe_cells import arguments, compute

LSTM = ("--decoder", "lstm", "--window", "0")
LAST_WORD = ("--decoder", "last-word", "--window", "0")
WINDOW = ("--decoder", "last-word", "--window", "45")
# Model, normalizer, and what the decoder knows.
VARIANTS = {
    "ctc-softmax": ("ctc", "softmax", ()),
    "ctc-sparsemax": ("ctc", "sparsemax", ()),  # the squared norm smooths the sum over alignments
    "content-softmax": ("content", "softmax", LSTM),
    "content-softmax-last-word": ("content", "softmax", LAST_WORD),
    "location-softmax": ("location", "softmax", LSTM),
    "location-softmax-window": ("location", "softmax", ("--decoder", "lstm", "--window", "45")),
    "location-softmax-last-word": ("location", "softmax", LAST_WORD),
    "location-softmax-last-word-window": ("location", "softmax", WINDOW),
    "location-sparsemax-last-word-window": ("location", "sparsemax", WINDOW),
    "gaussian-softmax": ("gaussian", "softmax", LSTM),
    "gaussian-softmax-last-word": ("gaussian", "softmax", LAST_WORD),
    "monotonic-softmax": ("monotonic", "softmax", LSTM),
    "monotonic-softmax-last-word": ("monotonic", "softmax", LAST_WORD),
    "monotonic-sparsemax-last-word": ("monotonic", "sparsemax", LAST_WORD),
    "monotonic-sparsemax": ("monotonic", "sparsemax", LSTM),  # a gate that is exactly 0 or 1 far from its threshold
}
LENGTHS = (5, 10, 20, 40)


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
    parser = arguments(__doc__, VARIANTS)
    parser.add_argument("--data", help="recordings, as for omegamax train speech")
    options = parser.parse_args()
    if not options.report and not (options.runs and options.data):
        parser.error("--data and --runs must name directories, got none; or add --report")
    for seed, variant in itertools.product(options.seeds, [] if options.report else options.variants):
        model, attention, more = VARIANTS[variant]
        given = ["--data", options.data, "--model", model, "--attention", attention, *more]
        test = compute("speech", {"variant": variant, "seed": seed}, given, options, evaluate_lengths)["test"]
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
