"""The tables of benchmarks/translate.py, from the results of its cells."""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import timing
from translate_cells import ABLATIONS, CAPS, GENERAL, NORMALIZERS, SUMMARIES, TASKS, TRANSLATIONS, Cell
from translate_runs import references

from omegamax.data.text_tokens import PlainTokens
from omegamax.data.vocabulary import SPECIAL, Vocabulary
from omegamax.recipes.extractive_baselines import extractive_baselines
from omegamax.recipes.metrics import import_sacrebleu, translation_scores

MARKS = (5, 10, 20, 30, 45, 60, 90)  # minutes
LENGTHS = ((1, 5), (6, 8), (9, 12), (13, 1000))  # words of a source
SAMPLES = 1000
ROUGE = ("rouge1", "rouge2", "rouge_l", "rouge1_recall_75", "rouge2_recall_75", "rouge_l_recall_75")


def sections(
    options: argparse.Namespace, known: Sequence[Cell], results: dict[str, Any], speed: Any
) -> list[timing.Section]:
    """All tables for which there is a result."""
    done = {cell.name: results[cell.name] for cell in known if cell.name in results}
    written = [
        *(_paper(task, model, done, speed) for task in TRANSLATIONS for model in ("lstm", "transformer")),
        *(_seeds(task, done, options) for task in TRANSLATIONS),
        *(_summaries(task, done, options) for task in (*SUMMARIES, "title")),
        _bars(done),
        _curves(done),
        *_lecture(done, options),
        _ablation(done),
        _outputs(done),
        _general(done),
        _speed(speed),
    ]
    return [section for section in written if section is not None and section[2]]


def _paper(task: str, model: str, done: dict[str, Any], speed: Any) -> timing.Section:
    header = ["attention", "BLEU", "− best", "chrF", "zeros", "tokens read", "long segments", "steps × softmax"]
    rows = []
    cells = {name: done.get(f"paper/{task}/{model}/{name}") for name in NORMALIZERS}
    best = max((cell["metrics"]["bleu"] for cell in cells.values() if cell), default=0.0)
    for name, cell in cells.items():
        if cell is None:
            continue
        metrics = cell["metrics"]
        rate = speed["rows"].get(f"{model} {name}", {}).get("speed", "–") if speed else "–"
        sparse = [_percent(metrics, "zeros"), metrics.get("support", "–"), _percent(metrics, "long_segments")]
        rows.append([name, metrics["bleu"], metrics["bleu"] - best, metrics["chrf"], *sparse, rate])
    return f"{task}, {model}: test BLEU by normalizer, beam {_beam(cells)}", header, rows


def _seeds(task: str, done: dict[str, Any], options: argparse.Namespace) -> timing.Section | None:
    """Three seeds of softmax and of the two best; the first seed is the cell of the paper's table."""
    by_name: dict[str, list[Any]] = {}
    for name in NORMALIZERS:
        first = done.get(f"paper/{task}/lstm/{name}")
        more = [done[key] for seed in "12" if (key := f"seeds/{task}/lstm/{name}-{seed}") in done]
        if first and more:
            by_name[name] = [first, *more]
    data = getattr(options, TASKS[task][0])
    rows = []
    for name, several in by_name.items():
        values = [each["metrics"]["bleu"] for each in several]
        row = [name, len(values), statistics.mean(values), statistics.stdev(values)]
        plain = by_name.get("softmax")
        if name == "softmax" or plain is None or data is None:
            row += ["–", "–"]
        else:
            wins = [_share_of_wins(a["outputs"], b["outputs"], data, task) for a, b in zip(several, plain)]
            row += [statistics.mean(values) - statistics.mean(each["metrics"]["bleu"] for each in plain), _list(wins)]
        rows.append(row)
    header = ["attention", "seeds", "mean BLEU", "deviation", "− softmax", "samples in which it beats softmax, by seed"]
    return f"{task}, lstm: seeds, and paired bootstrap of {SAMPLES} samples (Koehn, EMNLP 2004)", header, rows


