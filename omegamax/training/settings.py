"""The settings of training: a frozen dataclass of plain values. Loads no PyTorch, so that `--help` is quick.

Each field is an option of the command line (`learning_rate` is `--learning-rate`), a key of a TOML file and a line of
the run's config.json. The field's metadata holds its help text and its bounds. `omegamax.recipes.settings` declares the
settings of tasks in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

from omegamax.data.printable import short_repr

Settings = TypeVar("Settings")

MAX_THREADS = 1024
MAX_NUMBER = 1e30  # fits into float32, with room for arithmetic
_MAX_EPOCHS = 1_000_000
_MAX_TEXT = 10_000  # characters of a path or a list of names
_ALWAYS_THERE = object()


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] | None = None,
    metavar: str | None = None,
    before: Any = _ALWAYS_THERE,
) -> Any:
    """Returns a dataclass field with the help that the command line shows and the values that it may have.

    Settings also come from files of strangers, so every number has a largest value, beyond which a run would never end
    or would need more memory than there is. An option that is added to a task gets `before`: the value with which the
    task does what it did before there was this option. Checkpoints without it then mean that value.
    """
    metadata = {"help": help, "choices": choices, "metavar": metavar, "least": least, "most": most}
    return field(default=default, metadata=metadata if before is _ALWAYS_THERE else {**metadata, "before": before})


def check_fields(settings: Any) -> None:
    """Raises ValueError unless every field holds one of its choices, or a number within its bounds."""
    for each in fields(settings):
        value, known = getattr(settings, each.name), each.metadata
        if known.get("choices"):
            check_field(settings, each.name, value in known["choices"], "one of " + ", ".join(known["choices"]))
        elif isinstance(value, str):
            check_field(settings, each.name, len(value) <= _MAX_TEXT, f"at most {_MAX_TEXT} characters long")
        elif isinstance(value, (int, float)):
            _check_number(settings, each.name, value, known.get("least"), known.get("most"))


def check_field(settings: Any, name: str, holds: bool, expected: str) -> None:
    """Raises ValueError unless a condition on one field `holds`; `expected` says it in words."""
    if not holds:
        who, value = type(settings).__name__, short_repr(getattr(settings, name))
        is_option = any(each.name == name and "help" in each.metadata for each in fields(settings))
        advice = f"change it with --{name.replace('_', '-')}" if is_option else "the file is damaged"
        raise ValueError(f"{who}: {name} must be {expected}, got {value}; {advice}")


def _check_number(settings: Any, name: str, value: float, least: float | None, most: float | None) -> None:
    check_field(settings, name, value == value, "a number")  # NaN differs from itself
    if least is not None:
        check_field(settings, name, value >= least, "0 or more" if least == 0 else f"at least {least}")
    if most is not None:
        check_field(settings, name, value <= most, f"at most {most}")


def to_dict(settings: Any) -> dict[str, Any]:
    """Returns the fields of a settings dataclass as JSON values."""
    return {each.name: getattr(settings, each.name) for each in fields(settings)}


def values_before(kind: type) -> dict[str, Any]:
    """Returns the options that were added to a settings dataclass, each with the value that older files mean."""
    return {each.name: each.metadata["before"] for each in fields(kind) if "before" in each.metadata}


def from_dict(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Makes a settings dataclass from JSON values: the inverse of `to_dict`.

    A missing name has the value `before` of its option. Raises ValueError for unknown names, for missing ones without
    such a value, for values of another type, and for numbers out of bounds.
    """
    values = {**values_before(kind), **values}
    hints, names = get_type_hints(kind), {each.name for each in fields(kind)}  # type: ignore[arg-type]
    for wrong, what in ((set(values) - names, "unknown"), (names - set(values), "missing")):
        if wrong:
            raise ValueError(
                f"{kind.__name__}: {what} setting {short_repr(min(wrong))}; this file is of another version"
            )
    for name in names:
        if not _has_type(values[name], hints[name]):
            raise ValueError(f"{kind.__name__}: {name} must be of type {hints[name]}, got {short_repr(values[name])}")
    settings = kind(**{name: as_float(values[name], hints[name]) for name in names})
    check_fields(settings)
    return settings


