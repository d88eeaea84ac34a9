"""A checkpoint: two safetensors files and a JSON card, written whole or not at all.

    model.safetensors       parameters and buffers, never sharded; all that prediction needs
    training.safetensors    AdamW's moments by parameter name, the state of the random numbers of every process
    checkpoint.json         task, settings, assets, position, versions, and the SHA-256 of everything

There is no pickle, so that reading a stranger's checkpoint runs no code, and no file name or import path is taken from
its contents. Damage is found by the checksums; anything that does not fit is refused with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import omegamax
from omegamax.data import atomic
from omegamax.data.files import read_regular
from omegamax.data.printable import quoted
from omegamax.errors import CheckpointError, need, reason

FORMAT = 1
_MAX_CARD = 1 << 28  # bytes: vocabularies of a million words fit
_MAX_PROCESSES = 65_536
MODEL, TRAINING, CARD = "model.safetensors", "training.safetensors", "checkpoint.json"


def versions() -> dict[str, str]:
    """Of what a result depends on."""
    return {"omegamax": omegamax.__version__, "torch": torch.__version__, "python": platform.python_version()}


@dataclass(frozen=True)
class Card:
    """What a checkpoint says of itself; JSON values only."""

    run: str  # the run it belongs to
    task: str  # its name among the recipes, or of its class
    settings: dict
    training: dict
    assets: dict
    data: str  # a digest of the training and development data
    state: dict  # see state.py
    n_processes: int
    versions: dict = field(default_factory=versions)


def save(path: Path, card: Card, model: Mapping[str, Tensor], training: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint at a path that does not exist yet; OSError leaves no trace."""
    to_bytes = need("safetensors.torch").save
    files = {MODEL: to_bytes(_own(model)), TRAINING: to_bytes(_own(training))}
    content = {
        "format": FORMAT,
        **{each.name: getattr(card, each.name) for each in fields(Card)},
        "files": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        },
    }
    sealed = {"sha256": _digest(content), "content": content}
    atomic.write_directory(path, {**files, CARD: json.dumps(sealed, indent=1, allow_nan=False).encode()})


def read_card(path: Path) -> tuple[Card, dict[str, Any]]:
    """The card of a checkpoint, and the sizes and checksums of its files."""
    try:
        sealed = json.loads(_read(path, CARD, _MAX_CARD))
        content, checksum = sealed["content"], sealed["sha256"]
        found = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path / CARD} is damaged: it is not a checkpoint's JSON") from error
    if found != FORMAT:
        raise CheckpointError(f"{path} has format {quoted(found)}, and this version of omegamax reads {FORMAT}")
    if set(sealed) != {"content", "sha256"} or checksum != _digest(content):
        raise CheckpointError(f"{path / CARD} is damaged: its checksum does not fit its contents")
    names = {each.name for each in fields(Card)}
    wrong = set(content) ^ names ^ {"format", "files"}
    if wrong:
        raise CheckpointError(f"{path / CARD} has a missing or an unknown entry {quoted(min(wrong))}")
    kinds = {"n_processes": int, "run": str, "task": str, "data": str}
    for name in names:
        kind = kinds.get(name, dict)
        if not isinstance(content[name], kind) or isinstance(content[name], bool):
            raise CheckpointError(f"{path / CARD}: entry {name!r} must be of type {kind.__name__}")
    if not 1 <= content["n_processes"] <= _MAX_PROCESSES:
        raise CheckpointError(
            f"{path / CARD}: n_processes must be from 1 to {_MAX_PROCESSES}, got {quoted(content['n_processes'])}"
        )
    return Card(**{name: content[name] for name in names}), _sums(path, content["files"])


def read_tensors(path: Path, files: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """The tensors of one file of a checkpoint, whose sizes and checksums `read_card` gave."""
    safetensors = need("safetensors.torch")
    size = files[name]["size"]
    file = path / name
    if file.is_file() and file.stat().st_size != size:  # before anything is read: it may be of any size
        there = file.stat().st_size
        raise CheckpointError(f"{file} is damaged: it has {there} bytes and should have {quoted(size)}")
    content = _read(path, name, size)
    if hashlib.sha256(content).hexdigest() != files[name]["sha256"]:
        raise CheckpointError(f"{path / name} is damaged: its checksum does not fit its contents")
    try:
        return safetensors.load(content)
    except Exception as error:  # safetensors raises its own type, and others for odd headers
        raise CheckpointError(f"{path / name} is not a safetensors file ({error})") from error


def load_model(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copies tensors into a model that they fit."""
    check_model(model, tensors, source)
    model.load_state_dict(dict(tensors))


def check_model(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """The tensors are the ones that a model has, of the same shapes and types."""
    state = model.state_dict()
    missing, unknown = set(state) - set(tensors), set(tensors) - set(state)
    if missing or unknown:
        what = f"no tensor {min(missing)!r}" if missing else f"an unknown tensor {min(unknown)!r}"
        raise CheckpointError(f"{source / MODEL} has {what}; it is of another model than its settings say")
    for name, mine in state.items():
        theirs = tensors[name]
        if theirs.shape != mine.shape or theirs.dtype != mine.dtype:
            raise CheckpointError(
                f"{source / MODEL}: tensor {name!r} must have shape {tuple(mine.shape)} and type {mine.dtype}, "
                f"got {tuple(theirs.shape)} and {theirs.dtype}"
            )


def normal(value: Any) -> Any:
    """A value as JSON gives it back: tuples are lists, keys are strings."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"settings and assets must be plain JSON values ({error})") from error


def _own(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # safetensors takes no tensors that share memory, such as tied weights: each gets its own copy
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _sums(path: Path, files: Any) -> dict[str, Any]:
    def whole(entry: Any) -> bool:
        return isinstance(entry, dict) and set(entry) == {"size", "sha256"} and type(entry["size"]) is int

    if isinstance(files, dict) and set(files) == {MODEL, TRAINING} and all(map(whole, files.values())):
        return files
    raise CheckpointError(f"{path / CARD} must list {MODEL} and {TRAINING} with their sizes and checksums")


def _read(path: Path, name: str, limit: int) -> bytes:
    """A regular file, and no more of it than expected: a stranger's may be endless."""
    try:
        return read_regular(path / name, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{path} is not a complete checkpoint: {name} is missing") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path / name} ({reason(error)})") from error
