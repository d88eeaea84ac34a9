"""The model card of an exported model, README.md: what it is, how it is used, data, command, seeds, scores, licence."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegamax.data.printable import printable
from omegamax.recipes.tasks import TASKS, TaskEntry
from omegamax.training.checkpoints import Card
from omegamax.training.settings import TrainingSettings

# How a directory of models sorts them; the names are Hugging Face's.
_PIPELINES = {
    "nli": "text-classification",
    "tagger": "token-classification",
    "parser": "token-classification",
    "translate": "translation",
    "summarize": "summarization",
    "language": "text-generation",
}
_HERE = {"threads", "device", "sharding", "save_every", "keep", "log_every"}  # settings that change no result


def training_command(card: Card) -> str:
    """Returns the command that trains this model: the settings that differ from what `omegamax train` takes by itself.

    Of files and directories only the last part of their paths is shown.
    """
    entry = TASKS[card.task]
    words = ["omegamax", "train", card.task]
    for values, kind, own in (
        (card.settings, entry.settings_class(), {}),
        (card.training, TrainingSettings, entry.training),
    ):
        for each in dataclasses.fields(kind):
            value = values.get(each.name, each.default)
            if value == own.get(each.name, each.default) or each.name in _HERE:
                continue
            words.append(f"--{each.name.replace('_', '-')}")
            if value is not True:
                words.append(_name_of_path(value) if each.metadata.get("metavar") in _PATHS else str(value))
    return shlex.join(words)


_PATHS = ("PATH", "FILE", "DIR")


def _name_of_path(value: Any) -> str:
    return ",".join(Path(part).name for part in str(value).split(","))


def model_card(
    name: str,
    card: Card,
    scores: Mapping[str, Mapping[str, Any]],
    *,
    n_parameters: int,
    average: int = 1,
    licence: str | None = None,
    data: str | None = None,
    onnx: bool = False,
) -> str:
    """Returns the text of README.md.

    Arguments:
        name: of the model
        card: of the checkpoint that it is from
        scores: metrics by split
        n_parameters: how many the model has
        average: of how many of the latest checkpoints they are the mean
        licence: under which the model may be used
        data: what it was trained on, in words; the name of the file if left out
        onnx: whether ONNX graphs are beside it
    """
    entry = TASKS[card.task]
    parts = [
        _front_matter(card, licence),
        f"# {printable(name, max_length=200)}",
        f"A model of omegamax for the task `{card.task}`: {entry.summary.partition(' (')[0]}. "
        f"It has {n_parameters:,} parameters{_attention(card)}.",
        _usage(card, onnx),
        "## Training",
        _facts(card, entry, data, average),
        _code("sh", training_command(card)),
        *(["## Scores", _table(scores)] if scores else []),
        "## Licence",
        f"The weights: {printable(licence, max_length=200)}."
        if licence
        else "The writer of this folder has named none. The data that the model was trained on has a licence too.",
        "Reading this folder runs no code: it holds JSON and safetensors.",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(card: Card, licence: str | None) -> str:
    tags = ["omegamax", card.task]
    attention = card.settings.get("attention")
    if isinstance(attention, str):
        tags.append(attention)
    lines = ["---", "library_name: omegamax", f"license: {json.dumps(licence or 'unknown')}"]
    if card.task in _PIPELINES:
        lines.append(f"pipeline_tag: {_PIPELINES[card.task]}")
    return "\n".join([*lines, f"tags: {json.dumps(tags)}", "---"])  # JSON is YAML too


def _attention(card: Card) -> str:
    attention = card.settings.get("attention")
    return f", and its attention is {printable(attention, max_length=40)}" if isinstance(attention, str) else ""


def _usage(card: Card, onnx: bool) -> str:
    python = 'from omegamax.recipes import load, predict\n\nfound = load(".")\n'
    python += 'print(predict(found.task, found.model, found.task.read(["your input"])))'
    parts = [
        "## Use",
        _code("sh", "omegamax predict . < input.txt\nomegamax evaluate . --data DATA"),
        _code("python", python),
    ]
    if onnx:
        parts.append(
            "`encoder.onnx` and `decoder.onnx` are the encoder and one step of the decoder; `config.json` lists their "
            "inputs and outputs. A step's `next.*` are the `state.*` of the one after it."
        )
    return "\n\n".join(parts)


def _facts(card: Card, entry: TaskEntry, data: str | None, average: int) -> str:
    settings, training, state = card.settings, card.training, card.state
    path = settings.get("data")
    if data is None:
        seed = settings.get("data_seed")
        data = f"`{_name_of_path(path)}`" if path else f"generated by omegamax, seed {seed}"
    versions = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    rows = [
        ("data", data),
        ("checksum of the data", f"`{card.data[:16]}`"),
        ("seed", training.get("seed")),
        ("epochs, steps", f"{state.get('epoch')}, {state.get('step')}"),
        ("seconds of training", f"{state['seconds']:.0f}" if isinstance(state.get("seconds"), (int, float)) else "–"),
        ("versions", versions),
        *([("parameters", f"the mean of the {average} latest checkpoints")] if average > 1 else []),
    ]
    lines = [f"| {name} | {printable(value, max_length=300).replace('|', '/')} |" for name, value in rows]
    return "\n".join(["| | |", "|---|---|", *lines])


def _table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for metrics in scores.values() for name in metrics))
    lines = ["| | " + " | ".join(scores) + " |", "|---" * (len(scores) + 1) + "|"]
    for name in names:
        cells = [_number(metrics.get(name)) for metrics in scores.values()]
        lines.append(f"| {printable(name, max_length=60)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else "–"


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
