"""Natural language inference under every normalizer and alignment: accuracy, sparsity, time, paired bootstrap.

    python benchmarks/nli.py --corpus counterfactual=DIR --corpus snli=dev.tsv.gz,test.tsv.gz --seeds 1,2,3
    python benchmarks/nli.py --speed snli=dev.tsv.gz,test.tsv.gz
    python benchmarks/nli.py --tables --picture docs/images/nli_figure3.png

A cell is one corpus, variant and seed. It is trained as `omegamax train nli` does, all at the same hyper-parameters,
and added to results/nli_cells.jsonl. Cells that are there already are skipped, and one that was interrupted goes on
from its last checkpoint: run the same command again. After each cell, results/nli.md and nli.json are written anew.
With --encoder words are read by a pretrained model; give the corpus another name then, such as "snli with MiniLM".
--cells takes parts of variants' names, such as "lstm " or "esim matching". --speed times steps of all variants in turns
in one process. --picture draws figure 3 of the regularized-attention paper for its own sentence pair, or for --pair.

How long it takes: on one thread of a busy machine a step of 32 pairs of SNLI took 0.04 s of processor time with `lstm`,
0.07 s with `word-by-word`, 0.03 s with `decomposable`, 0.08 s with `esim`, 0.09 s with its matching, 0.18 s with its
sequence: 10 to 50 s for an epoch over SNLI's dev file, about two hours for all variants of one corpus and seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import timing
import torch
from training_steps import step_seconds, times_softmax

from omegamax.cli.attend import draw_beside
from omegamax.comparisons.bootstrap import paired_bootstrap
from omegamax.recipes import load
from omegamax.recipes.nli import Entailment
from omegamax.recipes.settings import NLISettings
from omegamax.recipes.train_and_test import train_and_test
from omegamax.training.settings import TrainingSettings, to_dict

ROWS = ("softmax", "sparsemax", "entmax15", "fusedmax", "oscarmax", "sqpnormmax")
VARIANTS: dict[str, dict[str, str]] = {
    **{f"lstm {name}": {"model": "lstm", "attention": name} for name in (*ROWS, "none")},
    **{
        f"{model} {name}": {"model": model, "attention": name}
        for model in ("word-by-word", "decomposable", "esim")
        for name in ROWS
    },
    **{
        f"{model} {kind}{', NULL' * (null == 'yes')}{', one direction' * (direction == 'hypothesis')}": {
            "model": model,
            "alignment": kind,
            "null": null,
            "direction": direction,
        }
        for model in ("decomposable", "esim")
        for kind in ("matching", "sequence")
        for null, direction in (("no", "both"), ("no", "hypothesis"), ("yes", "both"))
    },
}
# Table 1 of Niculae & Blondel (NIPS 2017): test accuracy in percent after training on all 550,000 pairs of SNLI.
PUBLISHED = {"lstm softmax": 81.66, "lstm sparsemax": 82.39, "lstm fusedmax": 82.41, "lstm oscarmax": 81.76}
FIGURE_3 = "A band is playing on stage at a concert and the attendants are dancing to the music\tNo one is dancing."
STEPS, WARM_UP = 40, 3


def settings_of(options: argparse.Namespace, data: str, variant: str) -> NLISettings:
    return NLISettings(
        data=data,
        hidden_size=options.hidden_size,
        word_size=options.word_size,
        vectors=options.vectors,
        encoder=options.encoder,
        **VARIANTS[variant],
    )


def training_of(options: argparse.Namespace, seed: int) -> TrainingSettings:
    return TrainingSettings(
        epochs=options.epochs, batch_size=32, learning_rate=options.learning_rate, seed=seed, threads=options.threads
    )


# Accuracy


def run_cell(options: argparse.Namespace, corpus: str, data: str, variant: str, seed: int) -> dict[str, Any] | None:
    """Trains and tests one cell; None if it was interrupted."""
    settings, training = settings_of(options, data, variant), training_of(options, seed)
    out = run_directory(options, corpus, variant, seed)
    found = train_and_test("nli", settings, training, out, existing="resume" if out.exists() else "refuse")
    if found is None or found.best is None:
        return None
    gold = [pair.target for pair in found.best.task.examples("test")]
    right = [line.partition("\t")[0] == label for line, label in zip(found.outputs, gold, strict=True)]
    ends = [0.0, *(event["seconds"] for event in events(out) if event.get("event") == "epoch")]
    lasted = [after - before for before, after in pairwise(ends)]
    return {
        "corpus": corpus,
        "variant": variant,
        "seed": seed,
        "settings": {
            **to_dict(settings),
            "data": ",".join(Path(part).name for part in data.split(",")),
            "encoder": settings.encoder and Path(settings.encoder).name,
        },
        "training": to_dict(training),
        "dev": found.evaluation["dev"],
        "test": found.evaluation["test"],
        "epoch_seconds": statistics.median(lasted) if lasted else None,
        "n_test": len(right),
        "right": f"{int(''.join(map(str, map(int, right))), 2):x}",  # a bit for each pair, the first is the highest
    }


def run_directory(options: argparse.Namespace, corpus: str, variant: str, seed: int) -> Path:
    return options.runs / corpus / f"{variant.replace(', ', '-').replace(' ', '-')}-{seed}"


def events(out: Path) -> Iterator[dict[str, Any]]:
    with (out / "metrics.jsonl").open() as file:
        yield from map(json.loads, file)


def bits(cell: dict[str, Any]) -> list[int]:
    return [int(bit) for bit in f"{int(cell['right'], 16):0{cell['n_test']}b}"]


# Speed


def measure_speed(options: argparse.Namespace, corpus: str, data: str) -> dict[str, Any]:
    """Takes steps of all variants in turns, and compares each with softmax in the same model."""
    first: Entailment | None = None
    tasks: dict[str, Entailment] = {}
    for variant in chosen(options):
        settings = settings_of(options, data, variant)
        tasks[variant] = (
            Entailment.prepare(settings)
            if first is None
            else Entailment(settings, first.inputs, first.labels, first._splits)
        )
        first = first or tasks[variant]
    seconds = step_seconds(tasks, training_of(options, 0), n_steps=STEPS, warm_up=WARM_UP)
    rows = {}
    for variant, several in seconds.items():
        plain = seconds.get(f"{variant.split()[0]} softmax")
        ratio = None if plain is None else times_softmax(several, plain)
        rows[variant] = {"milliseconds": 1e3 * statistics.median(several), "ratio": ratio}
    return {"corpus": corpus, "speed": rows, "clock": timing.clock.__name__, "threads": options.threads}


# Tables


def sections(cells: list[dict[str, Any]]) -> list[timing.Section]:
    found: list[timing.Section] = []
    trained = [cell for cell in cells if "variant" in cell]
    for corpus in dict.fromkeys(cell["corpus"] for cell in trained):
        rows = [accuracy_row(variant, corpus, trained) for variant in VARIANTS if of(trained, corpus, variant)]
        header = [
            "model",
            "seeds",
            "accuracy",
            "− softmax [95 %]",
            "p",
            "zeros",
            "words read",
            "s per epoch",
            "published",
        ]
        found.append((f"{corpus}: test accuracy in percent, paired bootstrap over pairs against softmax", header, rows))
    for cell in cells:
        if "speed" in cell:
            heading = f"{cell['corpus']}: a training step, {cell['threads']} thread, {cell['clock']}"
            rows = [[variant, each["milliseconds"], each["ratio"] or ""] for variant, each in cell["speed"].items()]
            found.append((heading, ["model", "ms", "× softmax of the same model"], rows))
    return found


def of(cells: list[dict[str, Any]], corpus: str, variant: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["corpus"] == corpus and cell["variant"] == variant]


def accuracy_row(variant: str, corpus: str, cells: list[dict[str, Any]]) -> list[object]:
    own, plain = of(cells, corpus, variant), of(cells, corpus, f"{variant.split()[0]} softmax")
    shared = sorted({cell["seed"] for cell in own} & {cell["seed"] for cell in plain})
    accuracies = [100 * cell["test"]["accuracy"] for cell in own]
    spread = f" ± {statistics.stdev(accuracies):.2f}" if len(own) > 1 else ""
    compared: list[object] = ["", ""]
    if shared and not variant.endswith(" softmax"):
        # The score of a pair is its mean over the seeds that both have.
        means = [
            [statistics.fmean(each) for each in zip(*(bits(cell) for cell in some if cell["seed"] in shared))]
            for some in (own, plain)
        ]
        better = paired_bootstrap(*means)
        interval = f"{100 * better.mean:+.2f} [{100 * better.low:+.2f}, {100 * better.high:+.2f}]"
        compared = [interval, f"{better.p_value:.3f}"]
    sparse = [cell["test"] for cell in own if "zeros" in cell["test"]]
    return [
        variant,
        len(own),
        f"{statistics.fmean(accuracies):.2f}{spread}",
        *compared,
        f"{100 * statistics.fmean(each['zeros'] for each in sparse):.1f} %" if sparse else "",
        f"{statistics.fmean(each['support'] for each in sparse):.1f}" if sparse else "",
        statistics.median(cell["epoch_seconds"] or float("nan") for cell in own),
        PUBLISHED.get(variant, "") if corpus.startswith("snli") else "",
    ]


def draw_figure_3(options: argparse.Namespace, corpus: str) -> None:
    """Draws where four models look for the sentence pair of the paper's figure 3, with the label that each chose."""
    maps = {}
    for name in ("softmax", "sparsemax", "fusedmax", "oscarmax"):
        best = load(run_directory(options, corpus, f"lstm {name}", options.seeds[0]))
        with torch.no_grad():
            (maps[name],) = best.task.attend(best.model, best.task.read([options.pair or FIGURE_3]))
    draw_beside(maps).savefig(options.picture)


