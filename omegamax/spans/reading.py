"""Reads the spans that a sequence of tags stands for, and writes the tags of given spans.

    BIO (IOB2)       B-x begins a span, I-x continues one of the same type, O is outside
    IOB1             I-x begins and continues; B-x begins a span right after another one of the same type
    BIOES (IOBES)    besides, E-x ends a span of several tags and S-x is a span of one tag
    BILOU            BIOES with L (last) for E and U (unit) for S

Sequences that break the rules of their scheme are read as the CoNLL evaluation reads them: a tag begins a span if the
tag before it has another type or none, or if its prefix says so. So one rule reads all schemes.
Tjong Kim Sang & De Meulder, CoNLL 2003; Ratinov & Roth, CoNLL 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_BEGIN = "BSU"  # prefixes that begin a span whatever comes before
_END = "ESLU"  # prefixes that end a span whatever comes after
_PREFIXES = "BIESLU"
# For each scheme the prefix of a span of one tag, of a first, an inner and a last tag.
_WRITTEN = {"BIO": "BBII", "IOB2": "BBII", "BIOES": "SBIE", "IOBES": "SBIE", "BILOU": "UBIL"}


@dataclass(frozen=True, eq=False)
class TagReader:
    """The rule by which tags stand for spans: which types there are, and where a span begins.

    Arguments:
        names: the name of every tag, in the order of their numbers, such as "O", "B-PER", "I-PER"

    >>> reader = TagReader(["O", "B-PER", "I-PER"])
    >>> reader.spans([1, 2, 0, 1])
    [(0, 2, 'PER'), (3, 4, 'PER')]
    """

    names: Sequence[str]
    types: tuple[str, ...] = field(init=False)  # in the order in which the names mention them
    type_of_tag: Tensor = field(init=False)  # (C,): −1 for a tag outside of all spans
    begins: Tensor = field(init=False)  # (C + 1, C): [i, j] = tag j begins a span after tag i; row C: at the start

    def __post_init__(self) -> None:
        names = tuple(self.names)
        if len(set(names)) != len(names) or not names:
            raise ValueError(
                f"TagReader: names must be at least one tag, each once, got {list(names)}; give the name of every tag "
                "in the order of their numbers"
            )
        pairs = [_prefix_and_type(name) for name in names]
        types = tuple(dict.fromkeys(kind for _, kind in pairs if kind is not None))
        number = {kind: i for i, kind in enumerate(types)}
        begins = [[_begins(before, after) for after in pairs] for before in [*pairs, ("O", None)]]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "type_of_tag", torch.tensor([-1 if k is None else number[k] for _, k in pairs]))
        object.__setattr__(self, "begins", torch.tensor(begins, dtype=torch.bool))

    @property
    def members(self) -> Tensor:
        """The tags of each type (types, most tags of a type); −1 fills short rows."""
        rows = [(self.type_of_tag == t).nonzero().flatten().tolist() for t in range(len(self.types))]
        widest = max(map(len, rows), default=0)
        return torch.tensor([row + [-1] * (widest - len(row)) for row in rows], dtype=torch.int64).reshape(-1, widest)

    def spans(self, tags: Iterable[int]) -> list[tuple[int, int, str]]:
        """Returns (start, end, type) of every span in a sequence of tag numbers; negative numbers end the sequence.

        Arguments:
            tags: numbers of tags, in order
        """
        begins, type_of_tag = self.begins.tolist(), self.type_of_tag.tolist()
        found, start, before = [], 0, len(self.names)
        place = 0
        for place, tag in enumerate([*tags, -1]):
            inside = before < len(self.names) and type_of_tag[before] >= 0
            over = tag < 0 or type_of_tag[tag] < 0
            if inside and (over or begins[before][tag]):
                found.append((start, place, self.types[type_of_tag[before]]))
            if tag < 0:
                break
            if not over and begins[before][tag]:
                start = place
            before = tag
        return found


def read_spans(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Returns (start, end, type) of every span in a sequence of tag names; `end` is the first position after it.

    Arguments:
        tags: the name of the tag at each position, of any scheme

    >>> read_spans(["B-PER", "I-PER", "O", "I-LOC"])
    [(0, 2, 'PER'), (3, 4, 'LOC')]
    """
    names = list(dict.fromkeys(tags))
    number = {name: i for i, name in enumerate(names)}
    return TagReader(names).spans(number[tag] for tag in tags) if tags else []


def write_tags(spans: Iterable[tuple[Any, ...]], length: int, scheme: str = "BIOES") -> list[str]:
    """Returns the names of the tags of `length` positions that stand for these spans.

    Arguments:
        spans: (start, end, type), which do not overlap; anything after the third entry is ignored
        length: how many positions there are
        scheme: "BIO", "IOB1", "IOB2", "BIOES", "IOBES" or "BILOU"

    >>> write_tags([(0, 2, "PER"), (3, 4, "LOC")], 5)
    ['B-PER', 'E-PER', 'O', 'S-LOC', 'O']
    """
    if scheme not in _WRITTEN and scheme != "IOB1":
        raise ValueError(
            f"write_tags: scheme must be one of {sorted([*_WRITTEN, 'IOB1'])}, got {scheme!r}; choose one of them"
        )
    tags = ["O"] * length
    end_before, type_before = -1, None
    for start, end, kind, *_ in sorted(spans):
        if not max(0, end_before) <= start < end <= length:
            raise ValueError(
                f"write_tags: spans must lie within {length} positions without overlap, got ({start}, {end}) after "
                f"one that ends at {max(0, end_before)}; drop or shorten one"
            )
        if scheme == "IOB1":
            first = "B" if start == end_before and kind == type_before else "I"
            prefixes = first + "I" * (end - start - 1)
        else:
            single, first, inner, last = tuple(_WRITTEN[scheme])
            prefixes = single if end == start + 1 else first + inner * (end - start - 2) + last
        tags[start:end] = [f"{prefix}-{kind}" for prefix in prefixes]
        end_before, type_before = end, kind
    return tags


def _prefix_and_type(name: Any) -> tuple[str, str | None]:
    """Splits "B-PER" into "B" and "PER"; a tag outside of spans has no type."""
    if name == "O":
        return "O", None
    prefix, hyphen, kind = name.partition("-") if isinstance(name, str) else ("", "", "")
    if len(prefix) != 1 or prefix not in _PREFIXES or not hyphen or not kind:
        raise ValueError(
            f"TagReader: a tag must be 'O' or one of {', '.join(_PREFIXES)}, a hyphen and a type, got {name!r}; "
            "rename it"
        )
    return prefix, kind


def _begins(before: tuple[str, str | None], after: tuple[str, str | None]) -> bool:
    if after[1] is None:
        return False
    return before[1] != after[1] or after[0] in _BEGIN or before[0] in _END
