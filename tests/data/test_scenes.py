"""Generated pairs of sentences: labels against all scenes, splits without common premises."""

from itertools import product

import pytest

from omegamax.data import scenes
from omegamax.data.scenes import LABELS, PROPERTIES, Description, generate_scene_pairs, label_of

EXACT = [sorted({value for values in words.values() for value in values}) for words in PROPERTIES]
SCENES = list(product(*EXACT))


def holds(text, scene):
    """Whether a sentence is true of a scene, by reading its words."""
    article, *words = text.removesuffix(" .").split(" ")
    at = words.index("is")
    before, after = words[:at], " ".join(words[at + 1 :])
    size, mood, actor, deed, place = scene
    general = {
        "person": actor in ("man", "woman", "boy", "girl"),
        "adult": actor in ("man", "woman"),
        "child": actor in ("boy", "girl"),
        "animal": actor in ("dog", "cat", "horse", "bird"),
        "pet": actor in ("dog", "cat"),
        "moving": deed in ("running", "jumping", "dancing"),
        "resting": deed in ("sleeping", "sitting"),
        "outside": place in ("in a park", "on a beach", "on a street", "in a garden"),
        "inside": place in ("in a kitchen", "in a museum", "on a stage"),
    }
    true = all(general.get(word, word in (size, mood, actor)) for word in before)
    deed_word, _, place_words = after.partition(" ")
    if deed_word in ("in", "on", "inside", "outside"):  # nothing is said of what is done
        deed_word, place_words = "", after
    for word, value in ((deed_word, deed), (place_words, place)):
        true = true and (not word or general.get(word, word == value))
    return not true if article == "no" else true


@pytest.mark.slow
def test_labels_are_those_of_all_scenes():
    seen = set()
    for premise, hypothesis, label in generate_scene_pairs(120, "train", seed=3):
        true = [holds(hypothesis, scene) for scene in SCENES if holds(premise, scene)]
        assert true, premise
        expected = "entailment" if all(true) else "neutral" if any(true) else "contradiction"
        assert label == expected, (premise, hypothesis)
        seen.add((label, hypothesis.startswith("no ")))
    assert {label for label, _ in seen} == set(LABELS) and any(negated for _, negated in seen)


def test_negation_swaps_always_and_never():
    premise = Description(("", "", "dog", "running", "in a park"))
    for words in (("", "", "pet", "", "outside"), ("", "", "cat", "", "outside"), ("small", "", "dog", "", "outside")):
        plain, negated = label_of(premise, Description(words)), label_of(premise, Description(words, True))
        swapped = {"entailment": "contradiction", "contradiction": "entailment", "neutral": "neutral"}
        assert negated == swapped[plain]
    assert label_of(premise, premise) == "entailment"


def test_pairs_depend_on_the_seed_alone():
    some = list(generate_scene_pairs(40, "dev", seed=1))
    assert some == list(generate_scene_pairs(40, "dev", seed=1))
    assert some[:10] == list(generate_scene_pairs(10, "dev", seed=1))
    assert some != list(generate_scene_pairs(40, "dev", seed=2))


def test_labels_are_balanced_and_premises_stay_in_one_split():
    splits = {split: list(generate_scene_pairs(150, split)) for split in ("train", "dev", "test")}
    for pairs in splits.values():
        assert [sum(pair.label == label for pair in pairs) for label in LABELS] == [50, 50, 50]
    premises = [{pair.premise for pair in pairs} for pairs in splits.values()]
    assert not premises[0] & premises[1] and not premises[0] & premises[2] and not premises[1] & premises[2]
    with pytest.raises(ValueError, match="one of train, dev, test"):
        next(generate_scene_pairs(1, "valid"))


def test_an_article_fits_its_word():
    assert Description(("", "", "animal", "running", "")).text == "an animal is running ."
    assert Description(("", "", "animal", "", "outside"), True).text == "no animal is outside ."
    assert len(scenes.LABELS) == 3
