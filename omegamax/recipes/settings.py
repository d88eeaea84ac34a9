"""What can be chosen about a run: frozen dataclasses of plain values, without PyTorch, so that `--help` is quick.

Each field is an option of the command line (`learning_rate` is `--learning-rate`), a key of a TOML file and a line of
the run's config.json; its metadata teaches what it does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_args, get_type_hints

from omegamax.operator_table import for_attention, option_help
from omegamax.recipes.visible import quoted

Kind = TypeVar("Kind")

MAX_THREADS = 1024
MAX_LENGTH = 10_000  # tokens of an output: one that never ends still takes seconds, not days
MAX_BEAM = 1000
_MAX_TEXT = 10_000  # characters of a path or a list of names
_LARGEST = 1e30  # a number in float32, with room for arithmetic


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] | None = None,
    metavar: str | None = None,
) -> Any:
    """A field with the help that the command line shows, and the values that it may have.

    Settings also come from files of strangers, so every number has a largest value, beyond which a run would never end
    or would need more memory than there is.
    """
    known = {"help": help, "choices": choices, "metavar": metavar, "least": least, "most": most}
    return field(default=default, metadata=known)


def check_fields(settings: Any) -> None:
    """Every field of a settings dataclass holds one of its choices, or a number within its bounds."""
    for each in fields(settings):
        value, known = getattr(settings, each.name), each.metadata
        if known.get("choices"):
            _check(settings, each.name, value in known["choices"], "one of " + ", ".join(known["choices"]))
        elif isinstance(value, str):
            _check(settings, each.name, len(value) <= _MAX_TEXT, f"at most {_MAX_TEXT} characters long")
        elif isinstance(value, (int, float)):
            _check_number(settings, each.name, value, known.get("least"), known.get("most"))


def _check_number(settings: Any, name: str, value: float, least: float | None, most: float | None) -> None:
    _check(settings, name, value == value, "a number")  # NaN differs from itself
    if least is not None:
        _check(settings, name, value >= least, "0 or more" if least == 0 else f"at least {least}")
    if most is not None:
        _check(settings, name, value <= most, f"at most {most}")


def _check(settings: Any, name: str, holds: bool, expected: str) -> None:
    if not holds:
        who, value = type(settings).__name__, quoted(getattr(settings, name))
        is_option = any(each.name == name and "help" in each.metadata for each in fields(settings))
        advice = f"change it with --{name.replace('_', '-')}" if is_option else "the file is damaged"
        raise ValueError(f"{who}: {name} must be {expected}, got {value}; {advice}")


def plain(settings: Any) -> dict[str, Any]:
    """A settings dataclass as JSON values."""
    return {each.name: getattr(settings, each.name) for each in fields(settings)}


def revive(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """The inverse of `plain`; refuses unknown and missing names, values of another type, and numbers out of bounds."""
    hints, names = get_type_hints(kind), {each.name for each in fields(kind)}  # type: ignore[arg-type]
    for wrong, what in ((set(values) - names, "unknown"), (names - set(values), "missing")):
        if wrong:
            raise ValueError(f"{kind.__name__}: {what} setting {quoted(min(wrong))}; this file is of another version")
    for name in names:
        if not _fits(values[name], hints[name]):
            raise ValueError(f"{kind.__name__}: {name} must be of type {hints[name]}, got {quoted(values[name])}")
    settings = kind(**{name: fitted(values[name], hints[name]) for name in names})
    check_fields(settings)
    return settings


def fitted(value: Any, hint: Any) -> Any:
    """A whole number as a float where a float is wanted; ValueError where it is too large for one."""
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool) or not isinstance(value, int) or float not in kinds or int in kinds:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a number must be at most {sys.float_info.max:.4g}, got {quoted(value)}") from None


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

    attention: str = option("softmax", f"{', '.join(f.function for f in for_attention())}, hard or none")
    gamma: float = option(1.0, "temperature: larger is smoother", most=_LARGEST)
    strength: float | None = option(None, option_help("strength"), most=_LARGEST)
    alpha: float | None = option(None, option_help("alpha"), most=_LARGEST)
    p: float | None = option(None, option_help("p"), most=_LARGEST)


@dataclass(frozen=True)
class TrainingSettings:
    """The loop's own choices, the same for every task."""

    epochs: int = option(10, "passes over the training data", least=0, most=1_000_000)
    batch_size: int = option(64, "examples per step, over all processes", least=1, most=1_000_000)
    accumulate: int = option(
        1,
        "split each batch into this many parts, one backward pass each: less memory, same result",
        least=1,
        most=1_000_000,
    )
    learning_rate: float = option(1e-3, "of Adam, at its highest", least=0, most=1e6)
    schedule: str = option("cosine", "learning rate over time", choices=("constant", "cosine", "linear", "plateau"))
    warmup: int = option(0, "steps during which the learning rate rises from zero", least=0, most=10**9)
    plateau: int = option(
        2, "epochs without a better metric after which the schedule `plateau` halves the rate", least=1, most=1_000_000
    )
    weight_decay: float = option(
        0.0, "of AdamW, on matrices; vectors (biases, gains) are left alone", least=0, most=1e6
    )
    clip: float = option(1.0, "largest norm of the gradient; 0 switches clipping off", least=0, most=_LARGEST)
    patience: int = option(
        0, "stop after this many epochs without a better metric; 0 never stops early", least=0, most=1_000_000
    )
    precision: str = option("float32", "bfloat16 runs the forward pass under autocast", choices=("float32", "bfloat16"))
    sharding: str = option("ddp", "with torchrun: what each process holds", choices=("ddp", "fsdp"))
    save_every: int = option(
        200, "steps between checkpoints; one is also written after every epoch", least=1, most=10**9
    )
    log_every: int = option(
        50, "steps between lines of metrics.jsonl; one is also written after every epoch", least=1, most=10**9
    )
    seed: int = option(0, "of everything random", least=0, most=2**63 - 1)
    threads: int = option(
        0, "of PyTorch and the kernels; 0 takes 1 or all, whichever a trial finds faster", least=0, most=MAX_THREADS
    )
    device: str = option("auto", "cpu, cuda, cuda:1, ...; auto takes a GPU if there is one")

    def __post_init__(self) -> None:
        check_fields(self)
        _check(self, "learning_rate", self.learning_rate > 0, "positive")


