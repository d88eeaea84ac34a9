"""A generated treebank: English sentences of a small grammar, with dependency trees, of which some are ambiguous.

    she saw the man with the telescope .

Who has the telescope? A prepositional phrase after an object belongs to the verb if its noun is a tool, to the object
if it is something that people wear, and to either, evenly, if both make sense; then no parser can know, and a good one
gives both trees. One sentence in twelve has crossing arcs, because its relative clause comes after the verb:

    a man arrived today who had a hat .
"""

from __future__ import annotations

import random
from typing import NamedTuple

from omegamax.data.conllu import ConlluSentence, parse_conllu

_TRANSITIVE = ["saw", "met", "watched", "found", "followed", "heard", "painted", "helped", "photographed", "called"]
_INTRANSITIVE = ["arrived", "slept", "waited", "left", "laughed", "came", "appeared"]
_PEOPLE = [
    "man",
    "woman",
    "girl",
    "boy",
    "doctor",
    "teacher",
    "farmer",
    "singer",
    "pilot",
    "neighbour",
    "baker",
    "poet",
]
_NAMES = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Hana", "Ivo", "June", "Kai", "Lea", "Max"]
_PRONOUNS = ["he", "she", "they", "we", "I"]
_ADJECTIVES = ["old", "young", "tall", "quiet", "happy", "tired", "famous", "small", "kind", "careful"]
_ADVERBS = ["today", "yesterday", "often", "slowly", "again", "early"]
_TOOLS = ["telescope", "camera", "ladder", "lens", "torch", "microphone"]  # of the verb, or of the object
_CLOTHES = ["hat", "coat", "beard", "scarf", "ring", "moustache"]  # of the object
_MEANS = ["pleasure", "patience", "surprise", "care", "interest", "delight"]  # of the verb
_PLACES = ["garden", "park", "station", "kitchen", "street", "village", "library", "market"]
_CROSSING = 1 / 12  # share of sentences with crossing arcs


class _Word(NamedTuple):
    form: str
    upos: str
    relation: str
    head: _Word | None  # compared by identity: a sentence may have a word twice


def generate_treebank(count: int, split: str, *, seed: int = 0) -> list[ConlluSentence]:
    """Generates sentences with their trees.

    Arguments:
        count: how many
        split: "train", "dev" or "test"; each has its own random numbers
        seed: the same seed gives the same sentences on every machine
    """
    draw = random.Random(f"omegamax treebank {split} {seed}")
    text = "".join(_conllu(_sentence(draw), f"{split}-{number}") for number in range(1, count + 1))
    return list(parse_conllu(text, "the generated treebank"))


def _conllu(words: list[_Word], name: str) -> str:
    places = {id(word): place for place, word in enumerate(words, start=1)}
    rows = [f"# sent_id = {name}\n", f"# text = {' '.join(word.form for word in words)}\n"]
    for place, word in enumerate(words, start=1):
        head = 0 if word.head is None else places[id(word.head)]
        rows.append(f"{place}\t{word.form}\t_\t{word.upos}\t_\t_\t{head}\t{word.relation}\t_\t_\n")
    return "".join([*rows, "\n"])


def _sentence(draw: random.Random) -> list[_Word]:
    if draw.random() < _CROSSING:
        return _extraposed(draw)
    if draw.random() < 0.25:
        return _intransitive(draw)
    verb = _Word(draw.choice(_TRANSITIVE), "VERB", "root", None)
    words = [*_noun_phrase(draw, verb, "nsubj"), verb]
    target = _person(draw, verb, "obj")
    words += target
    if draw.random() < 0.7:
        words += _with_phrase(draw, verb, target[-1])
    if draw.random() < 0.4:
        words += _prepositional(draw, verb, "obl", draw.choice(["in", "near", "behind"]), draw.choice(_PLACES))
    if draw.random() < 0.3:
        words.append(_Word(draw.choice(_ADVERBS), "ADV", "advmod", verb))
    return [*words, _Word(".", "PUNCT", "punct", verb)]


def _intransitive(draw: random.Random) -> list[_Word]:
    verb = _Word(draw.choice(_INTRANSITIVE), "VERB", "root", None)
    subject = _person(draw, verb, "nsubj")
    words = list(subject)
    if draw.random() < 0.3:
        words += _prepositional(draw, subject[-1], "nmod", "with", draw.choice(_CLOTHES))
    words += [verb, _Word(draw.choice(_ADVERBS), "ADV", "advmod", verb)]
    return [*words, _Word(".", "PUNCT", "punct", verb)]


def _extraposed(draw: random.Random) -> list[_Word]:
    """A relative clause whose noun is on the other side of the verb, so that arcs cross."""
    verb = _Word(draw.choice(_INTRANSITIVE), "VERB", "root", None)
    subject = _person(draw, verb, "nsubj")
    clause = _Word(draw.choice(["had", "wore"]), "VERB", "acl:relcl", subject[-1])
    owned = _Word(draw.choice(_CLOTHES), "NOUN", "obj", clause)
    return [
        *subject,
        verb,
        _Word(draw.choice(_ADVERBS), "ADV", "advmod", verb),
        _Word("who", "PRON", "nsubj", clause),
        clause,
        _Word("a", "DET", "det", owned),
        owned,
        _Word(".", "PUNCT", "punct", verb),
    ]


def _noun_phrase(draw: random.Random, head: _Word, relation: str) -> list[_Word]:
    kind = draw.random()
    if kind < 0.35:
        return [_Word(draw.choice(_PRONOUNS), "PRON", relation, head)]
    if kind < 0.6:
        return [_Word(draw.choice(_NAMES), "PROPN", relation, head)]
    return _person(draw, head, relation)


def _person(draw: random.Random, head: _Word, relation: str) -> list[_Word]:
    noun = _Word(draw.choice(_PEOPLE), "NOUN", relation, head)
    words = [_Word(draw.choice(["the", "a"]), "DET", "det", noun)]
    if draw.random() < 0.4:
        words.append(_Word(draw.choice(_ADJECTIVES), "ADJ", "amod", noun))
    return [*words, noun]


def _with_phrase(draw: random.Random, verb: _Word, noun: _Word) -> list[_Word]:
    things = draw.choice([_TOOLS, _CLOTHES, _MEANS])
    of_verb = things is _MEANS or (things is _TOOLS and draw.random() < 0.5)
    head, relation = (verb, "obl") if of_verb else (noun, "nmod")
    return _prepositional(draw, head, relation, "with", draw.choice(things), determined=things is not _MEANS)


def _prepositional(
    draw: random.Random, head: _Word, relation: str, preposition: str, thing: str, *, determined: bool = True
) -> list[_Word]:
    noun = _Word(thing, "NOUN", relation, head)
    words = [_Word(preposition, "ADP", "case", noun)]
    if determined:
        words.append(_Word(draw.choice(["the", "a"]), "DET", "det", noun))
    return [*words, noun]
