"""One task per file, and one training loop for all of them. Needs the extra `nlp`.

`TASKS` names the recipes for the command line: it is a table of strings, so that `--help` loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple


class TaskEntry(NamedTuple):
    """Where a task lives: "module:name" of its class and of its settings (which import no PyTorch)."""

    summary: str
    task: str
    settings: str
    training: Mapping[str, Any] = MappingProxyType({})  # defaults of TrainingSettings that suit the task better


TASKS: dict[str, TaskEntry] = {
    "dates": TaskEntry(
        "normalise dates written in many languages to ISO form (generated data)",
        "omegamax.recipes.dates:Dates",
        "omegamax.training.settings:DatesSettings",
        # So small a model gains little from a second thread, and loses much where the cores are busy.
        MappingProxyType({"epochs": 3, "batch_size": 128, "learning_rate": 5e-3, "warmup": 50, "threads": 1}),
    ),
    "seq2seq": TaskEntry(
        "any two-column TSV: translation, transliteration, summarization of short texts",
        "omegamax.recipes.seq2seq:SequenceToSequence",
        "omegamax.training.settings:Seq2SeqSettings",
    ),
}


def resolve(reference: str) -> Any:
    """What "module:name" of the table means."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