@dataclass(frozen=True)
class Seq2SeqSettings(AttentionSettings):
    """An encoder-decoder with attention on pairs of texts."""

    data: str | None = option(
        None, "a TSV of source and target, or a directory with train.tsv, dev.tsv, test.tsv", metavar="PATH"
    )
    level: str = option("word", "what a token is", choices=("char", "word"))
    embedding_size: int = option(64, "features of a token", least=1, most=65_536)
    hidden_size: int = option(
        128, "features of the decoder; each direction of the encoder has half", least=0, most=65_536
    )
    dropout: float = option(0.1, "on embeddings and outputs")
    max_tokens: int = option(10_000, "largest vocabulary of each side", least=1, most=1_000_000)
    max_length: int = option(
        200, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    beam: int = option(1, "hypotheses kept while decoding; 1 is greedy", least=1, most=MAX_BEAM)

    def __post_init__(self) -> None:
        check_fields(self)
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
    max_length: int = option(
        60, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    examples: int = option(
        40_000, "training examples to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )
    locales: str = option("", "comma-separated CLDR locales (fr,en_GB); left out, about fifty", metavar="LIST")
    default_locale: str = option("", "of input lines that name none; left out, en, or the first of the locales")
    typos: float = option(0.0, "probability of a typing error in an input")
    data_seed: int = option(0, "of the generated dates and their splits", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self, "typos", 0 <= self.typos <= 1, "a probability, from 0 to 1")