def chosen(options: argparse.Namespace) -> list[str]:
    return [variant for variant in VARIANTS if any(part in variant for part in options.cells)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", action="append", default=[], metavar="NAME=PATH", help="data as for train nli --data"
    )
    parser.add_argument("--speed", action="append", default=[], metavar="NAME=PATH", help="time steps on this data")
    parser.add_argument("--cells", nargs="*", default=[""], help="variants whose name holds one of these texts")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further cell after this time")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[1])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--word-size", type=int, default=100)
    parser.add_argument("--vectors", help="a file of word vectors")
    parser.add_argument("--encoder", help="a directory of a Hugging Face model that reads the words, trained further")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch and omegamax (default %(default)s)")
    parser.add_argument("--runs", type=Path, default=Path("runs/benchmark-nli"), help="where models are kept")
    parser.add_argument("--tables", action="store_true", help="train nothing, write the tables of what is there")
    parser.add_argument("--picture", type=Path, help="figure 3 of the paper, from the lstm runs of the first corpus")
    parser.add_argument("--pair", help="another pair for the picture: premise, a tab, hypothesis")
    parser.add_argument("--list", action="store_true", help="print the variants")
    parser.add_argument("--clock", choices=["perf_counter", "process_time"], default="process_time", help="of --speed")
    options = parser.parse_args()
    if options.list:
        print("\n".join(chosen(options)))
        return
    timing.clock = getattr(time, options.clock)
    torch.set_num_threads(options.threads)
    began = time.monotonic()
    corpora = dict(each.split("=", 1) for each in options.corpus)
    if not options.tables:
        for corpus, data in corpora.items():
            for seed in options.seeds:
                for variant in chosen(options):
                    if any(cell["seed"] == seed for cell in of_trained(corpus, variant)):
                        continue
                    if (time.monotonic() - began) / 60 > options.minutes:
                        raise SystemExit(f"the time is over at {variant}; the same command goes on from here")
                    print(f"{corpus}, {variant}, seed {seed}", file=sys.stderr, flush=True)
                    cell = run_cell(options, corpus, data, variant, seed)
                    if cell is None:
                        raise SystemExit("interrupted; the same command goes on from here")
                    timing.add_cell("nli", cell)
                    timing.write("nli", "Natural language inference", sections(timing.read_cells("nli")))
        for corpus, data in (each.split("=", 1) for each in options.speed):
            timing.add_cell("nli", measure_speed(options, corpus, data))
    if timing.read_cells("nli"):
        timing.write("nli", "Natural language inference", sections(timing.read_cells("nli")))
    if options.picture is not None:
        draw_figure_3(options, next(iter(corpora)))


def of_trained(corpus: str, variant: str) -> list[dict[str, Any]]:
    return of([cell for cell in timing.read_cells("nli") if "variant" in cell], corpus, variant)


if __name__ == "__main__":
    main()
