"""Which pairs of texts are short enough: to train on, and to be encoded at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegamax.data.printable import short_repr
from omegamax.data.text_tokens import TextTokens

MAX_TOKENS = 20_000  # of one text


def limit_lengths(pairs: dict[str, list[Any]], settings: Any, target: TextTokens) -> dict[str, list[Any]]:
    """Leaves out training examples that are longer than the settings allow; ValueError if others are far too long."""
    kept = {**pairs, "train": keep_short(pairs["train"], settings, target)}
    for split in ("dev", "test"):
        try:
            check_lengths(pairs[split], target, target, most_tokens(settings))
        except ValueError as error:
            raise ValueError(f"{settings.data}, {split} split, {error}") from None
    return kept


def keep_short(pairs: list[Any], settings: Any, target: TextTokens) -> list[Any]:
    """Returns the pairs that are no longer than the settings allow, on both sides."""
    lengths = map(len, target.split([pair.target for pair in pairs]))
    most, most_source = settings.max_length, getattr(settings, "max_source", settings.max_length)
    fits = (length <= most and len(pair.source) <= most_source for pair, length in zip(pairs, lengths))
    short = [pair for pair, fit in zip(pairs, fits) if fit]
    if not short:
        where = settings.data or "the generated data"
        raise ValueError(
            f"{where}: no training example has at most {settings.max_length} tokens on both sides; "
            "raise max_length, or shorten the texts"
        )
    return short


def most_tokens(settings: Any) -> int:
    """Returns how many tokens a text may have: what can be encoded at all, or the positions that a model has."""
    return min(MAX_TOKENS, getattr(settings, "max_positions", None) or MAX_TOKENS)


def check_lengths(pairs: Sequence[Any], source: TextTokens, target: TextTokens, most: int = MAX_TOKENS) -> None:
    """Raises ValueError, with its line, for a text that is too long to be encoded in reasonable time and memory."""
    lengths = map(len, target.split([pair.target for pair in pairs]))
    for number, (pair, length) in enumerate(zip(pairs, lengths), start=1):
        longest = max(len(pair.source), length)
        if longest > most:
            beginning = short_repr(source.join(pair.source[:20]))
            raise ValueError(
                f"line {number} ({beginning} …): expected at most {most} tokens, got {longest}; shorten the text"
            )
