"""Descriptions of pictures: soft, hard and no attention over a grid of cells, under several normalizers.

Each cell is one run of `omegamax train caption` with the defaults of the recipe, in a directory of its own. A cell that
is finished is kept in results/caption_cells.jsonl and not computed again, and a run that was interrupted is resumed, so
the benchmark can be stopped at any time.

    python benchmarks/caption.py --runs runs/caption                                        every cell
    python benchmarks/caption.py --runs runs/caption --variants soft-softmax --seeds 1 2
    python benchmarks/caption.py --report                                  only writes the tables of what is there
"""

from __future__ import annotations

import itertools
import statistics
import sys
from typing import Any

import timing
from recipe_cells import arguments, compute, spread

_REWARDS_AS_PUBLISHED = ["--reading", "reinforce", "--samples", "1", "--reward", "caption"]
# The options of each variant. Without the gamma, sparsemax soon reads one wrong cell, and learns no other.
VARIANTS = {
    "none": ["--reading", "none"],
    "soft-softmax": ["--reading", "soft"],
    "soft-sparsemax": ["--reading", "soft", "--attention", "sparsemax", "--gamma", "12"],
    "exact-sparsemax": ["--reading", "exact", "--attention", "sparsemax", "--gamma", "12"],
    "reinforce-published": [*_REWARDS_AS_PUBLISHED, "--soft-start", "0"],
    "reinforce-soft-start": _REWARDS_AS_PUBLISHED,
    "reinforce-softmax": ["--reading", "reinforce"],
    "exact-softmax": ["--reading", "exact"],
    "soft-grid-tv": ["--reading", "soft", "--attention", "grid-tv", "--strength", "0.02"],
}
METRICS = ("bleu", "exact_match", "edit_distance", "word_error_rate", "perplexity", "attention_on_object")
# BLEU 1 to 4 and METEOR of Xu et al. (2015), table 1, on COCO; the lecture's "+2 BLEU" and "+4" is beside "none".
PUBLISHED = {
    "none": ("Google NIC", 66.6, 46.1, 32.9, 24.6, None),
    "soft-softmax": ("Soft-Attention", 70.7, 49.2, 34.4, 24.3, 23.90),
    "reinforce-published": ("Hard-Attention", 71.8, 50.4, 35.7, 25.0, 23.04),
}


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    groups = {name: [cell for cell in cells if cell["variant"] == name and not cell["more"]] for name in VARIANTS}
    groups = {name: some for name, some in groups.items() if some}
    how = sorted({(" ".join(cell["options"]), cell["date"]) for some in groups.values() for cell in some})
    header = ["variant", "seeds", "BLEU", "exact match, %", "edit distance, words", "perplexity"]
    header += ["digits, %", "in any order, %", "layout, %", "minutes of processor time"]
    rows: list[list[object]] = []
    for name, some in groups.items():
        seeds = ", ".join(str(cell["seed"]) for cell in some)
        values = [spread(some, "bleu", 1, 1), spread(some, "exact_match", 100, 1)]
        values += [spread(some, "edit_distance", 1, 2), spread(some, "perplexity", 1, 3)]
        values += [spread(some, metric, 100, 1) for metric in ("digits", "digits_any_order", "layout")]
        times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
        rows.append([name, seeds, *values, f"{statistics.mean(times):.1f}" if times else "–"])
    found: list[timing.Section] = [
        ("How", ["options beside the defaults", "date"], [[f"`{given}`", date] for given, date in how]),
        ("Test scores: mean over seeds, and the largest distance from it", header, rows),
    ]
    looking = {name: some for name, some in groups.items() if "attention_on_object" in some[0]["test"]}
    if looking:
        percent = ("attention_on_object", "even_attention", "pointing", "zeros")
        rows = [
            [name, *(spread(some, metric, 100, 1) for metric in percent), spread(some, "support", 1, 1)]
            for name, some in looking.items()
        ]
        header = ["variant", "attention on the digit, %", "if it were even, %", "largest weight on the digit, %"]
        found.append(("Where words look", [*header, "weights that are exactly zero, %", "cells of a word"], rows))
    others = [cell for cell in cells if cell["more"]]
    if others:
        rows = [
            [cell["variant"], f"`{' '.join(cell['more'])}`", *(spread([cell], metric, 1, 3) for metric in METRICS)]
            for cell in others
        ]
        header = ["variant", "options", "BLEU", "exact match", "edit distance", "edits per word", "perplexity"]
        found.append(("With other options, seed 0", [*header, "attention on the digit"], rows))
    header = ["variant", "of the paper's table", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR"]
    published = [[name, *("–" if x is None else str(x) for x in row)] for name, row in PUBLISHED.items()]
    found.append(("Published by Xu et al. (2015) for photographs of COCO", header, published))
    return found


def main() -> None:
    parser = arguments(__doc__, VARIANTS)
    options = parser.parse_args()
    if not options.report and not options.runs:
        parser.error("--runs must name a directory for the runs, got none; or add --report")
    for seed, variant in itertools.product(options.seeds, [] if options.report else options.variants):
        test = compute("caption", {"variant": variant, "seed": seed}, VARIANTS[variant], options)["test"]
        note = f"exact match {test['exact_match']:.3f}, perplexity {test['perplexity']:.3f}"
        print(f"{variant}, seed {seed}: {note}", file=sys.stderr, flush=True)
        write_tables()  # after each cell: nothing is lost
    write_tables()


def write_tables() -> None:
    cells = timing.read_cells("caption")
    if not cells:
        raise SystemExit("caption: no cell is finished yet; leave out --report")
    timing.write("caption", "Descriptions of pictures", sections(cells), peers=())


if __name__ == "__main__":
    main()
