"""The paper's translation and summarization tables, and what the issue asks beside them, cell by cell.

A cell is one run of `omegamax train translate` or `summarize`, and a beam search over its test data. Finished cells are
kept in results/translate_cells.jsonl and not run again, here or elsewhere; a run that was stopped goes on where it was.
So this may be stopped and started at any time:

    python benchmarks/translate.py --list
    python benchmarks/translate.py --en-de corpus/en-de --en-fr corpus/en-fr --cells 'paper/*' --minutes 300
    python benchmarks/translate.py --en-de corpus/en-de --en-fr corpus/en-fr --cells 'bars/*' --cell-minutes 60 \
        --epochs 12 --threads 2
    python benchmarks/translate.py --scitldr corpus/scitldr --cells '*/tldr/*'
    python benchmarks/translate.py --en-de corpus/en-de --speed
    python benchmarks/translate.py --tables

Groups of cells (translate_cells.py): `paper` (normalizers × tasks × models at the same, untuned settings), `seeds`
(two more seeds of softmax and of the two best), `bars` (larger models, an hour each, and JoeyNMT), `lecture` (with and
without attention, two caps of the length), `ablation` (the Transformer with one thing changed), `output` (sparse
outputs), `plain` (summaries without copying), `general` (scores of the LSTM's attention that are not scaled).
--minutes is for all: no cell begins after it, and the one that runs is stopped, to go on the next time. --cell-minutes
is for one cell: its training is stopped, and the best checkpoint so far is tested. --speed times training steps of all
normalizers in turns.

How long it takes: on one thread of a busy machine a training step of 64 pairs of Tatoeba en-de took 0.30 s of processor
time with the LSTM of `paper` and 0.60 s with its Transformer (0.29 s with fusedmax), so an epoch of 162,944 pairs takes
13 and 26 minutes there. 24 cells of `paper` × 6 epochs would be two days: --epochs 2 and parts of them by --cells. Most
of a step is the product with 8000 output tokens: with 4000 the LSTM took 0.63 of the time, in bfloat16 0.69, in
bfloat16 with batches of 256 0.59 (--options, for all cells: --options --max-tokens 4000 --precision bfloat16).
"""

from __future__ import annotations

import argparse
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import timing
import torch
import translate_joeynmt
from training_steps import step_seconds, times_softmax
from translate_cells import JOEYNMT, MODELS, NORMALIZERS, TASKS, Cell, cells
from translate_runs import NAME, epochs_of, finished, keep, minutes_of, test, train
from translate_tables import sections

SPEED = "speed"  # the name of a cell


def run_cell(cell: Cell, options: argparse.Namespace, minutes: float) -> bool:
    """Trains and tests one cell; False if the time of the whole benchmark was over first."""
    where, task, source, target = TASKS[cell.task]
    data, out = getattr(options, where), options.out / cell.name.replace(" ", "-")
    if cell.name.endswith(JOEYNMT):
        if minutes < options.cell_minutes:  # it cannot go on where it was
            return False
        given = {"minutes": options.cell_minutes, "beam": options.beam, "threads": options.threads}
        found = translate_joeynmt.measure(options.joeynmt, data, out, **given)
    else:
        left = options.cell_minutes - minutes_of(out)
        # An option that is given twice has its last value, so a cell overrules what all cells have.
        common = ["--data", str(data), "--source", source, "--target", target, "--epochs", str(options.epochs)]
        common += ["--threads", str(options.threads), *options.options, *cell.options]
        stopped = train([task, *common], out, minutes=max(0.0, min(left, minutes)))
        if not stopped.finished and minutes < left:
            return False
        if not epochs_of(out):
            raise SystemExit(f"translate: {cell.name} ended no epoch in {options.cell_minutes} minutes; give it more")
        torch.set_num_threads(options.threads)
        found = {**test(out, beam=options.beam), "finished": stopped.finished, "seconds": 60 * minutes_of(out)}
    keep({**cell._asdict(), "beam": options.beam, **found})
    return True


