"""Checkpoints: each is a directory of two safetensors files and a JSON card, written whole or not at all.

    model.safetensors       parameters and buffers, never sharded; all that prediction needs
    training.safetensors    the optimizer's moments by parameter name, the state of the random numbers of every process
    checkpoint.json         task, settings, assets, position, versions, and the SHA-256 of everything

There is no pickle, so reading a stranger's checkpoint runs no code, and no file name or import path is taken from its
contents. The checksums find damage; anything that does not fit is refused with one sentence.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import omegamax
from omegamax.data.files import read_regular_file, write_directory
from omegamax.data.printable import short_repr
from omegamax.errors import CheckpointError, os_error_text
from omegamax.extras import import_for_training

FORMAT = 1
MAX_CARD = 1 << 28  # bytes: vocabularies of a million words fit
_MAX_PROCESSES = 65_536
MODEL_FILE, TRAINING_FILE, CARD_FILE = "model.safetensors", "training.safetensors", "checkpoint.json"


def versions() -> dict[str, str]:
    """Returns the versions that a result depends on."""
    return {"omegamax": omegamax.__version__, "torch": torch.__version__, "python": platform.python_version()}


@dataclass(frozen=True)
class Card:
    """The description that a checkpoint carries; it holds JSON values only."""

    run: str  # the run it belongs to
    task: str  # its name among the recipes, or of its class
    settings: dict
    training: dict
    assets: dict
    data: str  # a digest of the training and development data
    state: dict  # see TrainingState
    n_processes: int
    versions: dict = field(default_factory=versions)


def write_checkpoint(path: Path, card: Card, model: Mapping[str, Tensor], training: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint at a path that does not exist yet; after an OSError nothing is left there."""
    files = {MODEL_FILE: tensor_bytes(model), TRAINING_FILE: tensor_bytes(training)}
    content = {
        "format": FORMAT,
        **{each.name: getattr(card, each.name) for each in fields(Card)},
        "files": sizes_and_sums(files),
    }
    signed = {"sha256": _digest(content), "content": content}
    write_directory(path, {**files, CARD_FILE: json.dumps(signed, indent=1, allow_nan=False).encode()})


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Returns the content of a safetensors file."""
    return import_for_training("safetensors.torch").save(_copies(tensors))


def sizes_and_sums(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Returns the size and the SHA-256 of each file, by its name."""
    return {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}


def read_card(path: Path) -> tuple[Card, dict[str, Any]]:
    """Reads the card of a checkpoint, and the sizes and checksums of its files."""
    try:
        signed = json.loads(read_limited(path, CARD_FILE, MAX_CARD))
        content, checksum = signed["content"], signed["sha256"]
        found = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path / CARD_FILE} is damaged: it is not a checkpoint's JSON") from error
    if found != FORMAT:
        raise CheckpointError(f"{path} has format {short_repr(found)}, and this version of omegamax reads {FORMAT}")
    if set(signed) != {"content", "sha256"} or checksum != _digest(content):
        raise CheckpointError(f"{path / CARD_FILE} is damaged: its checksum does not fit its contents")
    return make_card(path / CARD_FILE, content, also={"format", "files"}), _check_sums(path, content["files"])


def make_card(file: Path, content: Mapping[str, Any], *, also: Collection[str] = ()) -> Card:
    """Makes a card of JSON; raises CheckpointError unless it has all fields, each of its type, and those of `also`."""
    names = {each.name for each in fields(Card)}
    wrong = set(content) ^ names ^ set(also)
    if wrong:
        raise CheckpointError(f"{file} has a missing or an unknown entry {short_repr(min(wrong))}")
    kinds = {"n_processes": int, "run": str, "task": str, "data": str}
    for name in names:
        kind = kinds.get(name, dict)
        if not isinstance(content[name], kind) or isinstance(content[name], bool):
            raise CheckpointError(f"{file}: entry {name!r} must be of type {kind.__name__}")
    if not 1 <= content["n_processes"] <= _MAX_PROCESSES:
        raise CheckpointError(
            f"{file}: n_processes must be from 1 to {_MAX_PROCESSES}, got {short_repr(content['n_processes'])}"
        )
    return Card(**{name: content[name] for name in names})


def read_tensors(path: Path, files: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """Reads the tensors of one file of a checkpoint; `files` are the sizes and checksums from `read_card`."""
    safetensors = import_for_training("safetensors.torch")
    content = read_checked(path, files, name)
    try:
        return safetensors.load(content)
    except Exception as error:  # safetensors raises its own type, and others for odd headers
        raise CheckpointError(f"{path / name} is not a safetensors file ({error})") from error


def read_checked(path: Path, files: Mapping[str, Any], name: str) -> bytes:
    """Reads a file of a directory; raises CheckpointError unless its size and checksum are those of `files`."""
    size = files[name]["size"]
    file = path / name
    if file.is_file() and file.stat().st_size != size:  # before anything is read: it may be of any size
        there = file.stat().st_size
        raise CheckpointError(f"{file} is damaged: it has {there} bytes and should have {short_repr(size)}")
    content = read_limited(path, name, size)
    if hashlib.sha256(content).hexdigest() != files[name]["sha256"]:
        raise CheckpointError(f"{path / name} is damaged: its checksum does not fit its contents")
    return content


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copies tensors into a model; raises CheckpointError if they do not fit."""
    check_model_tensors(model, tensors, source)
    model.load_state_dict(dict(tensors))


def check_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Raises CheckpointError unless the tensors have the names, shapes and types of the model's."""
    state = model.state_dict()
    missing, unknown = set(state) - set(tensors), set(tensors) - set(state)
    if missing or unknown:
        what = f"no tensor {min(missing)!r}" if missing else f"an unknown tensor {min(unknown)!r}"
        raise CheckpointError(f"{source / MODEL_FILE} has {what}; it is of another model than its settings say")
    for name, mine in state.items():
        theirs = tensors[name]
        if theirs.shape != mine.shape or theirs.dtype != mine.dtype:
            raise CheckpointError(
                f"{source / MODEL_FILE}: tensor {name!r} must have shape {tuple(mine.shape)} and type {mine.dtype}, "
                f"got {tuple(theirs.shape)} and {theirs.dtype}"
            )


def as_json(value: Any) -> Any:
    """Returns a value as JSON gives it back: tuples become lists, keys become strings."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"settings and assets must be plain JSON values ({error})") from error


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # safetensors takes no tensors that share memory, such as tied weights: each gets its own copy
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check_sums(path: Path, files: Any) -> dict[str, Any]:
    if has_sums(files) and set(files) == {MODEL_FILE, TRAINING_FILE}:
        return files
    raise CheckpointError(
        f"{path / CARD_FILE} must list {MODEL_FILE} and {TRAINING_FILE} with their sizes and checksums"
    )


def has_sums(files: Any) -> bool:
    """Returns whether JSON is a list of files as `sizes_and_sums` makes it."""

    def is_complete(entry: Any) -> bool:
        return isinstance(entry, dict) and set(entry) == {"size", "sha256"} and type(entry["size"]) is int

    return isinstance(files, dict) and all(map(is_complete, files.values()))


def read_limited(path: Path, name: str, limit: int) -> bytes:
    """Reads a file, and no more of it than expected, since a stranger's file may be endless."""
    try:
        return read_regular_file(path / name, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{path} is not a complete checkpoint: {name} is missing") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path / name} ({os_error_text(error)})") from error