def _share_of_wins(a: Sequence[str], b: Sequence[str], data: Path, task: str) -> float:
    """In how many samples of the test sentences the outputs `a` have a higher BLEU than `b`."""
    targets = [pair.targets[0] for pair in _references(data, task)]
    metric = import_sacrebleu().BLEU(force=True)
    # Statistics of single sentences add up to those of a corpus, so that a sample costs only a sum.
    statistics_of = [metric._extract_corpus_statistics(list(texts), [targets]) for texts in (a, b)]
    draw, n_better = random.Random(0), 0
    for _ in range(SAMPLES):
        places = draw.choices(range(len(targets)), k=len(targets))
        scores = [metric._aggregate_and_compute([each[at] for at in places]).score for each in statistics_of]
        n_better += scores[0] > scores[1]
    return n_better / SAMPLES


@lru_cache
def _references(data: Path, task: str) -> list[Any]:
    return references(data, *TASKS[task][2:])


def _summaries(task: str, done: dict[str, Any], options: argparse.Namespace) -> timing.Section:
    rows = []
    for name in NORMALIZERS:
        cell = done.get(f"paper/{task}/pointer/{name}")
        if cell:
            rows.append(
                [f"pointer, {name}", *(cell["metrics"][kind] for kind in ROUGE), _percent(cell["metrics"], "zeros")]
            )
    if f"plain/{task}/lstm" in done:
        metrics = done[f"plain/{task}/lstm"]["metrics"]
        rows.append(["no copying, softmax", *(metrics[kind] for kind in ROUGE), _percent(metrics, "zeros")])
    if options.scitldr is not None:
        source = "source" if task != "headline" else "source.0"
        pairs = references(options.scitldr, source, TASKS[task][3])
        given = [pair.sentences or (pair.source,) for pair in pairs], [pair.targets for pair in pairs]
        single = all(len(sentences) == 1 for sentences in given[0])  # then all of them copy the same sentence
        for name, scores in extractive_baselines(*given).items():
            if single and name != "lead-1":
                continue
            rows.append([name, *(scores[kind] for kind in ROUGE), "–"])
    header = ["", "ROUGE-1", "ROUGE-2", "ROUGE-L", "R-1 of 75 bytes", "R-2 of 75 bytes", "R-L of 75 bytes", "zeros"]
    return f"SciTLDR, {task}: ROUGE (rouge-score, best reference), beside copying one sentence", header, rows


def _bars(done: dict[str, Any]) -> timing.Section:
    wanted = {"en-de": 27, "en-fr": 35}
    rows = []
    for name, cell in done.items():
        if name.startswith("bars/"):
            _, task, model = name.split("/")
            goal = wanted[task]
            rows.append([task, model, cell["metrics"]["bleu"], goal, cell["metrics"]["chrf"], cell["seconds"] / 60])
            rows[-1] += [cell.get("parameters", "–"), "yes" if cell["finished"] else "no"]
    header = ["task", "model", "BLEU", "bar", "chrF", "minutes of training", "parameters", "ended by itself"]
    return "The bars: an hour of training", header, rows


def _curves(done: dict[str, Any]) -> timing.Section:
    """The best BLEU on dev so far, after some minutes of training: LSTM against Transformer at equal time."""
    rows = []
    for name in done:
        plain = name.startswith("paper/") and name.endswith(("lstm/softmax", "transformer/softmax"))
        if not (plain or name.startswith("bars/")):
            continue
        reached = [[bleu for seconds, bleu in done[name]["dev"] if seconds <= 60 * mark] for mark in MARKS]
        rows.append([name, *(max(values) if values else "–" for values in reached)])
    return "Best BLEU on dev (greedy) after minutes of training", ["cell", *(f"{mark}" for mark in MARKS)], rows


