"""Describes a normalizer as plain data for files: its class and its numbers, nothing that could run code when read.

    Fused(strength=0.3)                 {"kind": "Fused", "strength": 0.3}
    Scaled(SquaredNorm(), gamma=0.5)    {"kind": "Scaled", "inner": {"kind": "SquaredNorm"}, "gamma": 0.5}

A normalizer that learns (a layer, or a tensor that requires a gradient) or that holds a function has no such form.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch import Tensor

from omegamax import operators, structures
from omegamax.smoothmax import SmoothMax
from omegamax.structures.structure import Structure

_MAX_NUMBERS = 4096  # in a tensor, so that a configuration stays readable
_MAX_DEPTH = 8
_LARGEST = 1e6  # the largest number that is read: a file must not start a search without end
_TYPES = {str(t).removeprefix("torch."): t for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


def describe(normalizer: Any) -> dict[str, Any] | None:
    """Returns the plain data of a normalizer, or None if plain data cannot hold all of it."""
    try:
        return _described(normalizer)
    except TypeError:
        return None


def _described(thing: Any) -> dict[str, Any]:
    if type(thing) is not _kinds().get(type(thing).__name__):
        raise TypeError(f"describe: must be a public operator or structure, got {type(thing).__name__}; write it out")
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.init}
    return {"kind": type(thing).__name__, **{name: _plain(value) for name, value in fields.items()}}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Tensor):
        name = str(value.dtype).removeprefix("torch.")
        if value.requires_grad or value.numel() > _MAX_NUMBERS or name not in _TYPES:
            raise TypeError("describe: a tensor must be a small constant, got another; write it out")
        return {"kind": "Tensor", "values": value.tolist(), "type": name}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return _described(value)


def normalizer_from(description: Any) -> SmoothMax:
    """Builds the normalizer from what `describe` returned, and raises ValueError for anything else."""
    try:
        found = _built(description, _MAX_DEPTH)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, OverflowError) as error:
        raise ValueError(
            "normalizer_from: description must be one that describe gave, got something that this version of omegamax "
            f"cannot build ({printable(str(error))}); register the normalizer by hand"
        ) from error
    if not isinstance(found, SmoothMax):
        raise ValueError(
            f"normalizer_from: description must be that of a normalizer, got that of {type(found).__name__}; register "
            "the normalizer by hand"
        )
    return found


def _built(description: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("too deep")
    if isinstance(description, list):
        return tuple(_built(each, depth - 1) for each in description)
    if not isinstance(description, dict):
        if description is not None and not (
            isinstance(description, (bool, int, float)) and abs(description) <= _LARGEST
        ):
            raise ValueError(f"{description!r} is no number of a normalizer")
        return description
    options = dict(description)
    kind = options.pop("kind")
    if kind == "Tensor":
        return torch.tensor(options["values"], dtype=_TYPES[options["type"]])
    return _kinds()[kind](**{name: _built(value, depth - 1) for name, value in options.items()})


@functools.cache
def _kinds() -> dict[str, Any]:
    """Returns operators and structures that are dataclasses, by name."""
    public = {**vars(operators), **vars(structures)}
    return {
        name: thing
        for name, thing in public.items()
        if isinstance(thing, type) and issubclass(thing, (SmoothMax, Structure)) and dataclasses.is_dataclass(thing)
    }


def written(description: Any) -> str:
    """Writes code that makes what was described, such as `om.Fused(strength=0.3)`, for messages."""
    if isinstance(description, list):
        return f"[{', '.join(map(written, description))}]"
    if not isinstance(description, dict):
        return repr(description)
    if description.get("kind") == "Tensor":
        return f"torch.tensor({description.get('values')})"
    inner = ", ".join(f"{printable(name)}={written(value)}" for name, value in description.items() if name != "kind")
    return f"om.{printable(description.get('kind'))}({inner})"


def printable(text: Any) -> str:
    """Escapes characters of untrusted text that would move a terminal's cursor or reverse letters; cuts long text."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text)[:200])
