"""Handwriting from text: the window of Gaussians, attention by content, and none, at the same size.

Each cell is one run of `omegamax train handwriting` with the defaults of the recipe, in a directory of its own. A cell
that is finished is kept in results/handwriting_cells.jsonl and not computed again, and a run that was interrupted is
resumed, so the benchmark can be stopped at any time.

    python benchmarks/handwriting.py --runs runs/handwriting                            every cell
    python benchmarks/handwriting.py --runs runs/handwriting --variants window --seeds 1 2
    python benchmarks/handwriting.py --report                            only writes the tables of what is there
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

import timing
from recipe_cells import arguments, compute, spread

# The options of each variant.
VARIANTS = {
    "window": ["--model", "window"],
    "content-softmax": ["--model", "content"],
    "none": ["--model", "none"],
    "content-sparsemax": ["--model", "content", "--attention", "sparsemax"],
}
LENGTHS = (0, 12, 24)  # characters of test texts; 0 is 3 to 6, as in training


def evaluate_lengths(run: Path, threads: int) -> dict[str, dict[str, float]]:
    """Evaluates a trained model on texts as long as those of training, and on longer ones."""
    import torch

    from omegamax.recipes import load
    from omegamax.training.prediction import inspect, score_predictions

    torch.set_num_threads(threads)
    found = load(run)
    task, scores = found.task, {}
    for length in LENGTHS:
        longer = task.restore(dataclasses.replace(task.settings, test_length=length), task.assets())
        examples = longer.examples("test")
        with torch.no_grad():
            lines = inspect(longer, found.model, examples)
        assert lines is not None
        scores[str(length)] = score_predictions(longer, examples, lines)
    return scores


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    groups = {name: [cell for cell in cells if cell["variant"] == name and not cell["more"]] for name in VARIANTS}
    groups = {name: some for name, some in groups.items() if some}
    how = sorted({(" ".join(cell["options"]), cell["date"]) for some in groups.values() for cell in some})
    found: list[timing.Section] = [
        ("How", ["options beside the defaults", "date"], [[f"`{given}`", date] for given, date in how])
    ]
    for length in LENGTHS:
        header = ["variant", "seeds", "nats per point", "attention on the letter, %", "if it were even, %"]
        header += ["character error, %", "without bias, %", "of true writings, %", "ended, %", "minutes of training"]
        rows: list[list[object]] = []
        for name, some in groups.items():
            tests = [{"test": cell["test"][str(length)]} for cell in some]
            values = [spread(tests, "nll", 1, 3), spread(tests, "attention_on_letter", 100, 1)]
            names = ("even_attention", "character_error", "character_error_unbiased", "reader_error", "ended")
            values += [spread(tests, metric, 100, 1) for metric in names]
            times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
            seeds = ", ".join(str(cell["seed"]) for cell in some)
            rows.append([name, seeds, *values, f"{statistics.mean(times):.1f}" if times else "–"])
        title = f"Texts of {length} characters" if length else "Texts as long as in training"
        found.append((f"{title}: mean over seeds, and the largest distance from it", header, rows))
    return found


def main() -> None:
    parser = arguments(__doc__, VARIANTS)
    options = parser.parse_args()
    if not options.report and not options.runs:
        parser.error("--runs must name a directory for the runs, got none; or add --report")
    for seed, variant in itertools.product(options.seeds, [] if options.report else options.variants):
        wanted = {"variant": variant, "seed": seed}
        test = compute("handwriting", wanted, VARIANTS[variant], options, evaluate_lengths)["test"]["0"]
        note = f"{test['nll']:.3f} nats per point, character error {test['character_error']:.3f}"
        print(f"{variant}, seed {seed}: {note}", file=sys.stderr, flush=True)
        write_tables()  # after each cell: nothing is lost
    write_tables()


def write_tables() -> None:
    cells = timing.read_cells("handwriting")
    if not cells:
        raise SystemExit("handwriting: no cell is finished yet; leave out --report")
    timing.write("handwriting", "Handwriting", sections(cells), peers=())


if __name__ == "__main__":
    main()
