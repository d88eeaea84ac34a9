"""Looks for mistakes in a treebank: broken trees, relations that training never shows, sentences in two splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from omegamax.data.conllu import MAX_WORDS, ConlluSentence, read_conllu
from omegamax.data.data_report import DataReport
from omegamax.data.dependency_checks import is_projective, tree_problem
from omegamax.data.printable import short_repr
from omegamax.data.treebank_files import treebank_files
from omegamax.data.tsv import split_of
from omegamax.recipes.settings import ParserSettings

_RARE = 5  # words of a relation in training, below which a model learns little of it
_NAMED = 5  # mistakes or relations that are named; the rest is counted
_KINDS = {
    "two roots": "sentences with two roots",
    "cycle": "sentences with a cycle",
    "no head": "sentences without heads",
}


def check_parser_data(settings: ParserSettings) -> DataReport:
    """Counts sentences, words and broken trees by split, and lists what may be wrong.

    Arguments:
        settings: of a parser, with data
    """
    warnings: list[str] = []
    splits = _read(settings.data or "", warnings)
    train = splits.get("train", [])
    relations = {split: Counter(name for s in found for name in s.relations) for split, found in splits.items()}
    counts = {split: _counts(found, train) for split, found in splits.items()}
    for split, found in splits.items():
        warnings += _broken_trees(split, found)
        too_long = [s.line for s in found if len(s.forms) > MAX_WORDS]
        if too_long:
            warnings.append(f"{split}, line {too_long[0]}: a sentence has more than {MAX_WORDS} words; divide it")
    warnings += _relations(relations)
    shared = _shared(splits)
    for (first, second), texts in shared.items():
        warnings.append(
            f"{len(texts)} different sentences are in both {first} and {second}, such as {short_repr(texts[0])}; "
            "a score on them says nothing about new ones"
        )
    facts: dict[str, Any] = {
        "relations": {split: dict(sorted(found.items())) for split, found in relations.items()},
        "shared_sentences": {f"{first} and {second}": len(texts) for (first, second), texts in shared.items()},
    }
    return DataReport(counts, warnings, facts)


def _read(path: str, warnings: list[str]) -> dict[str, list[ConlluSentence]]:
    """Reads all sentences that can be read; the first mistakes become warnings, the others are counted."""
    mistakes: list[str] = []

    def sentences(file: Any) -> list[ConlluSentence]:
        found = read_conllu(file, on_error=mistakes.append, check_trees=False)
        if not found:
            mistakes.append(f"{file}: expected sentences, got none; check the path")
        return found

    files = treebank_files(path)
    if isinstance(files, Mapping):
        splits = {split: sentences(file) for split, file in files.items()}
    else:
        splits = {"train": [], "dev": [], "test": []}
        for sentence in sentences(files):
            splits[split_of(" ".join(sentence.forms))].append(sentence)
    warnings += [mistake.rstrip(".") for mistake in mistakes[:_NAMED]]
    if len(mistakes) > _NAMED:
        warnings.append(f"{len(mistakes) - _NAMED} more sentences cannot be read; correct the ones above first")
    return splits


def _counts(sentences: Sequence[ConlluSentence], train: Sequence[ConlluSentence]) -> dict[str, float]:
    known = {word for sentence in train for word in sentence.forms}
    words = [word for sentence in sentences for word in sentence.forms]
    kinds = Counter(_kind(sentence) for sentence in sentences)
    trees = [sentence.heads for sentence in sentences if _kind(sentence) == "tree" and sentence.heads is not None]
    return {
        "sentences": len(sentences),
        "words": len(words),
        "longest sentence": max((len(sentence.forms) for sentence in sentences), default=0),
        "relations": len({name for sentence in sentences for name in sentence.relations}),
        "crossing arcs (share of sentences)": sum(not is_projective(heads) for heads in trees) / max(1, len(trees)),
        **{name: kinds[kind] for kind, name in _KINDS.items()},
        "words not in train (share)": sum(word not in known for word in words) / max(1, len(words)),
    }


def _kind(sentence: ConlluSentence) -> str:
    if sentence.heads is None:
        return "no head"
    problem = tree_problem(sentence.heads)
    return "tree" if problem is None else problem.kind


def _broken_trees(split: str, sentences: Sequence[ConlluSentence]) -> list[str]:
    warnings = []
    for kind, name in _KINDS.items():
        lines = [sentence.line for sentence in sentences if _kind(sentence) == kind]
        if lines:
            named = ", ".join(map(str, lines[:_NAMED])) + (" ..." if len(lines) > _NAMED else "")
            warnings.append(
                f"{split}: {len(lines)} {name} (lines {named}); training refuses them, correct or remove them"
            )
    return warnings


def _relations(relations: Mapping[str, Counter[str]]) -> list[str]:
    warnings = []
    train = relations.get("train", Counter())
    for split, found in relations.items():
        unseen = sorted(name for name in found if name not in train)
        if unseen and train:
            n_words = sum(found[name] for name in unseen)
            warnings.append(
                f"{split}: training has no relation {_listed(unseen)}; the parser will never write it ({n_words} words)"
            )
    rare = sorted((name for name, count in train.items() if count < _RARE), key=lambda name: (train[name], name))
    if rare:
        warnings.append(
            f"train: fewer than {_RARE} words have the relation {_listed(rare)}; little will be learned of it"
        )
    return warnings


def _shared(splits: Mapping[str, Sequence[ConlluSentence]]) -> dict[tuple[str, str], list[str]]:
    """Returns sentences of at least four words that are in two splits: shorter ones occur by chance."""
    texts = {
        split: {" ".join(sentence.forms) for sentence in found if len(sentence.forms) > 3}
        for split, found in splits.items()
    }
    found = {(first, second): sorted(texts[first] & texts[second]) for first, second in combinations(texts, 2)}
    return {pair: both for pair, both in found.items() if both}


def _listed(names: Sequence[str]) -> str:
    shown = " or ".join(map(short_repr, names[:_NAMED]))
    return shown if len(names) <= _NAMED else f"{shown} or {len(names) - _NAMED} more"
