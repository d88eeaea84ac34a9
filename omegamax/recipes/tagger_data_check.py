"""Looks for mistakes in the data of a tagger: wrong tags, rare and unseen types, sentences in two splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from omegamax.data.data_report import DataReport
from omegamax.data.printable import short_repr
from omegamax.data.tag_schemes import detect_scheme, invalid_places
from omegamax.data.tagged_sentences import TaggedSentence, split_files
from omegamax.recipes.settings import TaggerSettings
from omegamax.recipes.tagger import read_tagged

_RARE = 5  # entities of a type in training, below which a model learns little of it
_NAMED = 5  # lines or types that a warning names


def check_tagger_data(settings: TaggerSettings) -> DataReport:
    """Counts sentences, words and entities by split, and lists what may be wrong.

    Arguments:
        settings: of a tagger, with data
    """
    splits = read_tagged(settings)
    files = {split: str(path) for split, path in split_files(settings.data or "").items()}
    schemes = {split: detect_scheme(each.tags for each in sentences) for split, sentences in splits.items()}
    types = {
        split: Counter(kind for each in sentences for *_, kind in each.spans) for split, sentences in splits.items()
    }
    warnings = []
    for split, sentences in splits.items():
        warnings += _invalid_tags(files[split], sentences, schemes[split])
    if any(each.tags for sentences in splits.values() for each in sentences) and len(set(schemes.values())) > 1:
        named = ", ".join(f"{split} {scheme}" for split, scheme in schemes.items())
        warnings.append(f"the splits follow different schemes ({named}); each is read by its own")
    warnings += _types(types)
    shared = _shared(splits)
    for (first, second), several in shared.items():
        warnings.append(
            f"{len(several)} different sentences are in both {first} and {second}, such as {short_repr(several[0])}; "
            "a score on them says nothing about new ones"
        )
    counts = {split: _counts(sentences, splits["train"]) for split, sentences in splits.items()}
    facts = {
        "scheme": schemes["train"],
        "types": {split: dict(sorted(found.items())) for split, found in types.items()},
        "shared_sentences": {f"{first} and {second}": len(several) for (first, second), several in shared.items()},
    }
    return DataReport(counts, warnings, facts)


def _counts(sentences: Sequence[TaggedSentence], train: Sequence[TaggedSentence]) -> dict[str, float]:
    known = {word for sentence in train for word in sentence.words}
    words = [word for sentence in sentences for word in sentence.words]
    entities = [(sentence, span) for sentence in sentences for span in sentence.spans]
    return {
        "sentences": len(sentences),
        "words": len(words),
        "longest sentence": max((len(sentence.words) for sentence in sentences), default=0),
        "entities": len(entities),
        "longest entity": max((end - start for _, (start, end, _) in entities), default=0),
        "words not in train": sum(word not in known for word in words) / max(1, len(words)),
    }


def _invalid_tags(file: str, sentences: Iterable[TaggedSentence], scheme: str) -> list[str]:
    lines = [sentence.line + place for sentence in sentences for place in invalid_places(sentence.tags, scheme)]
    if not lines:
        return []
    named = ", ".join(map(str, lines[:_NAMED])) + (" ..." if len(lines) > _NAMED else "")
    return [
        f"{file}: {len(lines)} tags cannot follow the ones before them in {scheme} (lines {named}); they are read as "
        "the CoNLL evaluation does: a tag that continues nothing begins an entity"
    ]


def _types(types: dict[str, Counter[str]]) -> list[str]:
    warnings = []
    rare = sorted(kind for kind, count in types["train"].items() if count < _RARE)
    if rare:
        warnings.append(f"{_some(rare)} in train less than {_RARE} times; a model will hardly find them")
    for split in ("dev", "test"):
        unseen = sorted(set(types[split]) - set(types["train"]))
        if unseen:
            count = sum(types[split][kind] for kind in unseen)
            warnings.append(f"{_some(unseen)} in {split} but never in train; all {count} will count as missed")
        missing = sorted(set(types["train"]) - set(types[split]))
        if missing:
            warnings.append(f"{_some(missing)} in train but never in {split}; nothing will measure them there")
    return warnings


def _some(kinds: Sequence[str]) -> str:
    named = ", ".join(kinds[:_NAMED]) + (" ..." if len(kinds) > _NAMED else "")
    return f"the type {named} is" if len(kinds) == 1 else f"the types {named} are"


def _shared(splits: dict[str, list[TaggedSentence]]) -> dict[tuple[str, str], list[str]]:
    """Returns the sentences that are in two splits, in order."""
    texts = {split: dict.fromkeys(" ".join(each.words) for each in sentences) for split, sentences in splits.items()}
    pairs = [("train", "dev"), ("train", "test"), ("dev", "test")]
    found = {pair: [text for text in texts[pair[0]] if text in texts[pair[1]]] for pair in pairs}
    return {pair: several for pair, several in found.items() if several}
