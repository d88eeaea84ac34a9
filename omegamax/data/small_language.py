"""Generated pairs of an English-like sentence and its translation into a small invented language.

    the cold bridge does not find a small window   →   terun tiru kenas vela rod sisneur
                                                       bridge cold window small a find-not

Word order differs: a place comes first, adjectives and articles follow their noun, the verb is last, negation is a part
of the verb. Nouns have a gender, which the adjective and the verb show, and the object has an ending. So each word of
the output depends on words at other places of the source, some of them far away. Every sentence has exactly one
translation: a model can be right always, if it finds where to look.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

_NOUNS = [
    "fox",
    "bird",
    "boat",
    "house",
    "river",
    "teacher",
    "child",
    "king",
    "garden",
    "letter",
    "horse",
    "bridge",
    "window",
    "farmer",
    "cloud",
    "market",
]
ADJECTIVES = ["old", "red", "small", "quiet", "bright", "cold", "heavy", "green"]
_VERBS = ["sees", "finds", "paints", "follows", "carries", "hears", "builds", "hides"]
_PLACES = ["near", "behind", "under", "above"]
_DETERMINERS = ("the", "a", "every")
_CONJUNCTIONS = ("because", "while")
_GENDERS = "aou"

_CONSONANTS, _VOWELS = "ptkmnslrvd", "aeiou"


class Sentence(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class _Phrase(NamedTuple):
    source: list[str]
    stem: str  # of the noun
    adjective: str | None
    determiner: str
    gender: str


def generate_sentences(count: int, split: str, *, seed: int = 0) -> Iterator[Sentence]:
    """Draws sentences; those of the splits "train", "dev" and "test" are drawn independently of each other.

    Arguments:
        count: how many
        split: names the stream of random numbers
        seed: of all splits

    >>> next(generate_sentences(1, "train")) == next(generate_sentences(1, "train"))
    True
    """
    draw = random.Random(f"small language/{seed}/{split}")
    for _ in range(count):
        source, target = draw_clause(draw)
        if draw.random() < 0.3:
            conjunction = draw.choice(_CONJUNCTIONS)
            more, of_more = draw_clause(draw)
            # The reason comes first, and the conjunction at its end.
            source, target = [*source, conjunction, *more], [*of_more, _word(conjunction), *target]
        yield Sentence(" ".join(source), " ".join(target))


def draw_clause(draw: random.Random) -> tuple[list[str], list[str]]:
    """Draws a clause with random numbers from `draw`; returns its words and those of its translation."""
    subject, thing = _phrase(draw), _phrase(draw)
    verb, negated = draw.choice(_VERBS), draw.random() < 0.25
    said = ["does", "not", verb.removesuffix("s")] if negated else [verb]
    source = [*subject.source, *said, *thing.source]
    place: list[str] = []
    if draw.random() < 0.5:
        where, preposition = _phrase(draw), draw.choice(_PLACES)
        source += [preposition, *where.source]
        place = [*_declined(where, "im"), _word(preposition)]
    stem = _word(verb) + ("ne" if negated else "")
    return source, [*place, *_declined(subject, "n"), *_declined(thing, "s"), f"{stem}{subject.gender}r"]


def _phrase(draw: random.Random) -> _Phrase:
    noun, determiner = draw.choice(_NOUNS), draw.choice(_DETERMINERS)
    adjective = draw.choice(ADJECTIVES) if draw.random() < 0.5 else None
    words = [determiner, *([adjective] if adjective else []), noun]
    return _Phrase(words, _word(noun), adjective, determiner, _GENDERS[_NOUNS.index(noun) % len(_GENDERS)])


def _declined(phrase: _Phrase, ending: str) -> list[str]:
    """The noun with its ending, its adjective with the gender, and the determiner unless it is "the"."""
    words = [f"{phrase.stem}{phrase.gender}{ending}"]
    if phrase.adjective is not None:
        words.append(_word(phrase.adjective) + phrase.gender)
    return words if phrase.determiner == "the" else [*words, _word(phrase.determiner)]


def _word(english: str) -> str:
    """The stem of an English word: its place in the dictionary, written in syllables."""
    syllables = [f"{consonant}{vowel}" for vowel in _VOWELS for consonant in _CONSONANTS]
    number = _DICTIONARY.index(english)
    return syllables[number % len(syllables)] + _CONSONANTS[number * 7 % len(_CONSONANTS)]


_DICTIONARY = [*_NOUNS, *ADJECTIVES, *_VERBS, *_PLACES, *_DETERMINERS, *_CONJUNCTIONS]
