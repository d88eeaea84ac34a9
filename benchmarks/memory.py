"""Algorithms with a memory: a Turing machine, a DNC and an LSTM copy, recall, repeat and sort longer sequences.

Each cell is one run of `omegamax train memory` with the defaults of the recipe, in a directory of its own. The network
after the last epoch is tested at the longest training length and at twice and four times as many vectors. A cell that
is finished is kept in results/memory_cells.jsonl and not computed again, and a run that was interrupted is resumed, so
the benchmark can be stopped at any time.

    python benchmarks/memory.py --runs runs/memory                                        every cell
    python benchmarks/memory.py --runs runs/memory --tasks copy --variants dnc-sparsemax --seeds 1 2
    python benchmarks/memory.py --report                                    only writes the tables of what is there
    python benchmarks/memory.py --runs runs/memory --report --pictures docs/images               draws finished runs
    python benchmarks/memory.py --runs runs/memory --report --far            copies far longer sequences with more slots
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

import timing
from recipe_cells import arguments, compute, evaluate, spread

TASKS = ("copy", "recall", "repeat-copy", "sort")
VARIANTS = {
    "ntm-softmax": ["--model", "ntm", "--attention", "softmax"],
    "ntm-sparsemax": ["--model", "ntm", "--attention", "sparsemax"],
    "ntm-entmax15": ["--model", "ntm", "--attention", "entmax15"],
    "dnc-softmax": ["--model", "dnc", "--attention", "softmax"],
    "dnc-sparsemax": ["--model", "dnc", "--attention", "sparsemax"],
    "dnc-entmax15": ["--model", "dnc", "--attention", "entmax15"],
    "lstm": ["--model", "lstm"],
}
LENGTHS = (5, 10, 20)  # the longest of training, which is the recipe's default, twice and four times as many
FAR, FAR_SLOTS = (20, 40, 80, 120), 128  # the paper's longest, and its slots
# What Graves, Wayne & Danihelka (2014) say of their networks in section 4, whose results are curves and pictures.
PUBLISHED = [
    ("copy", "8 bits, 1 to 20 vectors", "NTM goes on to 120 with few mistakes; LSTM degrades quickly beyond 20"),
    (
        "repeat-copy",
        "8 bits, 1 to 10 vectors, 1 to 10 times",
        "NTM goes on to 20 vectors and 20 times, but marks the end wrongly beyond 10 times; LSTM does not go on",
    ),
    (
        "recall",
        "2 to 6 items of 3 × 6 bits",
        "NTM (feed-forward controller) is nearly perfect up to 12 items, and below 1 bit per sequence at 15",
    ),
    ("sort", "8 bits, 20 vectors, the best 16 wanted", "NTM substantially outperforms LSTM; nothing on longer ones"),
]


def _evaluate_latest(run: Path, threads: int) -> dict[str, Any]:
    return evaluate(run, threads, "--checkpoint", "latest")


def copy_far(options: argparse.Namespace, seed: int) -> None:
    """Tests finished networks that copy on far longer sequences, with more slots than they were trained with."""
    import numpy as np
    import torch

    from omegamax.data.memory_tasks import draw_line
    from omegamax.recipes import load
    from omegamax.training.prediction import evaluate

    torch.set_num_threads(options.threads)
    known = {(cell["variant"], cell["seed"]) for cell in timing.read_cells("memory_far")}
    for cell in timing.read_cells("memory"):
        variant = cell["variant"]
        run = Path(options.runs) / f"copy-{variant}-{seed}"
        wanted = cell["task"] == "copy" and cell["seed"] == seed and not cell["more"] and variant != "lstm"
        if not wanted or (variant, seed) in known or not (run / "config.json").exists():
            continue
        found = load(run, which="latest")
        found.model.memory.n_slots = FAR_SLOTS  # no parameter depends on it
        test = {}
        for length in FAR:
            draw = np.random.default_rng(length)
            lines = [draw_line("copy", length, draw, bits=found.task.settings.bits) for _ in range(100)]
            test[str(length)] = evaluate(found.task, found.model, found.task.read(lines), batch_size=100)
        date = datetime.date.today().isoformat()
        timing.add_cell("memory_far", {"variant": variant, "seed": seed, "date": date, "test": test})


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    how = sorted({(" ".join(cell["options"]), cell["date"]) for cell in cells})
    rows: list[list[object]] = [[f"`{given}`", date] for given, date in how]
    found: list[timing.Section] = [("How", ["options beside the defaults", "date"], rows)]
    header = ["variant", "seeds"]
    for length in LENGTHS:
        header += [f"right bits of {length}, %", f"right sequences of {length}, %", f"cost of {length}, bits"]
    for task in TASKS:
        groups: dict[str, list[dict[str, Any]]] = {}
        for cell in sorted(cells, key=lambda cell: (list(VARIANTS).index(cell["variant"]), cell["more"])):
            if cell["task"] == task:
                more = f", `{' '.join(cell['more'])}`" if cell["more"] else ""
                groups.setdefault(cell["variant"] + more, []).append(cell)
        rows = []
        for variant, some in groups.items():
            row: list[object] = [variant, ", ".join(str(cell["seed"]) for cell in some)]
            for length in LENGTHS:
                row.append(spread(some, f"bit_accuracy_{length}", 100, 1))
                row.append(spread(some, f"sequence_accuracy_{length}", 100, 1))
                row.append(spread(some, f"cost_{length}", 1, 2))
            times = [cell["seconds"] / 60 for cell in some if cell["seconds"] is not None]
            rows.append([*row, f"{statistics.mean(times):.1f}" if times else "–"])
        if rows:
            found.append((task, [*header, "minutes of processor time"], rows))
    far = timing.read_cells("memory_far")
    if far:
        rows = []
        for cell in far:
            metrics = [(cell["test"][str(n)], name) for n in FAR for name in ("bit_accuracy", "sequence_accuracy")]
            rows.append([cell["variant"], cell["seed"], *(f"{100 * test[name]:.1f}" for test, name in metrics)])
        header = ["variant", "seed"]
        for length in FAR:
            header += [f"right bits of {length}, %", f"right sequences of {length}, %"]
        found.append((f"copy with {FAR_SLOTS} slots instead of 32", header, rows))
    header = ["task", "training", "what is said of longer sequences"]
    found.append(("Said by Graves, Wayne & Danihelka (2014)", header, [list(row) for row in PUBLISHED]))
    return found


def draw(runs: Path, directory: Path) -> None:
    """Draws where networks that have learned to copy write and read, under softmax beside sparsemax."""
    line = "011010 101101 000111 110001 010101 111000 001100 100110"
    for name, model in (("memory_copy", "dnc"), ("memory_tape", "ntm")):
        pair = {each: runs / f"copy-{model}-{each}-0" for each in ("softmax", "sparsemax")}
        if all((run / "config.json").exists() for run in pair.values()):
            directory.mkdir(parents=True, exist_ok=True)
            draw_pair(pair, line).savefig(directory / f"{name}.png")


def draw_pair(pair: dict[str, Path], line: str) -> Any:
    """Draws the writes and the reads of each run, all side by side: slots down, steps across."""
    import torch

    from omegamax.plots import attention_maps
    from omegamax.recipes import load

    torch.set_num_threads(1)
    maps, steps, exact = {}, {}, {}
    for name, run in pair.items():
        found = load(run, which="latest")
        with torch.no_grad():
            (drawn,) = found.task.attend(found.model, found.task.read([line]))
        n_steps = len(drawn.rows) // 2  # one head of each kind
        for kind, some in (("writes", slice(n_steps)), ("reads", slice(n_steps, None))):
            maps[f"{name}, {kind}"] = drawn.weights[some].T
            steps[f"{name}, {kind}"] = [row.partition(" ")[2] for row in drawn.rows[some]]
            exact[f"{name}, {kind}"] = not drawn.always_positive
    slots = [str(slot) for slot in range(next(iter(maps.values())).shape[0])]
    return attention_maps(maps, slots, steps, exact_zeros=exact, across=len(maps))


def main() -> None:
    parser = arguments(__doc__, VARIANTS)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--pictures", type=Path, help="draw finished runs of softmax and sparsemax into this directory")
    parser.add_argument("--far", action="store_true", help="test finished runs of copy on far longer sequences, too")
    options = parser.parse_args()
    if not options.runs and (options.pictures or options.far or not options.report):
        parser.error("--runs must name a directory for the runs, got none; or only --report")
    wanted = itertools.product(options.seeds, options.tasks, options.variants)
    for seed, task, variant in [] if options.report else wanted:
        wanted_cell = {"task": task, "variant": variant, "seed": seed}
        lengths = ",".join(map(str, LENGTHS))
        given = ["--task", task, *VARIANTS[variant], "--test-length", lengths]
        test = compute("memory", wanted_cell, given, options, _evaluate_latest)["test"]
        note = ", ".join(f"{test[f'bit_accuracy_{length}']:.3f} of {length}" for length in LENGTHS)
        print(f"{task}, {variant}, seed {seed}: right bits {note}", file=sys.stderr, flush=True)
        write_tables()  # after each cell: nothing is lost
    for seed in options.seeds if options.far else []:
        copy_far(options, seed)
    write_tables()
    if options.pictures:
        draw(Path(options.runs), options.pictures)


def write_tables() -> None:
    cells = timing.read_cells("memory")
    if not cells:
        raise SystemExit("memory: no cell is finished yet; leave out --report")
    timing.write("memory", "Algorithms with a memory", sections(cells), peers=())


if __name__ == "__main__":
    main()
