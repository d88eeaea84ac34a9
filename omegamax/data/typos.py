"""Typing errors in the words of a date: a letter left out, doubled, or changed with its neighbour. Never in a digit.

An error that would make a word look like another month's name, or like an error in it, is not made: "jui" could be
juin or juillet.
"""

from __future__ import annotations

import functools
import random
import re
from collections import defaultdict
from collections.abc import Iterator

from omegamax.data.date_patterns import month_names

_WORD = re.compile(r"[^\W\d_]{4,}")


def with_typo(text: str, locale: str, rng: random.Random) -> str:
    """The text with one error in one of its words of four letters or more, or as it is where none is safe."""
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
    """Each word of a month's name, and each error in one: the months that it may stand for."""
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
