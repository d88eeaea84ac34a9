"""Schemes by which tags mark entities: which one a file uses, and where it breaks its own rules.

    IOB1     I-x inside an entity; B-x only where one follows another of the same type
    IOB2     B-x begins every entity, I-x continues it                              (also called BIO)
    BIOES    besides, E-x ends an entity of several words and S-x is one of a single word
    BILOU    BIOES with L (last) for E and U (unit) for S

`omegamax.spans.read_spans` reads the entities of any of them, `write_tags` writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SCHEMES = ("IOB1", "IOB2", "BIOES", "BILOU")
_AS_BIOES = {"L": "E", "U": "S"}
_OPEN = ("B", "I")  # prefixes after which an entity may go on; in BIOES it must


def split_tag(tag: str) -> tuple[str, str]:
    """Splits a tag into its prefix and its type; O has no type.

    >>> split_tag("B-creative-work"), split_tag("O")
    (('B', 'creative-work'), ('O', ''))
    """
    if tag == "O":
        return "O", ""
    prefix, hyphen, kind = tag.partition("-")
    if len(prefix) != 1 or prefix not in "BIESLU" or not hyphen or not kind:
        raise ValueError(f"a tag must be O, or one of B, I, E, S, L and U, a hyphen and a type, got {tag!r}")
    return prefix, kind


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Returns the scheme that sequences of tags follow.

    Arguments:
        sentences: tags of each sentence

    >>> detect_scheme([["I-PER", "I-PER", "B-PER"]]), detect_scheme([["B-PER", "O", "I-PER"]])
    ('IOB1', 'IOB2')
    """
    begun_by_b = begun_by_i = False
    prefixes: set[str] = set()
    for tags in sentences:
        before = ""
        for tag in tags:
            prefix, kind = split_tag(tag)
            prefixes.add(prefix)
            if prefix == "B" and before != kind:
                begun_by_b = True
            if prefix == "I" and before != kind:
                begun_by_i = True
            before = kind
    if prefixes & {"L", "U"}:
        return "BILOU"
    if prefixes & {"E", "S"}:
        return "BIOES"
    return "IOB1" if begun_by_i and not begun_by_b else "IOB2"


def invalid_places(tags: Sequence[str], scheme: str) -> list[int]:
    """Returns the places whose tag cannot follow the one before it in a scheme; the number of tags if the end is wrong.

    Arguments:
        tags: of one sentence
        scheme: one of SCHEMES

    >>> invalid_places(["O", "I-PER", "I-LOC"], "IOB2"), invalid_places(["B-PER"], "BIOES")
    ([1, 2], [1])
    """
    pairs = [split_tag(tag) for tag in tags]
    if scheme in ("BIOES", "BILOU"):
        pairs = [(_AS_BIOES.get(prefix, prefix), kind) for prefix, kind in pairs]
    wrong = []
    for place, (before, after) in enumerate(zip([("O", ""), *pairs], [*pairs, ("O", "")])):
        if not _may_follow(before, after, scheme):
            wrong.append(place)
    return wrong


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    goes_on = before[0] in _OPEN and before[1] == after[1]
    if scheme == "IOB1":
        return after[0] != "B" or goes_on
    if after[0] in ("I", "E"):
        return goes_on
    return scheme == "IOB2" or before[0] not in _OPEN
