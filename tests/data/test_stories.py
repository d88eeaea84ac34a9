"""Generated stories: one derivation each, answers that follow from facts, and the entropy that they claim."""

import math
import re
from itertools import islice

import pytest

from omegamax.data import stories
from omegamax.data.stories import NAMES, PLACES, THINGS, entropy, generate_stories

FACT = re.compile(r"(\w+) keeps the (\w+) in the (\w+)\.")
WHO = re.compile(r"who has the (\w+)\? (\w+)\.")
WHERE = re.compile(r"where is the (\w+)\? in the (\w+)\.")


def test_a_story_can_be_read_back_and_its_probability_found():
    """By another way: from the text alone, as the grammar in the docstring says."""
    for text, nats in generate_stories(100, "train", seed=3):
        facts, who, where = FACT.findall(text), WHO.findall(text), WHERE.findall(text)
        n_facts, n_questions = len(facts), len(who) + len(where)
        by_hand = math.log(3) + math.log(4) + n_facts * math.log(len(PLACES))
        by_hand += sum(2 * math.log(16 - place) for place in range(n_facts))  # a name and a thing, all different
        by_hand += n_questions * math.log(2 * n_facts)
        assert nats == pytest.approx(by_hand)
        keeper = {thing: (name, place) for name, thing, place in facts}
        assert all(keeper[thing][0] == name for thing, name in who)
        assert all(keeper[thing][1] == place for thing, place in where)
        assert 2 <= n_facts == len(keeper) <= 4 and 3 <= n_questions <= 6


def test_words_differ():
    assert all(len(set(words)) == 16 for words in (NAMES, THINGS, PLACES))


def test_splits_and_seeds_differ_and_fewer_are_the_beginning_of_more():
    few, many = list(generate_stories(5, "train")), list(generate_stories(50, "train"))
    assert few == many[:5]
    assert few != list(generate_stories(5, "dev")) and few != list(generate_stories(5, "train", seed=1))
    assert list(islice(generate_stories(10**9, "train"), 5)) == few  # made one by one


def test_the_entropy_is_that_of_the_choices(monkeypatch):
    """All stories of a small world, each with its probability: -Σ p log p is the mean of the nats."""
    for name, words in {"NAMES": ["a", "b"], "THINGS": ["x", "y"], "PLACES": ["p", "q"]}.items():
        monkeypatch.setattr(stories, name, words)
    monkeypatch.setattr(stories, "FACTS", (1, 2))
    monkeypatch.setattr(stories, "QUESTIONS", (1,))
    probabilities = {}
    for text, nats in generate_stories(4000, "train"):
        assert probabilities.setdefault(text, nats) == pytest.approx(nats)
    assert sum(math.exp(-nats) for nats in probabilities.values()) == pytest.approx(1)  # every story was seen
    exact = sum(math.exp(-nats) * nats for nats in probabilities.values())
    drawn = list(generate_stories(4000, "train"))
    assert sum(nats for _, nats in drawn) / 4000 == pytest.approx(exact, abs=0.05)
    assert entropy(drawn) == sum(nats for _, nats in drawn) / sum(len(text) + 1 for text, _ in drawn)