def as_float(value: Any, hint: Any) -> Any:
    """Turns a whole number into a float where the type hint says float; raises ValueError if it is too large."""
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool) or not isinstance(value, int) or float not in kinds or int in kinds:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a number must be at most {sys.float_info.max:.4g}, got {short_repr(value)}") from None


def _has_type(value: Any, hint: Any) -> bool:
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int) and float in kinds:
        return True
    return any(isinstance(value, kind) for kind in kinds if isinstance(kind, type))


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of the training loop, the same for every task."""

    epochs: int = option(10, "passes over the training data", least=0, most=_MAX_EPOCHS)
    batch_size: int = option(64, "examples per step, over all processes", least=1, most=1_000_000)
    accumulate: int = option(
        1,
        "split each batch into this many parts, one backward pass each: less memory, same result",
        least=1,
        most=1_000_000,
    )
    optimizer: str = option(
        "adamw", "adamw, or sgd: plain gradient descent, without moments", choices=("adamw", "sgd"), before="adamw"
    )
    learning_rate: float = option(1e-3, "largest learning rate", least=0, most=1e6)
    schedule: str = option(
        "cosine",
        "how the learning rate changes over time: constant, cosine, linear, plateau or pieces",
        choices=("constant", "cosine", "linear", "plateau", "pieces"),
        metavar="NAME",
    )
    warmup: int = option(0, "steps during which the learning rate rises from zero", least=0, most=10**9)
    plateau: int = option(
        2,
        "with --schedule plateau: epochs without a better metric after which the rate is halved",
        least=1,
        most=1_000_000,
    )
    pieces: str = option(
        "",
        "with --schedule pieces: what the rate is multiplied by, and for how many epochs: 0.5x20,1x25,0.5x25; the last "
        "goes on",
        metavar="LIST",
        before="",
    )
    weight_decay: float = option(0.0, "weight decay on matrices; biases and gains have none", least=0, most=1e6)
    clip: float = option(1.0, "largest norm of the gradient; 0 switches clipping off", least=0, most=MAX_NUMBER)
    patience: int = option(
        0, "stop after this many epochs without a better metric; 0 never stops early", least=0, most=1_000_000
    )
    precision: str = option(
        "float32", "type of the forward pass; bfloat16 runs it under autocast", choices=("float32", "bfloat16")
    )
    sharding: str = option(
        "ddp", "with torchrun: ddp gives each process the whole model, fsdp a shard of it", choices=("ddp", "fsdp")
    )
    save_every: int = option(
        200, "steps between checkpoints; one is also written after every epoch", least=1, most=10**9
    )
    keep: int = option(1, "how many of the latest checkpoints are kept, besides the best", least=1, most=10_000)
    log_every: int = option(
        50, "steps between lines of metrics.jsonl; one is also written after every epoch", least=1, most=10**9
    )
    seed: int = option(0, "seed of all random numbers of training", least=0, most=2**63 - 1)
    threads: int = option(
        0,
        "threads of PyTorch and the kernels; 0 takes 1 or all, whichever a trial finds faster",
        least=0,
        most=MAX_THREADS,
    )
    device: str = option("auto", "device to compute on: cpu, cuda, cuda:1, ...; auto takes a GPU if there is one")

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "learning_rate", self.learning_rate > 0, "positive")
        wanted = "a list of factors and epochs, such as 0.5x20,1x25"
        needless = self.schedule != "pieces" and not self.pieces
        check_field(self, "pieces", needless or bool(self.rate_pieces), wanted)

    @property
    def rate_pieces(self) -> tuple[tuple[float, int], ...]:
        """The factors of the learning rate, each with its number of epochs; empty if the list is not one."""
        return _pieces(self.pieces)


@lru_cache
def _pieces(text: str) -> tuple[tuple[float, int], ...]:
    found = []
    for part in text.split(","):
        factor, cross, epochs = part.strip().partition("x")
        try:
            found.append((float(factor), int(epochs)))
        except ValueError:
            return ()
        if not (cross and 0 < found[-1][0] <= MAX_NUMBER and 0 < found[-1][1] <= _MAX_EPOCHS):
            return ()
    return tuple(found)
