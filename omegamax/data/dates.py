"""Generated dates of many locales and their ISO form, from CLDR's patterns; the same seed gives the same dates.

Each calendar date belongs to one split, so no date of the test data occurs in the training data, in any language.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from omegamax.data.date_patterns import FIRST, LAST, LOCALES, month_names, styles, write

_OF_TWENTY = {0: "dev", 1: "test"}  # of twenty equal parts of the calendar, one each
_LOWER_CASE = 1 / 8  # the share of dates that people write in lower case
_WORD = re.compile(r"[^\W\d_]{4,}")


class WrittenDate(NamedTuple):
    """A date as a person writes it, and its ISO form."""

    locale: str
    text: str
    iso: str


def generate_dates(
    count: int, split: str, *, seed: int = 0, locales: Sequence[str] = LOCALES, typos: float = 0.0
) -> list[WrittenDate]:
    """Generates `count` dates of the split "train", "dev" or "test", with locales and styles drawn evenly.

    `typos` is the probability of a typing error. A shorter list is the beginning of a longer one.
    """
    if not 0 <= typos <= 1:
        raise ValueError(f"dates: typos must lie in [0, 1], got {typos}; it is the probability of an error")
    rng = random.Random(f"{seed}/{split}")
    return [_draw(rng, dates_of(split, seed), locales, typos) for _ in range(count)]


@functools.cache
def dates_of(split: str, seed: int) -> tuple[datetime.date, ...]:
    """Returns the calendar dates of a split: of all from 1970 to 2069, one in twenty for each of dev and test."""
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


def with_typo(text: str, locale: str, rng: random.Random) -> str:
    """Makes one typing error in a word of four letters or more; leaves the text as it is if no error is safe.

    A letter is left out, doubled, or exchanged with its neighbour; digits stay. An error that would make a word look
    like another month's name, or like an error in it, is not safe: "jui" could be juin or juillet.
    """
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    safe = [typo for typo in _typos(word.group()) if _is_safe(typo, word.group(), locale)]
    return text[: word.start()] + rng.choice(safe) + text[word.end() :] if safe else text


def _is_safe(typo: str, word: str, locale: str) -> bool:
    readings = _readings(locale)
    meant, read = readings.get(word.lower(), frozenset()), readings.get(typo.lower(), frozenset())
    return len(meant) < 2 and read <= meant


@functools.cache
def _readings(locale: str) -> dict[str, frozenset[int]]:
    """Returns the months that each word of a month's name, and each error in one, may stand for."""
    months = defaultdict(set)
    for name, month in month_names(locale).items():
        for word in re.findall(r"[^\W\d_]+", name):
            for form in (word, *_typos(word)):
                months[form].add(month)
    return {form: frozenset(found) for form, found in months.items()}


def _typos(word: str) -> Iterator[str]:
    for place, letter in enumerate(word):
        yield word[:place] + word[place + 1 :]
        yield word[:place] + letter + word[place:]
        if place and word[place - 1] != letter:
            yield word[: place - 1] + letter + word[place - 1] + word[place + 1 :]
