"""Runs of benchmarks/translate.py: training within a time limit, outputs of the test data, finished cells."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import lzma
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import timing
import torch

from omegamax.data.text_tokens import PlainTokens
from omegamax.data.vocabulary import SPECIAL, Vocabulary

NAME = "translate"  # of the files of results


class Stopped(NamedTuple):
    """How training ended: by itself, or when its time was over."""

    finished: bool
    seconds: float


def train(arguments: list[str], out: Path, *, minutes: float) -> Stopped:
    """Runs `omegamax train`, or goes on with it; after some minutes it is asked to save and stop."""
    resume = ["--resume"] if (out / "config.json").exists() else []
    command = [sys.executable, "-m", "omegamax", "train", *arguments, "--out", str(out), *resume]
    print(" ".join(command[3:]), flush=True)
    process = subprocess.Popen(command)
    began = time.monotonic()
    try:
        code = process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
        return Stopped(False, time.monotonic() - began)
    except KeyboardInterrupt:
        process.wait()
        raise
    if code:
        raise SystemExit(f"translate: {' '.join(command[3:])} ended with code {code}")
    return Stopped(True, time.monotonic() - began)


def epochs_of(out: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl about epochs: seconds of training so far, metrics of dev, speed."""
    file = out / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line["event"] == "epoch"]


def minutes_of(out: Path) -> float:
    """Minutes of training so far."""
    file = out / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return max((line["seconds"] for line in lines if "seconds" in line), default=0.0) / 60


def test(out: Path, *, beam: int, average: int = 1) -> dict[str, Any]:
    """Searches with a beam, and returns the metrics, the outputs, and the seconds that the search took."""
    from omegamax.recipes import load
    from omegamax.training.prediction import inspect, score_predictions

    found = load(out, average=average)
    settings = dataclasses.replace(found.task.settings, beam=beam)
    task = type(found.task).restore(settings, found.task.assets())
    examples = task.examples("test")
    began = time.perf_counter()
    with torch.no_grad():
        lines = inspect(task, found.model, examples, batch_size=64)
    seconds = time.perf_counter() - began
    return {
        "date": datetime.date.today().isoformat(),
        "metrics": score_predictions(task, examples, lines),
        "outputs": [line.partition("\t")[0] for line in lines],
        "sentences_per_second": len(examples) / seconds,
        "signatures": task.signatures(examples),
        "settings": {name: value for name, value in found.card.settings.items() if name != "data"},
        "parameters": sum(each.numel() for each in found.model.parameters()),
        "dev": [[epoch["seconds"], epoch["metrics"][task.metric]] for epoch in epochs_of(out)],
        "known": _known(task) if task.settings.level == "word" else None,
    }


def _known(task: Any) -> list[int]:
    """Returns the places of the test pairs without an unknown word."""
    splitter = PlainTokens(Vocabulary(SPECIAL), "word")
    pairs, known = task.examples("test"), (set(task.source.to_json()), set(task.target.to_json()))
    targets = splitter.split([pair.target for pair in pairs])
    return [
        at
        for at, (pair, target) in enumerate(zip(pairs, targets))
        if known[0].issuperset(pair.source) and known[1].issuperset(target)
    ]


def keep(result: dict[str, Any]) -> None:
    """Adds a finished cell to those in benchmarks/results; outputs are compressed, and needed for the bootstrap."""
    if "outputs" in result:
        packed = lzma.compress("\n".join(result["outputs"]).encode(), preset=9)
        result = {**result, "outputs": base64.b85encode(packed).decode()}
    timing.add_cell(NAME, result)


def finished() -> dict[str, dict[str, Any]]:
    """Returns the finished cells by their names."""
    found = {cell["name"]: cell for cell in timing.read_cells(NAME)}
    for cell in found.values():
        if "outputs" in cell:
            cell["outputs"] = lzma.decompress(base64.b85decode(cell["outputs"])).decode().split("\n")
    return found


def references(data: Path, source: str, target: str) -> list[Any]:
    """The pairs of the test data, as they stand in the file."""
    from omegamax.data.text_pairs import read_text_pairs

    return read_text_pairs(data, source, target)["test"]