def two_best(group: str) -> tuple[str, ...]:
    """The two best normalizers of a group by BLEU on dev, once all of its cells are done."""
    done, scores = finished(), {}
    for name in NORMALIZERS:
        if f"{group}/{name}" not in done:
            return ()
        scores[name] = max(bleu for _, bleu in done[f"{group}/{name}"]["dev"])
    return tuple(sorted(scores, key=scores.__getitem__, reverse=True)[:2])


def measure_speed(options: argparse.Namespace) -> dict[str, Any]:
    """Takes training steps of every normalizer in both models on the first task that has data, in turns."""
    from omegamax.recipes.settings import TranslateSettings
    from omegamax.recipes.translate import Translate
    from omegamax.training.settings import TrainingSettings

    first = Translate.prepare(TranslateSettings(data=str(options.en_de)))
    found: dict[str, Any] = {"clock": timing.clock.__name__, "threads": options.threads, "rows": {}}
    for model, shape in MODELS.items():
        given = {key[2:].replace("-", "_"): value for key, value in zip(shape[::2], shape[1::2])}
        given = {key: int(value) if value.isdecimal() else value for key, value in given.items()}
        tasks = {}
        for name in NORMALIZERS:
            settings = TranslateSettings(data=str(options.en_de), attention=name, **given)
            tasks[name] = Translate(settings, first.source_tokens, first.target_tokens, first._splits)
        training = TrainingSettings(batch_size=64, threads=options.threads)
        seconds = step_seconds(tasks, training, n_steps=options.steps)
        for name, several in seconds.items():
            ratio = 1 / times_softmax(several, seconds["softmax"])
            found["rows"][f"{model} {name}"] = {"milliseconds": 1e3 * sum(several) / len(several), "speed": ratio}
    return found


def chosen(options: argparse.Namespace) -> list[Cell]:
    return [cell for cell in cells(two_best) if any(fnmatch(cell.name, pattern) for pattern in options.cells)]


def obstacle(cell: Cell, options: argparse.Namespace) -> str | None:
    """Why a cell is not run now."""
    where = TASKS[cell.task][0]
    if cell.name in finished():
        return "done"
    if getattr(options, where) is None:
        return f"no data; give --{where}".replace("_", "-")
    if cell.name.endswith(JOEYNMT) and options.joeynmt is None:
        return "no JoeyNMT; give --joeynmt"
    return None


def write_tables(options: argparse.Namespace) -> None:
    done = finished()
    found = sections(options, list(cells(two_best)), done, done.get(SPEED))
    if found:
        timing.write(NAME, "Translation and summaries", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--en-de", "--en-fr", "--scitldr"):
        parser.add_argument(name, type=Path, help="the data: a directory, or the beginning of the names of its files")
    parser.add_argument("--out", type=Path, default=Path("runs/translate"), help="where runs are written")
    parser.add_argument("--cells", nargs="*", default=["*"], help="patterns of names of cells")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="one or two")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the whole benchmark")
    parser.add_argument("--cell-minutes", type=float, default=90, help="of training in one cell")
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="further options of training, for all cells; the last"
    )
    parser.add_argument("--joeynmt", type=Path, help="the Python of an environment with JoeyNMT")
    parser.add_argument("--speed", action="store_true", help="time training steps of all normalizers on --en-de")
    parser.add_argument("--steps", type=int, default=30, help="of --speed, for each normalizer and model")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="process_time", help="of --speed")
    parser.add_argument("--list", action="store_true", help="print the names of the cells")
    parser.add_argument("--tables", action="store_true", help="only write the tables of the cells that are done")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    timing.clock = getattr(time, options.clock)
    torch.set_num_threads(options.threads)
    began = time.monotonic()
    if options.speed:
        keep({"name": SPEED, **measure_speed(options)})
    elif not options.tables:
        for cell in chosen(options):
            reason = obstacle(cell, options)
            if options.list or reason is not None:
                print(f"{cell.name}: {reason or 'to do'}")
                continue
            left = options.minutes - (time.monotonic() - began) / 60
            if left <= 0 or not run_cell(cell, options, left):
                print(f"the time is over at {cell.name}; the same command goes on from here")
                break
            write_tables(options)
    if not options.list:
        write_tables(options)


if __name__ == "__main__":
    main()
