"""The examples of tasks that write a text from a text: as they stand in the data, as tokens, as a batch of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.data.text_tokens import PlainTokens, Subwords, TextTokens
from omegamax.data.vocabulary import PADDING, Vocabulary

SUBWORD = "subword"


class Texts(NamedTuple):
    """A source and a target as they stand in the data."""

    source: str
    target: str
    first: tuple[str, ...] = ()  # tokens before those of the source, whole
    more: tuple[str, ...] = ()  # other targets that are as right


class TextPair(NamedTuple):
    """A source as tokens, and the target text, which is "" where it is not known.

    Checkpoints hold a checksum of the repr of all pairs, so the class and its fields must keep their names.
    """

    source: tuple[str, ...]
    target: str


class TextBatch(NamedTuple):
    """The numbers of the tokens of some pairs."""

    source: Tensor  # (B, K), filled up with PADDING
    lengths: Tensor  # (B,)
    target: Tensor  # (B, T + 1): START, tokens, END, PADDING


def tokens_as_json(tokens: TextTokens) -> Any:
    """Returns the tokens of one side as a checkpoint keeps them: a list, or with sub-words also the merges."""
    content = tokens.to_json()
    return content if "merges" in content else content["vocabulary"]


def restore_side(level: str, content: Any) -> TextTokens:
    """Makes the tokens of one side from a checkpoint."""
    if level == SUBWORD:
        return Subwords(Vocabulary(content["vocabulary"]), content["merges"])
    return PlainTokens(Vocabulary(content), level)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Returns rows of numbers as a matrix, filled up with PADDING."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PADDING] * (longest - len(row))] for row in rows])
