"""Descriptions of moving digits: attention over frames, a 3-D convolution, both and neither, under several normalizers.

Each cell is one run of `omegamax train video` with the defaults of the recipe, in a directory of its own. A cell that
is finished is kept in results/video_cells.jsonl and not computed again, and a run that was interrupted is resumed, so
the benchmark can be stopped at any time.

    python benchmarks/video.py --runs runs/video                                        every cell
    python benchmarks/video.py --runs runs/video --variants both-softmax --seeds 1 2
    python benchmarks/video.py --report                                  only writes the tables of what is there
"""

from __future__ import annotations

import itertools
import statistics
import sys
from typing import Any

import timing
from recipe_cells import arguments, compute, spread

# The options of each variant. "set" has no positions: attention sees a set of frames, as in Yao et al.
VARIANTS = {
    "neither": ["--model", "neither"],
    "conv3d": ["--model", "conv3d"],
    "attention-softmax": ["--model", "attention"],
    "both-softmax": ["--model", "both"],
    "attention-sparsemax": ["--model", "attention", "--attention", "sparsemax"],
    "attention-fusedmax": ["--model", "attention", "--attention", "fusedmax"],
    "both-sparsemax": ["--model", "both", "--attention", "sparsemax"],
    "both-fusedmax": ["--model", "both", "--attention", "fusedmax"],
    "attention-softmax-set": ["--model", "attention", "--positions", "no"],
}
PERCENT = ("exact_match", "digits", "digits_any_order", "motions", "motions_any_order")
# METEOR and perplexity of Yao et al. (2015), table 1, as the lecture shows them: Youtube2Text, then Montreal DVS.
PUBLISHED = {
    "neither": ("Enc-Dec", 0.2868, 33.09, 0.044, 88.28),
    "conv3d": ("+ 3-D CNN", 0.2832, 33.42, 0.051, 84.41),
    "attention-softmax": ("+ Per-frame CNN", 0.2900, 27.89, 0.040, 66.63),
    "both-softmax": ("+ Both", 0.2960, 27.55, 0.057, 65.44),
}


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    groups = {name: [cell for cell in cells if cell["variant"] == name and not cell["more"]] for name in VARIANTS}
    groups = {name: some for name, some in groups.items() if some}
    how = sorted({(" ".join(cell["options"]), cell["date"]) for some in groups.values() for cell in some})
    header = ["variant", "seeds", "perplexity", "BLEU", "exact match, %", "digits, %", "in any order, %"]
    header += ["motions, %", "in any order, %", "minutes of processor time"]
    rows: list[list[object]] = []
    for name, some in groups.items():
        seeds = ", ".join(str(cell["seed"]) for cell in some)
        values = [spread(some, "perplexity", 1, 3), spread(some, "bleu", 1, 1)]
        values += [spread(some, metric, 100, 1) for metric in PERCENT]
        times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
        rows.append([name, seeds, *values, f"{statistics.mean(times):.1f}" if times else "–"])
    found: list[timing.Section] = [
        ("How", ["options beside the defaults", "date"], [[f"`{given}`", date] for given, date in how]),
        ("Test scores: mean over seeds, and the largest distance from it", header, rows),
    ]
    looking = {name: some for name, some in groups.items() if "attention_on_event" in some[0]["test"]}
    if looking:
        rows = [
            [
                name,
                spread(some, "attention_on_event", 100, 1),
                spread(some, "even_attention", 100, 1),
                spread(some, "zeros", 100, 1),
            ]
            for name, some in looking.items()
        ]
        header = ["variant", "attention on the frames of the word's event, %", "if it were even, %"]
        found.append(("Where words look", [*header, "weights that are exactly zero, %"], rows))
    header = [
        "variant",
        "of the lecture's table",
        "METEOR, Youtube2Text",
        "perplexity",
        "METEOR, Montreal DVS",
        "perplexity",
    ]
    published = [[name, *(f"{x:g}" if isinstance(x, float) else x for x in row)] for name, row in PUBLISHED.items()]
    found.append(("Published by Yao et al. (2015) for films, not digits", header, published))
    return found


def main() -> None:
    parser = arguments(__doc__, VARIANTS)
    options = parser.parse_args()
    if not options.report and not options.runs:
        parser.error("--runs must name a directory for the runs, got none; or add --report")
    for seed, variant in itertools.product(options.seeds, [] if options.report else options.variants):
        test = compute("video", {"variant": variant, "seed": seed}, VARIANTS[variant], options)["test"]
        note = f"exact match {test['exact_match']:.3f}, perplexity {test['perplexity']:.3f}"
        print(f"{variant}, seed {seed}: {note}", file=sys.stderr, flush=True)
        write_tables()  # after each cell: nothing is lost
    write_tables()


def write_tables() -> None:
    cells = timing.read_cells("video")
    if not cells:
        raise SystemExit("video: no cell is finished yet; leave out --report")
    timing.write("video", "Descriptions of moving digits", sections(cells), peers=())


if __name__ == "__main__":
    main()
