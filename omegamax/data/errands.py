"""Generated stories with questions, in the way of bAbI's first two tasks: people walk about and pick things up.

    ada went to the barn. bo took the lamp. bo went to the shed. where is ada? barn. where is the lamp? shed.

A question about a person follows from one sentence, the last that says where they went. One about a thing follows from
two: who took it, and where that person went last. Other sentences distract. People may pick a thing up from each other,
and only the last one who took it matters.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from omegamax.data.babi import Sentence, StoryQuestion

PEOPLE = ("ada", "bo", "cleo", "dan")
PLACES = ("barn", "shed", "hall", "tent", "mill", "dock")
THINGS = ("lamp", "kite", "drum", "coin")
WENT = ("went to", "walked to", "ran to")
TOOK = ("took", "grabbed", "got")
ONE_FACT, TWO_FACTS = 1, 2


def generate_errands(count: int, split: str, *, seed: int = 0, n_sentences: int = 8) -> Iterator[StoryQuestion]:
    """Yields questions, half of them about people and half about things.

    Arguments:
        count: how many
        split: "train", "dev" or "test", which differ
        seed: of the random choices
        n_sentences: the longest story
    """
    draw = random.Random(f"errands {split} {seed}")
    for number in range(count):
        kind = ONE_FACT if number % 2 == 0 else TWO_FACTS
        while (question := _question(draw, kind, n_sentences)) is None:
            pass
        yield question


def _question(draw: random.Random, kind: int, n_sentences: int) -> StoryQuestion | None:
    """Draws a story and a question of one kind; None if the story allows no such question."""
    story: list[Sentence] = []
    went: dict[str, tuple[int, str]] = {}  # of a person: the sentence and the place
    took: dict[str, tuple[int, str]] = {}  # of a thing: the sentence and the person
    for place in range(draw.randint(2, max(2, n_sentences))):
        person = draw.choice(PEOPLE)
        if draw.random() < 0.6:
            where = draw.choice(PLACES)
            story.append((person, *draw.choice(WENT).split(), "the", where))
            went[person] = place, where
        else:
            thing = draw.choice(THINGS)
            story.append((person, draw.choice(TOOK), "the", thing))
            took[thing] = place, person
    if kind == ONE_FACT:
        if not went:
            return None
        person = draw.choice(sorted(went))
        fact, where = went[person]
        return StoryQuestion(tuple(story), ("where", "is", person), where, (fact,), kind)
    known = sorted(thing for thing, (_, person) in took.items() if person in went)
    if not known:
        return None
    thing = draw.choice(known)
    first, person = took[thing]
    fact, where = went[person]
    return StoryQuestion(tuple(story), ("where", "is", "the", thing), where, (first, fact), kind)
