"""Pairs of sentences with a label: premise, hypothesis, and whether the first entails the second.

    gold_label<TAB>sentence1<TAB>sentence2          tables with a header, columns in any order, other columns ignored
    {"gold_label": ..., "sentence1": ..., ...}      JSON lines

SNLI and MultiNLI come in both forms. Premise and hypothesis may also be called so, the label also "label". Pairs on
which annotators did not agree (the label "-") are left out and counted. Files may be compressed (.gz, .xz).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.data.printable import short_repr
from omegamax.data.tagged_sentences import from_text, is_json
from omegamax.data.text_files import check_characters, numbered_lines
from omegamax.data.tsv import SPLITS, split_of

MAX_WORDS = 1000  # of a sentence: all pairs of words are compared
MAX_LABELS = 1000
COLUMNS = {
    "premise": ("sentence1", "premise", "text"),
    "hypothesis": ("sentence2", "hypothesis"),
    "label": ("gold_label", "label"),
}
NO_LABEL = ("-", "", "-1", "hidden")  # of SNLI, of copies of it, and of the test data of MultiNLI
_NAMES = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}
_ENDINGS = tuple(f"{kind}{packed}" for kind in (".jsonl", ".tsv", ".txt") for packed in ("", ".gz", ".xz"))


class SentencePair(NamedTuple):
    """Two sentences as words, and their label, which is "" where it is not known.

    Checkpoints hold a checksum of the repr of all pairs, so the class and its fields must keep their names.
    """

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    target: str


class PairFile(NamedTuple):
    """The content of a file."""

    pairs: list[SentencePair]
    n_unlabelled: int  # pairs that were left out because they have no label


def read_pairs(path: str | Path) -> PairFile:
    """Reads the pairs of one file, JSON lines if its name ends in .jsonl, otherwise a table with a header.

    Arguments:
        path: of the file; .gz and .xz are decompressed
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give a table (.tsv, .txt) or JSON lines (.jsonl) of pairs")
    pairs: list[SentencePair] = []
    n_unlabelled = 0
    for number, cells in (_json_rows if is_json(path) else _table_rows)(path):
        if cells["label"] in NO_LABEL:
            n_unlabelled += 1
            continue
        try:
            pairs.append(make_pair(cells["premise"], cells["hypothesis"], cells["label"]))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return PairFile(pairs, n_unlabelled)


def make_pair(premise: str, hypothesis: str, label: str = "") -> SentencePair:
    """Splits two texts into words; raises ValueError for a text without words, or with too many.

    Arguments:
        premise: what is known to be true
        hypothesis: what may follow from it
        label: of the pair; "" if it is not known

    >>> make_pair("Two dogs aren't asleep.", "Dogs play .").premise
    ('Two', 'dogs', 'are', "n't", 'asleep', '.')
    """
    found = []
    for name, text in (("premise", premise), ("hypothesis", hypothesis)):
        words = from_text(text).words
        if not words:
            raise ValueError(f"the {name} has no words, got {short_repr(text)}; fill it in or remove the line")
        if len(words) > MAX_WORDS:
            raise ValueError(f"the {name} must have at most {MAX_WORDS} words, got {len(words)}; shorten it")
        found.append(words)
    return SentencePair(found[0], found[1], label)


def read_pair_splits(data: str | Path) -> tuple[dict[str, list[SentencePair]], dict[str, int]]:
    """Reads the pairs of "train", "dev" and "test"; also returns how many of each split had no label.

    Arguments:
        data: a directory with a file for each split; train, dev and test with commas between them; train and test,
            of which a tenth of the first is for dev; or one file, of which a tenth is for dev and a tenth for test

    Where a file is divided, a hash of the premise decides: pairs with the same premise stay together.
    """
    paths, divided = _files(data)
    read = {path: read_pairs(path) for path in dict.fromkeys(paths.values())}
    found: dict[str, list[SentencePair]] = {}
    for split, path in paths.items():
        content = read[path].pairs
        if split in divided:
            content = [pair for pair in content if _belongs(pair, divided) == split]
        if not content:
            raise ValueError(
                f"{path}: the {split} split has no pairs with a label; add some, or give a file for each of train, dev "
                "and test, with commas between them"
            )
        found[split] = content
    return found, {split: read[path].n_unlabelled for split, path in paths.items()}


def _belongs(pair: SentencePair, divided: Sequence[str]) -> str:
    split = split_of(" ".join(pair.premise))
    return split if split in divided else "train"


def _files(data: str | Path) -> tuple[dict[str, Path], Sequence[str]]:
    """Returns the file of each split, and the splits among which the first file is divided."""
    path = Path(data)
    if path.is_dir():
        return {split: _file_of(path, split) for split in SPLITS}, ()
    parts = [path] if path.is_file() else [Path(part.strip()) for part in str(data).split(",")]
    if len(parts) > len(SPLITS):
        raise ValueError(
            f"{data}: expected one file, or two or three with commas between them, got {len(parts)}; give train, dev "
            "and test, in this order"
        )
    if len(parts) == 1:
        return dict.fromkeys(SPLITS, path), SPLITS
    return dict(zip(SPLITS, parts if len(parts) == 3 else [parts[0], *parts])), SPLITS[:2] if len(parts) == 2 else ()


def _file_of(directory: Path, split: str) -> Path:
    """Returns the file whose name ends with that of the split (train.tsv, snli_1.0_train.jsonl), JSON lines first."""
    names = "|".join(_NAMES[split])
    files = sorted(path for path in directory.iterdir() if path.is_file())
    for ending in _ENDINGS:
        found = [path for path in files if re.fullmatch(rf"(.*[^a-z])?({names}){re.escape(ending)}", path.name.lower())]
        if len(found) > 1:
            raise ValueError(
                f"{directory}: expected one file for {split}, got {', '.join(path.name for path in found)}; give three "
                "files with commas between them"
            )
        if found:
            return found[0]
    raise FileNotFoundError(
        f"{directory}: no file for {split}, such as {split}.tsv or {split}.jsonl; there must be one for each of "
        f"{', '.join(SPLITS)}, or give files with commas between them"
    )


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    places: dict[str, int] | None = None
    width = 0
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if places is None:
            places, width = _header(path, number, cells), len(cells)
        elif len(cells) < width and max(places.values()) >= len(cells):
            raise ValueError(
                f"{path}, line {number}: expected {width} columns separated by tabs, as in the header, got "
                f"{len(cells)}; correct or remove the line"
            )
        else:
            yield number, {name: cells[place] for name, place in places.items()}


def _header(path: Path, number: int, cells: Sequence[str]) -> dict[str, int]:
    lowered = [cell.lower() for cell in cells]
    return {name: lowered.index(_key(path, number, name, lowered)) for name in COLUMNS}


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error}); write one object per line") from None
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, line {number}: expected an object, got {short_repr(row)}; write one object per line"
            )
        yield number, {name: _text(path, number, row, _key(path, number, name, row)) for name in COLUMNS}


def _key(path: Path, number: int, name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    for key in COLUMNS[name]:
        if key in known:
            return key
    raise ValueError(
        f"{path}, line {number}: expected a column {' or '.join(COLUMNS[name])} for the {name}, got "
        f"{short_repr(list(known))}; a table begins with a line of the names of its columns"
    )


def _text(path: Path, number: int, row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"{path}, line {number}: {key} must be a text, got {short_repr(value)}; correct the line")
    check_characters(f"{path}, line {number}", key, str(value))
    return str(value).strip()
