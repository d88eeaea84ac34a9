"""How well heads and relations were found: UAS and LAS as in the CoNLL 2018 shared task, in percent.

    UAS = share of words whose head is right              LAS = ... whose head and relation are right

All words count, punctuation too, and relations are compared up to their colon (`acl:relcl` as `acl`), as the program of
that shared task does. Its words are matched by their characters, because systems cut sentences into words themselves;
ours are the words of the file, so all match, and precision, recall and F1 are one number. Zeman et al., CoNLL 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from omegamax.data.conllu import ConlluSentence

PUNCTUATION = "punct"
_GROUPS = {"one_tree": (1, 1), "2_to_5_trees": (2, 5), "more_trees": (6, None)}


class PredictedTree(NamedTuple):
    """Heads and relations of a sentence, and how many trees SparseMAP kept; 0 if that was not asked."""

    heads: Sequence[int]
    relations: Sequence[str]
    n_trees: int = 0


def attachment_scores(gold: Sequence[ConlluSentence], predicted: Sequence[PredictedTree]) -> dict[str, float]:
    """Computes the scores in percent.

    - `las`, `uas`: of all words;
    - `las_without_punctuation`, `uas_without_punctuation`: of words whose gold relation is not `punct`;
    - `las_with_subtypes`: relations compared as a whole;
    - `exact_heads`, `exact_trees`: sentences whose heads are all right, whose relations are too.

    Arguments:
        gold: annotated sentences
        predicted: a tree for each

    >>> from omegamax.data.treebank import generate_treebank
    >>> sentences = generate_treebank(2, "test")
    >>> right = [PredictedTree(each.heads, each.relations) for each in sentences]
    >>> attachment_scores(sentences, right)["las"]
    100.0
    """
    words, lexical = _Count(), _Count()
    n_exact_heads = n_exact_trees = 0
    for sentence, tree in zip(gold, predicted):
        one = _Count()
        for head, relation, found_head, found_relation in zip(
            sentence.heads or (), sentence.relations, tree.heads, tree.relations
        ):
            one.add(head, relation, found_head, found_relation)
            if universal(relation) != PUNCTUATION:
                lexical.add(head, relation, found_head, found_relation)
        words.add_all(one)
        n_exact_heads += one.heads == one.words
        n_exact_trees += one.labels == one.words
    return {
        "las": words.percent(words.labels),
        "uas": words.percent(words.heads),
        "las_without_punctuation": lexical.percent(lexical.labels),
        "uas_without_punctuation": lexical.percent(lexical.heads),
        "las_with_subtypes": words.percent(words.subtypes),
        "exact_heads": 100 * n_exact_heads / max(1, len(gold)),
        "exact_trees": 100 * n_exact_trees / max(1, len(gold)),
    }


def tree_counts(gold: Sequence[ConlluSentence], predicted: Sequence[PredictedTree]) -> dict[str, float]:
    """Computes how many trees SparseMAP kept, and how accurate sentences with few and with many are.

    - `trees`: mean number of trees; `one_tree`: percent of sentences with a single one;
    - `uas_one_tree`, `uas_2_to_5_trees`, `uas_more_trees`: UAS of those sentences, absent where there are none.

    Arguments:
        gold: annotated sentences
        predicted: a tree for each, with `n_trees`
    """
    counts = [tree.n_trees for tree in predicted]
    n = max(1, len(counts))
    found = {"trees": sum(counts) / n, "one_tree": 100 * sum(count == 1 for count in counts) / n}
    for name, (least, most) in _GROUPS.items():
        there = [least <= count and (most is None or count <= most) for count in counts]
        if any(there):
            part = [list(each) for each in zip(*[pair for pair, kept in zip(zip(gold, predicted), there) if kept])]
            found[f"uas_{name}"] = attachment_scores(part[0], part[1])["uas"]
    return found


def universal(relation: str) -> str:
    """Returns a relation without its subtype.

    >>> universal("acl:relcl")
    'acl'
    """
    return relation.partition(":")[0]


class _Count:
    def __init__(self) -> None:
        self.words = self.heads = self.labels = self.subtypes = 0

    def add(self, head: int, relation: str, found_head: int, found_relation: str) -> None:
        right = head == found_head
        self.words += 1
        self.heads += right
        self.labels += right and universal(relation) == universal(found_relation)
        self.subtypes += right and relation == found_relation

    def add_all(self, other: _Count) -> None:
        self.words += other.words
        self.heads += other.heads
        self.labels += other.labels
        self.subtypes += other.subtypes

    def percent(self, count: int) -> float:
        return 100 * count / max(1, self.words)
