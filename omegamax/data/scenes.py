"""Generated pairs of sentences whose labels follow from set inclusion: each sentence describes a set of scenes.

    a scene     who (a dog), how large (small), in which mood (calm), doing what (running), where (in a park)
    a sentence  "a small animal is running"      all scenes in which the words hold; what is not said may be anything
                "no dog is outside"              all scenes in which "a dog is outside" does not hold

Some words are more general than others: every dog is an animal, who runs moves, a park is outside. A pair of sentences
tells of one scene, and the premise holds in it. The hypothesis is

    entailment      if it holds in every scene of the premise
    contradiction   if it holds in none of them
    neutral         otherwise
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from omegamax.data.tsv import SPLITS, split_of

ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")

# For each property the general words, and the exact ones that they stand for. In a scene it has one exact value.
SIZES: dict[str, tuple[str, ...]] = {"": ("small", "large")}
MOODS: dict[str, tuple[str, ...]] = {"": ("happy", "sad", "calm", "tired")}
ACTORS: dict[str, tuple[str, ...]] = {
    "person": ("man", "woman", "boy", "girl"),
    "adult": ("man", "woman"),
    "child": ("boy", "girl"),
    "animal": ("dog", "cat", "horse", "bird"),
    "pet": ("dog", "cat"),
}
DEEDS: dict[str, tuple[str, ...]] = {
    "": ("running", "jumping", "dancing", "sleeping", "sitting", "eating", "singing"),
    "moving": ("running", "jumping", "dancing"),
    "resting": ("sleeping", "sitting"),
}
PLACES: dict[str, tuple[str, ...]] = {
    "": ("in a park", "on a beach", "on a street", "in a garden", "in a kitchen", "in a museum", "on a stage"),
    "outside": ("in a park", "on a beach", "on a street", "in a garden"),
    "inside": ("in a kitchen", "in a museum", "on a stage"),
}
PROPERTIES = (SIZES, MOODS, ACTORS, DEEDS, PLACES)
_NEGATED = 0.1  # of the hypotheses
_GENERAL = 0.3  # probability that a word of a premise may be general
_CHANGED = 0.25  # probability that the hypothesis says something else of a property
_ATTEMPTS = 20  # after which another premise is drawn: of some, every hypothesis is true or false


class Description(NamedTuple):
    """What a sentence says: one word per property, "" for nothing, and whether no such scene is meant."""

    words: tuple[str, ...]
    negated: bool = False

    @property
    def text(self) -> str:
        size, mood, actor, deed, place = self.words
        said = [word for word in (size, mood, actor) if word]
        article = "no" if self.negated else "an" if said[0][0] in "aeiou" else "a"
        return " ".join([article, *said, "is", *(word for word in (deed, place) if word)]) + " ."


class ScenePair(NamedTuple):
    """A premise, a hypothesis and the label that follows from them."""

    premise: str
    hypothesis: str
    label: str


def label_of(premise: Description, hypothesis: Description) -> str:
    """Returns the label of a pair whose premise is not negated.

    Arguments:
        premise: what is known of the scene
        hypothesis: what may follow
    """
    relations = [
        _relation(number, known, asked) for number, (known, asked) in enumerate(zip(premise.words, hypothesis.words))
    ]
    always, never = all(each[0] for each in relations), any(each[1] for each in relations)
    if hypothesis.negated:
        always, never = never, always
    return ENTAILMENT if always else CONTRADICTION if never else NEUTRAL


def generate_scene_pairs(count: int, split: str, *, seed: int = 0) -> Iterator[ScenePair]:
    """Generates `count` pairs of the split "train", "dev" or "test"; fewer are the beginning of more.

    Labels take turns, and about a tenth of the hypotheses is negated. A premise belongs to one split only.

    Arguments:
        count: how many
        split: which of the splits
        seed: of the random numbers

    >>> for pair in generate_scene_pairs(2, "train"):
    ...     print(*pair, sep=" | ")
    a small tired bird is singing inside . | a small tired bird is singing . | entailment
    a small happy horse is running outside . | a small happy horse is in a garden . | neutral
    """
    if split not in SPLITS:
        raise ValueError(f"generate_scene_pairs: split must be one of {', '.join(SPLITS)}, got {split!r}; choose one")
    rng = random.Random(f"scenes/{seed}/{split}")
    made = 0
    while made < count:
        wanted, negated = LABELS[made % len(LABELS)], rng.random() < _NEGATED
        premise = Description(_draw_premise(rng))
        if split_of(f"{seed}/{premise.text}") != split:
            continue
        for _ in range(_ATTEMPTS):
            hypothesis = Description(_draw_hypothesis(rng, premise.words), negated)
            if hypothesis.words == premise.words or not any(hypothesis.words[3:]):
                continue
            if label_of(premise, hypothesis) == wanted:
                yield ScenePair(premise.text, hypothesis.text, wanted)
                made += 1
                break


def _draw_premise(rng: random.Random) -> tuple[str, ...]:
    """Draws mostly exact words, so that a premise says much."""
    words = [rng.choice(some if rng.random() < _GENERAL else exact) for some, exact in zip(_VOCABULARY, _EXACT)]
    words[3] = words[3] or rng.choice(_EXACT[3])  # it tells what is done
    return tuple(words)


def _draw_hypothesis(rng: random.Random, premise: Sequence[str]) -> tuple[str, ...]:
    """Keeps or changes each word of the premise, or leaves it out where that is possible."""
    found = []
    for number, known in enumerate(premise):
        if rng.random() < _CHANGED:
            absent = "" in PROPERTIES[number] and rng.random() < 0.5
            known = "" if absent else rng.choice(_VOCABULARY[number])
        found.append(known)
    return tuple(found)


@cache
def _values(number: int, word: str) -> frozenset[str]:
    """Returns the exact values for which a word of a property stands."""
    words = PROPERTIES[number]
    return frozenset(words[word]) if word in words else frozenset([word])


@cache
def _relation(number: int, known: str, asked: str) -> tuple[bool, bool]:
    """Returns whether what is asked always holds, and whether it never holds, where one word is known."""
    one, other = _values(number, known), _values(number, asked)
    return one <= other, one.isdisjoint(other)


_EXACT = [list(dict.fromkeys(value for values in words.values() for value in values)) for words in PROPERTIES]
_VOCABULARY = [[*words, *exact] for words, exact in zip(PROPERTIES, _EXACT)]