def _lecture(done: dict[str, Any], options: argparse.Namespace) -> list[timing.Section]:
    """With and without attention: BLEU of all, of sentences without unknown words, and by length."""
    rows, by_length = [], []
    if options.en_de is None:
        return []
    pairs = _references(options.en_de, "en-de")
    sources = PlainTokens(Vocabulary(SPECIAL), "word").split([pair.source for pair in pairs])
    for name, cap in ((name, cap) for cap in CAPS for name in ("none", "softmax")):
        cell = done.get(f"lecture/en-de/{name}-{cap}")
        if cell is None:
            continue
        title = f"{'with' if name == 'softmax' else 'without'} attention, up to {cap} words"
        rows.append([title, cell["metrics"]["bleu"], _bleu(cell, pairs, cell["known"]), len(cell["known"])])
        groups = [[at for at, a in enumerate(sources) if low <= len(a) <= high] for low, high in LENGTHS]
        by_length.append([title, *(_bleu(cell, pairs, group) for group in groups)])
    header = ["lstm, words", "BLEU", "BLEU without unknown words", "sentences of these"]
    lengths = ["lstm, words", *(f"{low} to {high}" if high < 1000 else f"from {low}" for low, high in LENGTHS)]
    title = "The lecture's table: en-de"
    return [(title, header, rows), (f"{title}, BLEU by words of the source", lengths, by_length)]


def _bleu(cell: Any, pairs: Sequence[Any], places: Sequence[int]) -> float | str:
    if not places:
        return "–"
    outputs = [cell["outputs"][at] for at in places]
    return translation_scores(outputs, [[pairs[at].targets[0]] for at in places]).bleu


def _ablation(done: dict[str, Any]) -> timing.Section:
    rows = []
    base = done.get("ablation/en-de/base")
    for name in ABLATIONS:
        cell = done.get(f"ablation/en-de/{name}")
        if cell:
            bleu = cell["metrics"]["bleu"]
            change = bleu - base["metrics"]["bleu"] if base else "–"
            rows.append([name, bleu, change, cell["parameters"], cell["seconds"] / 60])
    header = ["Transformer", "BLEU", "− base", "parameters", "minutes of training"]
    return "en-de: the Transformer with one thing changed, rows as in Vaswani et al.", header, rows


def _outputs(done: dict[str, Any]) -> timing.Section:
    header = ["distribution of the next token", "BLEU", "chrF", "sentences per second, beam"]
    rows = [
        [name, each["metrics"]["bleu"], each["metrics"]["chrf"], each["sentences_per_second"]]
        for name in ("softmax", "entmax15", "sparsemax")
        if (each := done.get(f"output/en-de/{name}"))
    ]
    return "en-de, lstm: sparse outputs", header, rows


def _general(done: dict[str, Any]) -> timing.Section:
    """What dividing the scores of the LSTM's attention by the root of their size changes."""
    header = ["attention, score", "BLEU", "chrF", "zeros", "tokens read"]
    rows = []
    for name in GENERAL:
        for score, cell in (("general", f"general/en-de/{name}"), ("scaled", f"paper/en-de/lstm/{name}")):
            if (each := done.get(cell)) and f"general/en-de/{name}" in done:
                metrics = each["metrics"]
                sparse = [_percent(metrics, "zeros"), metrics.get("support", "–")]
                rows.append([f"{name}, {score}", metrics["bleu"], metrics["chrf"], *sparse])
    return "en-de, lstm: scores as they are, and divided by the root of the size", header, rows


def _speed(speed: Any) -> timing.Section | None:
    if speed is None:
        return None
    rows = [[name, each["milliseconds"], each["speed"]] for name, each in speed["rows"].items()]
    title = f"en-de: training steps of 64 pairs in turns, {speed['threads']} thread, {speed['clock']}"
    return title, ["model, attention", "ms per step", "tokens per second, × softmax"], rows


def _percent(metrics: dict[str, float], name: str) -> str:
    return f"{100 * metrics[name]:.1f} %" if name in metrics else "–"


def _beam(cells: dict[str, Any]) -> Any:
    return next((cell["beam"] for cell in cells.values() if cell), "–")


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.1f} %" for value in values)
