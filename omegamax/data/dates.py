"""Dates of many locales and their ISO form, made from CLDR's patterns: as many as wanted, the same for the same seed.

Each calendar date belongs to one split, so the dates of the test set were never seen, in any language.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import random
from collections.abc import Sequence
from typing import NamedTuple

from omegamax.data.date_patterns import FIRST, LAST, LOCALES, styles, write
from omegamax.data.typos import with_typo

_OF_TWENTY = {0: "dev", 1: "test"}  # of twenty equal parts of the calendar, one each
_LOWER_CASE = 1 / 8  # how often people do not care


class WrittenDate(NamedTuple):
    """A date as somebody wrote it, and what it means."""

    locale: str
    text: str
    iso: str


def generate_dates(
    count: int, split: str, *, seed: int = 0, locales: Sequence[str] = LOCALES, typos: float = 0.0
) -> list[WrittenDate]:
    """`count` dates of the split "train", "dev" or "test", with locales and styles drawn evenly.

    `typos` is the probability of a typing error. A shorter list is the beginning of a longer one.
    """
    if not 0 <= typos <= 1:
        raise ValueError(f"dates: typos must lie in [0, 1], got {typos}; it is the probability of an error")
    rng = random.Random(f"{seed}/{split}")
    return [_draw(rng, dates_of(split, seed), locales, typos) for _ in range(count)]


@functools.cache
def dates_of(split: str, seed: int) -> tuple[datetime.date, ...]:
    """The calendar dates of a split: of all from 1970 to 2069, one in twenty for each of dev and test."""
    days = (FIRST + datetime.timedelta(days) for days in range((LAST - FIRST).days + 1))
    return tuple(day for day in days if _split_of(day, seed) == split)


def _split_of(day: datetime.date, seed: int) -> str:
    digest = hashlib.sha256(f"{seed}/{day}".encode()).digest()
    return _OF_TWENTY.get(int.from_bytes(digest[:4], "big") % 20, "train")


def _draw(rng: random.Random, dates: Sequence[datetime.date], locales: Sequence[str], typos: float) -> WrittenDate:
    date, locale = rng.choice(dates), rng.choice(locales)
    text = write(date, locale, rng.choice(styles(locale)))
    if rng.random() < _LOWER_CASE:
        text = text.lower()
    if rng.random() < typos:
        text = with_typo(text, locale, rng)
    return WrittenDate(locale, text, date.isoformat())
