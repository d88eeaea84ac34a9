"""Generated text whose entropy is known: little stories that tell who keeps what where, and then ask.

    ada keeps the kite in the barn. bo keeps the lamp in the tent. where is the kite? in the barn. who has the lamp? bo.

Every sentence follows from choices that are drawn evenly, and a story can have come about in one way only. So its
probability is the product of those of its choices, and no model predicts such text better, on average, than

    -log p(story) = Σ log(number of possibilities) over the choices.

Answers follow from the facts before them: they cost nothing for a model that finds the sentence to look at.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NAMES = [
    "ada",
    "bo",
    "cleo",
    "dan",
    "eva",
    "finn",
    "gus",
    "hana",
    "ivo",
    "june",
    "kai",
    "lea",
    "max",
    "nora",
    "otto",
    "pia",
]
THINGS = [
    "kite",
    "lamp",
    "drum",
    "coin",
    "book",
    "ring",
    "shoe",
    "vase",
    "bell",
    "flute",
    "mask",
    "rope",
    "clock",
    "spoon",
    "brush",
    "chair",
]
PLACES = [
    "barn",
    "tent",
    "shed",
    "hall",
    "cave",
    "attic",
    "tower",
    "garden",
    "cellar",
    "harbour",
    "kitchen",
    "library",
    "meadow",
    "mill",
    "forest",
    "bakery",
]
FACTS = (2, 3, 4)
QUESTIONS = (3, 4, 5, 6)


class Story(NamedTuple):
    """One line of text, and the negative logarithm of its probability."""

    text: str
    nats: float


def generate_stories(count: int, split: str, *, seed: int = 0) -> Iterator[Story]:
    """Generates `count` stories of the split "train", "dev" or "test"; fewer are the beginning of more.

    Arguments:
        count: how many
        split: which of the splits
        seed: of the random numbers

    >>> story = next(generate_stories(1, "train"))
    >>> story.text.split(".")[0].split()[1:3]
    ['keeps', 'the']
    """
    choices = _Choices(random.Random(f"stories/{seed}/{split}"))
    for _ in range(count):
        choices.nats = 0.0
        text = _story(choices)
        yield Story(text, choices.nats)


def entropy(stories: Sequence[Story]) -> float:
    """Returns the mean of -log p per character, in nats; the end of a line is a character too.

    Arguments:
        stories: some, the more the closer to the mean of all
    """
    return sum(story.nats for story in stories) / sum(len(story.text) + 1 for story in stories)


class _Choices:
    """Draws evenly, and adds up the logarithms of the numbers of possibilities."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.nats = rng, 0.0

    def one(self, among: Sequence) -> str | int:
        self.nats += math.log(len(among))
        return among[self.rng.randrange(len(among))]

    def several(self, among: Sequence[str], count: int) -> list[str]:
        """Draws different ones, in order."""
        left, drawn = list(among), []
        for _ in range(count):
            self.nats += math.log(len(left))
            drawn.append(left.pop(self.rng.randrange(len(left))))
        return drawn


def _story(choices: _Choices) -> str:
    n_facts = int(choices.one(FACTS))
    names, things = choices.several(NAMES, n_facts), choices.several(THINGS, n_facts)
    places = [str(choices.one(PLACES)) for _ in range(n_facts)]
    sentences = [f"{name} keeps the {thing} in the {place}." for name, thing, place in zip(names, things, places)]
    for _ in range(int(choices.one(QUESTIONS))):
        asked = int(choices.one(range(n_facts)))
        if choices.one(("who", "where")) == "who":
            sentences.append(f"who has the {things[asked]}? {names[asked]}.")
        else:
            sentences.append(f"where is the {things[asked]}? in the {places[asked]}.")
    return " ".join(sentences)
