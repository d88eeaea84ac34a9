"""What the parser returns for a sentence, and how it is written: CoNLL-U, or a line of JSON.

In CoNLL-U the columns HEAD and DEPREL are filled in and nothing else changes. Probabilities are added to the column
MISC (`HeadProbability=0.93`); each of several trees is a copy of the sentence with its number and its probability or
score as comments.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from torch import Tensor

from omegamax.data.conllu import ConlluSentence

FORMATS = ("conllu", "json")
_DIGITS = 4


class RankedTree(NamedTuple):
    """One of several trees of a sentence."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]
    probability: float | None  # None where only scores are known
    score: float  # the sum of the scores of its arcs


class Parse(NamedTuple):
    """The tree of a sentence, and what else was asked for."""

    words: tuple[str, ...]
    heads: tuple[int, ...]  # 0 is the root
    relations: tuple[str, ...]
    arcs: Tensor | None  # (N + 1, N + 1): the probability of each arc [head, modifier]
    trees: tuple[RankedTree, ...]  # the most probable or best first
    sentence: ConlluSentence  # as it was read

    def to_conllu(self) -> str:
        """Writes the sentence with its tree, or with each of its trees."""
        if not self.trees:
            return self.sentence.with_tree(self.heads, self.relations, self._misc(self.heads)).text
        texts = []
        for number, tree in enumerate(self.trees, start=1):
            written = self.sentence.with_tree(tree.heads, tree.relations, self._misc(tree.heads))
            known = "score" if tree.probability is None else "probability"
            value = tree.score if tree.probability is None else tree.probability
            text = written.with_comments([f"tree = {number} of {len(self.trees)}", f"{known} = {value:.6g}"]).text
            texts.append(text if text.endswith("\n\n") or number == len(self.trees) else f"{text.rstrip()}\n\n")
        return "".join(texts)

    def to_json(self) -> str:
        """Writes an object on one line: words, heads, relations, and what was asked for."""
        found: dict[str, Any] = {"words": self.words, "heads": self.heads, "relations": self.relations}
        if self.arcs is not None:
            found["head_probabilities"] = [_probable_heads(column) for column in self.arcs.T[1:]]
        if self.trees:
            found["trees"] = [_without_none(tree._asdict()) for tree in self.trees]
        return json.dumps(found, ensure_ascii=False)

    def _misc(self, heads: tuple[int, ...]) -> list[str] | None:
        if self.arcs is None:
            return None
        return [
            f"HeadProbability={float(self.arcs[head, word]):.{_DIGITS}f}" for word, head in enumerate(heads, start=1)
        ]


def _probable_heads(column: Tensor) -> dict[str, float]:
    """Returns the heads of a word with their probabilities, the most probable first, without those of zero."""
    heads = [(value, head) for head, value in enumerate(column.tolist()) if round(value, _DIGITS) > 0]
    return {str(head): round(value, _DIGITS) for value, head in sorted(heads, key=lambda pair: (-pair[0], pair[1]))}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
