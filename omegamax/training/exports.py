"""A trained model as a folder to give away, in the layout of Hugging Face.

    config.json         the task, its settings, versions, the SHA-256 of the files that are read
    model.safetensors   parameters and buffers
    assets.json         what was learned from the training data beside them: vocabularies, merges, labels
    README.md           the model card

and what else its writer adds: tokenizers for other programs, ONNX graphs. Only the first three are ever read, and like
a checkpoint they hold no code and name none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from omegamax.data.files import remove_directory, write_directory
from omegamax.data.printable import short_repr
from omegamax.errors import CheckpointError, RunDirectoryError
from omegamax.training import checkpoints
from omegamax.training.checkpoints import CARD_FILE, MODEL_FILE, Card

CONFIG_FILE, ASSETS_FILE, README_FILE = "config.json", "assets.json", "README.md"
_FORMAT = "omegamax model 1"
_LISTED = {MODEL_FILE, ASSETS_FILE}
_ALSO = {"format", "model_type", "architectures", "files", "onnx"}  # entries of config.json beside those of the card


def is_export(path: Path) -> bool:
    """Returns whether a directory looks like an exported model: it may still be damaged, or another library's."""
    return (path / CONFIG_FILE).is_file() and (path / MODEL_FILE).is_file() and not (path / CARD_FILE).exists()


def check_place(path: Path, *, overwrite: bool = False) -> None:
    """Raises RunDirectoryError unless a model can be written there: nothing is, or a model that may be replaced."""
    if not path.parent.is_dir():
        raise RunDirectoryError(f"{path.parent} is not a directory; make it, or choose another place")
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite or path.is_symlink() or not path.is_dir() or not is_export(path):
        what = "is a model already; say --overwrite to replace it, or" if is_export(path) else "exists;"
        raise RunDirectoryError(f"{path} {what} choose another directory")


def write_export(
    path: Path,
    card: Card,
    tensors: Mapping[str, Tensor],
    *,
    architecture: str,
    more: Mapping[str, bytes],
    onnx: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a model, whole or not at all.

    Arguments:
        path: the directory
        card: of the checkpoint that the model is from
        tensors: the parameters and buffers
        architecture: the name of the model's class, for people
        more: further files: the model card, tokenizers, ONNX graphs
        onnx: the names of the inputs and outputs of these graphs
        overwrite: whether a model that is there is replaced
    """
    check_place(path, overwrite=overwrite)
    assets = json.dumps(card.assets, ensure_ascii=False, allow_nan=False).encode()
    files = {MODEL_FILE: checkpoints.tensor_bytes(tensors), ASSETS_FILE: assets}
    described = {each.name: getattr(card, each.name) for each in fields(Card) if each.name != "assets"}
    content = {
        "format": _FORMAT,
        "model_type": "omegamax",
        "architectures": [architecture],
        **described,
        "files": checkpoints.sizes_and_sums(files),
        "onnx": dict(onnx or {}),
    }
    config = (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    if path.exists():
        remove_directory(path)
    write_directory(path, {CONFIG_FILE: config, **files, **more})


def read_export(path: Path) -> tuple[Card, dict[str, Tensor]]:
    """Reads the card and the tensors of an exported model; raises CheckpointError for one that is damaged."""
    file = path / CONFIG_FILE
    content = _read_json(path, CONFIG_FILE, checkpoints.read_limited(path, CONFIG_FILE, checkpoints.MAX_CARD))
    if content.get("format") != _FORMAT:
        raise CheckpointError(
            f"{file} must be of the format {_FORMAT!r}, got {short_repr(content.get('format'))}; give a directory that "
            "omegamax export has written"
        )
    files: Any = content.get("files")
    if not checkpoints.has_sums(files) or set(files) != _LISTED:
        raise CheckpointError(f"{file} must list {' and '.join(sorted(_LISTED))} with their sizes and checksums")
    assets = _read_json(path, ASSETS_FILE, checkpoints.read_checked(path, files, ASSETS_FILE))
    card = checkpoints.make_card(file, {**content, "assets": assets}, also=_ALSO)
    return card, checkpoints.read_tensors(path, files, MODEL_FILE)


def _read_json(path: Path, name: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path / name} is damaged: it is not JSON") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path / name} must be a JSON object, got {short_repr(found)}")
    return found
