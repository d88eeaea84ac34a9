"""What can be chosen about a run: frozen dataclasses of plain values, without PyTorch, so that `--help` is quick.

Each field is an option of the command line (`learning_rate` is `--learning-rate`), a key of a TOML file and a line of
the run's config.json; its metadata teaches what it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_args, get_type_hints

Kind = TypeVar("Kind")


def option(default: Any, help: str, *, choices: Sequence[str] | None = None, metavar: str | None = None) -> Any:
    """A field with the help that the command line shows."""
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


def check_choices(settings: Any) -> None:
    """Every field with choices holds one of them."""
    for each in fields(settings):
        choices = each.metadata.get("choices")
        if choices:
            _check(settings, each.name, getattr(settings, each.name) in choices, "one of " + ", ".join(choices))


def _check(settings: Any, name: str, holds: bool, expected: str) -> None:
    if not holds:
        who, value = type(settings).__name__, getattr(settings, name)
        raise ValueError(f"{who}: {name} must be {expected}, got {value!r}; change it with --{name.replace('_', '-')}")


def plain(settings: Any) -> dict[str, Any]:
    """A settings dataclass as JSON values."""
    return {each.name: getattr(settings, each.name) for each in fields(settings)}


def revive(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """The inverse of `plain`; refuses unknown and missing names and values of another type."""
    hints, names = get_type_hints(kind), {each.name for each in fields(kind)}  # type: ignore[arg-type]
    for wrong, what in ((set(values) - names, "unknown"), (names - set(values), "missing")):
        if wrong:
            raise ValueError(f"{kind.__name__}: {what} setting {min(wrong)!r}; this file is of another version")
    for name in names:
        if not _fits(values[name], hints[name]):
            raise ValueError(f"{kind.__name__}: {name} must be of type {hints[name]}, got {values[name]!r}")
    return kind(**values)


def _fits(value: Any, hint: Any) -> bool:
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int) and float in kinds:
        return True
    return any(isinstance(value, kind) for kind in kinds if isinstance(kind, type))


@dataclass(frozen=True)
class AttentionSettings:
    """Which normalizer, and its parameters; None means the operator's own default."""

    attention: str = option(
        "softmax", "softmax, sparsemax, entmax15, entmax, sqpnormmax, fusedmax, oscarmax, hard or none"
    )
    gamma: float = option(1.0, "temperature: larger is smoother")
    strength: float | None = option(None, "penalty of fusedmax (0.1) or oscarmax (0.01)")
    alpha: float | None = option(None, "order of entmax (1.5)")
    p: float | None = option(None, "norm of sqpnormmax (1.5)")


@dataclass(frozen=True)
class TrainingSettings:
    """The loop's own choices, the same for every task."""

    epochs: int = option(10, "passes over the training data")
    batch_size: int = option(64, "examples per step, over all processes")
    accumulate: int = option(
        1, "split each batch into this many parts, one backward pass each: less memory, same result"
    )
    learning_rate: float = option(1e-3, "of Adam, at its highest")
    schedule: str = option("cosine", "learning rate over time", choices=("constant", "cosine", "linear", "plateau"))
    warmup: int = option(0, "steps during which the learning rate rises from zero")
    plateau: int = option(2, "epochs without a better metric after which the schedule `plateau` halves the rate")
    weight_decay: float = option(0.0, "of AdamW, on matrices; vectors (biases, gains) are left alone")
    clip: float = option(1.0, "largest norm of the gradient; 0 switches clipping off")
    patience: int = option(0, "stop after this many epochs without a better metric; 0 never stops early")
    precision: str = option("float32", "bfloat16 runs the forward pass under autocast", choices=("float32", "bfloat16"))
    sharding: str = option("ddp", "with torchrun: what each process holds", choices=("ddp", "fsdp"))
    save_every: int = option(200, "steps between checkpoints; one is also written after every epoch")
    log_every: int = option(50, "steps between lines of metrics.jsonl; one is also written after every epoch")
    seed: int = option(0, "of everything random")
    threads: int = option(0, "of PyTorch and the kernels; 0 leaves it to them")
    device: str = option("auto", "cpu, cuda, cuda:1, ...; auto takes a GPU if there is one")

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("batch_size", "accumulate", "save_every", "log_every", "plateau"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("epochs", "warmup", "weight_decay", "clip", "patience", "threads", "seed"):
            _check(self, name, getattr(self, name) >= 0, "0 or more")
        _check(self, "learning_rate", self.learning_rate > 0, "positive")
        for name in ("learning_rate", "weight_decay", "clip"):  # JSON has no infinity
            _check(self, name, math.isfinite(getattr(self, name)), "finite")


@dataclass(frozen=True)
class Seq2SeqSettings(AttentionSettings):
    """An encoder-decoder with attention on pairs of texts."""

    data: str | None = option(
        None, "a TSV of source and target, or a directory with train.tsv, dev.tsv, test.tsv", metavar="PATH"
    )
    level: str = option("word", "what a token is", choices=("char", "word"))
    embedding_size: int = option(64, "features of a token")
    hidden_size: int = option(128, "features of the decoder; each direction of the encoder has half")
    dropout: float = option(0.1, "on embeddings and outputs")
    max_tokens: int = option(10_000, "largest vocabulary of each side")
    max_length: int = option(200, "longer training examples are left out, and no output is longer")
    beam: int = option(1, "hypotheses kept while decoding; 1 is greedy")

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("embedding_size", "max_tokens", "max_length", "beam"):
            _check(self, name, getattr(self, name) >= 1, "at least 1")
        even = self.hidden_size >= 2 and self.hidden_size % 2 == 0
        _check(self, "hidden_size", even, "even and at least 2, half for each direction")
        _check(self, "dropout", 0 <= self.dropout < 1, "at least 0 and below 1")


@dataclass(frozen=True)
class DatesSettings(Seq2SeqSettings):
    """Dates of many locales to ISO form; data=None generates them."""

    data: str | None = option(
        None, "a TSV of locale, text and ISO date, or a directory; generated if left out", metavar="PATH"
    )
    level: str = option("char", "what a token is", choices=("char", "word"))
    max_length: int = option(60, "longer training examples are left out, and no output is longer")
    examples: int = option(40_000, "training examples to generate; a twentieth as many for dev and test each")
    locales: str = option("", "comma-separated CLDR locales (fr,en_GB); left out, about fifty", metavar="LIST")
    default_locale: str = option("", "of input lines that name none; left out, en, or the first of the locales")
    typos: float = option(0.0, "probability of a typing error in an input")
    data_seed: int = option(0, "of the generated dates and their splits")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "examples", self.examples >= 1, "at least 1")
        _check(self, "typos", 0 <= self.typos <= 1, "a probability, from 0 to 1")
