"""Generated sentences with people, places and firms, in which only the context tells what a name is.

    Velmora flew to New Tarin on Monday .              person, place
    Shares of Tarin fell when Velmora sold Oska .      firm, person, firm
    Everyone talks about Oska .                        any of the three

All three kinds share their names, many names of dev and test never occur in train, and capitals also begin sentences,
days and months. So a table of names does not help, and a model must read the words around them. In some sentences they
do not tell either: there the kind is drawn evenly, and a good model gives each a probability of one third.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from omegamax.data.tagged_sentences import TaggedSentence, from_words

_SYLLABLES = ["ka", "vel", "mo", "ra", "tar", "in", "os", "ri", "len", "du", "ba", "shi", "no", "pel", "gar", "wen"]
_FIRST = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Hana", "Ivo", "June", "Kai", "Lea", "Nora", "Otto", "Pia"]
_FILLERS = {
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    "month": ["January", "March", "June", "August", "October"],
    "number": ["3", "12", "40", "150", "2,000"],
    "role": ["mayor", "coach", "teacher", "doctor", "Minister", "Judge"],
    "thing": ["tea", "paper", "steel", "fruit", "glass", "software"],
}
_TEMPLATES = [
    "{person} flew to {place} on {day} .",
    "{firm} opened an office in {place} .",
    "{person} joined {firm} last {month} .",
    "Shares of {firm} fell by {number} percent on {day} .",
    "Shares of {firm} fell when {person} sold {firm} .",
    "The {role} of {place} met {person} and {person} .",
    "In {place} , {person} said that {firm} would hire {number} people .",
    "We saw {person} near the river in {place} .",
    "{firm} , which sells {thing} , was founded by {person} .",
    "{number} trains left {place} for {place} in {month} .",
    "{role} {person} was born in {place} .",
    "The {thing} of {firm} comes from {place} .",
    "{person} 's sister works for {firm} in {place} .",
    "Nobody at {firm} knew that {person} had left .",
    "Snow fell in {place} all {day} .",
    "{thing} is cheap in {month} .",
    "On {day} the {role} bought {number} boxes of {thing} .",
    "{person} , a {role} from {place} , likes {thing} .",
    "Everyone talks about {any} .",
    "{any} was in the news on {day} .",
    "Do you remember {any} ?",
]
_KINDS = ("person", "place", "firm")
_N_KNOWN = 60  # names that all splits share
_NEW = 0.35  # of the names of a split are its own


def generate_entity_sentences(count: int, split: str, *, seed: int = 0) -> Iterator[TaggedSentence]:
    """Generates `count` sentences of the split "train", "dev" or "test"; fewer are the beginning of more.

    Arguments:
        count: how many
        split: which of the splits
        seed: of the random numbers

    >>> next(generate_entity_sentences(1, "train")).words[-1]
    '.'
    """
    known = [_name(random.Random(f"entities/{seed}/{number}")) for number in range(_N_KNOWN)]
    draw = random.Random(f"entities/{seed}/{split}")
    for _ in range(count):
        words: list[str] = []
        spans: list[tuple[int, int, str]] = []
        for piece in draw.choice(_TEMPLATES).split():
            slot = piece.strip("{}")
            if slot == piece:
                words.append(piece)
            elif slot in _FILLERS:
                words.append(draw.choice(_FILLERS[slot]))
            else:
                kind = draw.choice(_KINDS) if slot == "any" else slot
                name = draw.choice(known) if draw.random() > _NEW else _name(draw)
                said = [name] if slot == "any" else _said(kind, name, draw)
                spans.append((len(words), len(words) + len(said), kind))
                words += said
        words[0] = words[0][0].upper() + words[0][1:]
        yield from_words(tuple(words), tuple(spans))


def _name(draw: random.Random) -> str:
    return "".join(draw.choices(_SYLLABLES, k=draw.choice((2, 2, 3)))).capitalize()


def _said(kind: str, name: str, draw: random.Random) -> list[str]:
    """Returns the words of a name: alone, or with others that say more."""
    alone = draw.random() < 0.6
    if kind == "person":
        return [name] if alone else [draw.choice(_FIRST), name]
    if kind == "place":
        return [name] if alone else draw.choice(([name, "City"], ["New", name], ["Port", name]))
    return [name] if alone else draw.choice(([name, "Labs"], [name, "&", "Co"], ["New", name, "Bank"]))
