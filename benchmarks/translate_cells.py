"""The cells of benchmarks/translate.py: what is trained, in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

NORMALIZERS = ("softmax", "sparsemax", "entmax15", "fusedmax", "oscarmax", "sqpnormmax")
TRANSFORMER = ("--model", "transformer", "--n-layers", "3", "--n-heads", "4", "--feed-forward-size", "1024")
MODELS = {"lstm": ("--model", "lstm"), "transformer": TRANSFORMER}
# Name of the data set's option, the task, what is read and what is written.
TASKS = {
    "en-de": ("en_de", "translate", "1", "2"),
    "de-en": ("en_de", "translate", "2", "1"),
    "en-fr": ("en_fr", "translate", "1", "2"),
    "fr-en": ("en_fr", "translate", "2", "1"),
    "tldr": ("scitldr", "summarize", "source", "target"),
    "title": ("scitldr", "summarize", "source", "title"),
    "headline": ("scitldr", "summarize", "source.0", "title"),
}
TRANSLATIONS, SUMMARIES = ("en-de", "fr-en"), ("tldr", "headline")
# Rows of table 3 of "Attention is all you need", at a size that runs here.
ABLATIONS = {
    "base": (),
    "A 1 head": ("--n-heads", "1"),
    "A 8 heads": ("--n-heads", "8"),
    "A 16 heads": ("--n-heads", "16"),
    "B keys of 16": ("--key-size", "16"),
    "B keys of 32": ("--key-size", "32"),
    "C 1 layer": ("--n-layers", "1"),
    "C 6 layers": ("--n-layers", "6"),
    "C size 128": ("--hidden-size", "128"),
    "C size 512": ("--hidden-size", "512"),
    "C feed-forward 256": ("--feed-forward-size", "256"),
    "C feed-forward 2048": ("--feed-forward-size", "2048"),
    "D no dropout": ("--dropout", "0"),
    "D dropout 0.3": ("--dropout", "0.3"),
    "D no smoothing": ("--label-smoothing", "0"),
    "D smoothing 0.2": ("--label-smoothing", "0.2"),
    "E learned positions": ("--positions", "learned"),
}
# An epoch of SciTLDR is 62 steps, so there are more of them; after two epochs a small pointer-generator wrote titles of
# ROUGE-L 3.3, when it had hardly begun to copy.
SUMMARY = ("--epochs", "20", "--max-tokens", "4000", "--max-source", "250", "--max-length", "60")
# The lecture's table (Bahdanau et al., ICLR 2015, table 1): words, so that some are unknown; two caps of the length.
LECTURE = ("--level", "word", "--max-tokens", "8000", "--unknown", "copy")
CAPS = ("8", "50")
# Shapes whose learning rate reaches zero well within the hour of the bars, on one thread: 4 and 5 minutes an epoch.
FAST = ("--max-tokens", "4000", "--precision", "bfloat16", "--batch-size", "128", "--learning-rate", "2e-3")
FAST = (*FAST, "--warmup", "200")
BEST = {
    "lstm": ("--model", "lstm", "--hidden-size", "384", "--embedding-size", "256", *FAST, "--dropout", "0.3"),
    "transformer": (*TRANSFORMER, "--vocabulary", "joint", *FAST, "--dropout", "0.1"),
}
BEST = {"lstm": (*BEST["lstm"], "--epochs", "7"), "transformer": (*BEST["transformer"], "--epochs", "9")}
JOEYNMT = "joeynmt"
GENERAL = ("softmax", "sparsemax")  # with scores that are not divided by the root of the size


class Cell(NamedTuple):
    """One run: its name, its task, and options of training beside those that all runs of the command have."""

    name: str
    task: str  # a key of TASKS
    options: tuple[str, ...]

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def cells(two_best: Callable[[str], tuple[str, ...]] = lambda group: ()) -> Iterator[Cell]:
    """All cells; `two_best` names the best normalizers of "paper/TASK/MODEL", once its cells are done."""
    for task, (model, shape), name in product(TRANSLATIONS, MODELS.items(), NORMALIZERS):
        yield Cell(f"paper/{task}/{model}/{name}", task, (*shape, "--attention", name))
    for task, name in product(SUMMARIES, NORMALIZERS):
        yield Cell(f"paper/{task}/pointer/{name}", task, (*SUMMARY, "--copy", "pointer", "--attention", name))
    for task in TRANSLATIONS:
        repeated = dict.fromkeys(("softmax", *two_best(f"paper/{task}/lstm")))
        for name, seed in product(repeated, ("1", "2")):
            options = (*MODELS["lstm"], "--attention", name, "--seed", seed)
            yield Cell(f"seeds/{task}/lstm/{name}-{seed}", task, options)
    for task, (model, shape) in product(("en-de", "en-fr"), BEST.items()):
        yield Cell(f"bars/{task}/{model}", task, (*shape, "--keep", "5"))
    yield Cell(f"bars/en-de/{JOEYNMT}", "en-de", ())
    for name, cap in product(("softmax", "none"), CAPS):
        yield Cell(f"lecture/en-de/{name}-{cap}", "en-de", (*LECTURE, "--attention", name, "--max-length", cap))
    for name, changed in ABLATIONS.items():
        yield Cell(f"ablation/en-de/{name}", "en-de", (*TRANSFORMER, *changed))
    for name in ("softmax", "entmax15", "sparsemax"):
        yield Cell(f"output/en-de/{name}", "en-de", ("--output", name, "--label-smoothing", "0"))
    for task in SUMMARIES:
        yield Cell(f"plain/{task}/lstm", task, SUMMARY)
    for name in GENERAL:
        yield Cell(f"general/en-de/{name}", "en-de", (*MODELS["lstm"], "--attention", name, "--score", "general"))
    yield Cell("paper/title/pointer/softmax", "title", (*SUMMARY, "--copy", "pointer"))
