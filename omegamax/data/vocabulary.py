"""Vocabularies number tokens; texts are split into tokens, which are characters or words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

from omegamax.data.printable import short_repr

PADDING, UNKNOWN, START, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")

JOINER = "￭"  # before a token that follows the one on its left without a space
_SIGN = "<joiner>"  # the joiner sign itself in a text: no word has < and > in it
_PIECE = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


class Vocabulary:
    """Tokens numbered from 0: the special ones, those given first, then by frequency (ties in alphabetical order).

    >>> vocabulary = Vocabulary.of([["b", "a", "b"]], max_size=10)
    >>> vocabulary.numbers(["a", "b", "c"])
    [5, 4, 1]
    >>> vocabulary.tokens([4, 5, 1])
    ['b', 'a', '<unk>']
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(
                f"Vocabulary: tokens must begin with {', '.join(SPECIAL)}, got {list(tokens[: len(SPECIAL)])}; "
                "use Vocabulary.of to count them in texts"
            )
        if not all(isinstance(token, str) for token in tokens):
            raise TypeError("Vocabulary: tokens must be strings, got something else among them; a file may be damaged")
        for token in tokens:
            if "\n" in token or "\t" in token:  # outputs are lines, and no line or column of a table holds them
                raise ValueError(
                    f"Vocabulary: a token must not hold a newline or a tab, got {short_repr(token)}; leave it out"
                )
        self._tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(tokens)}
        if len(self._numbers) != len(tokens):
            twice = next(token for token, count in Counter(tokens).items() if count > 1)
            raise ValueError(f"Vocabulary: tokens must differ, got {short_repr(twice)} twice; keep one of them")

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], *, max_size: int, first: Sequence[str] = ()) -> Vocabulary:
        """Makes a vocabulary of the special tokens, `first`, and the most frequent tokens, `max_size` at most."""
        reserved = [*SPECIAL, *first]
        if max_size <= len(reserved):
            raise ValueError(
                f"Vocabulary: max_size must exceed the {len(reserved)} reserved tokens, got {max_size}; give more room"
            )
        counts = Counter(token for text in texts for token in text)
        for token in reserved:
            counts.pop(token, None)
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        return cls([*reserved, *ranked[: max_size - len(reserved)]])

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        """Returns the number of each token, and `UNKNOWN` for tokens that are not in the vocabulary."""
        return list(map(self._numbers.get, tokens, repeat(UNKNOWN)))

    def tokens(self, numbers: Iterable[int]) -> list[str]:
        """Returns the token of each number."""
        return [self._tokens[number] for number in numbers]

    def to_json(self) -> list[str]:
        """Returns the list from which `Vocabulary(...)` makes the same vocabulary."""
        return list(self._tokens)


def split_text(text: str, level: str) -> list[str]:
    """Splits a text into tokens; `join_tokens` gives it back, with single spaces.

    A word may have apostrophes inside. A mark of punctuation is a token of its own; a token that stood right after the
    one before it begins with a joiner.

    >>> split_text("Don't stop, go!", "word")
    ["Don't", 'stop', '￭,', 'go', '￭!']
    >>> split_text("3/4", "char")
    ['3', '/', '4']
    """
    if level == "char":
        return list(text)
    return [
        JOINER * (piece.start() > 0) + (_SIGN if piece.group() == JOINER else piece.group())
        for chunk in text.split()
        for piece in _PIECE.finditer(chunk)
    ]


def join_tokens(tokens: Iterable[str], level: str) -> str:
    """Joins tokens to a text.

    >>> join_tokens(["Don't", "stop", "￭,", "go", "￭!"], "word")
    "Don't stop, go!"
    """
    if level == "char":
        return "".join(tokens)
    text = ""
    for token in tokens:
        space = "" if token.startswith(JOINER) or not text else " "
        word = token.removeprefix(JOINER)
        text += space + (JOINER if word == _SIGN else word)
    return text
