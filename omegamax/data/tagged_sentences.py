"""Sentences with entities: the form in which taggers have them, whatever file they come from.

A data set is a directory with train, dev and test; three files, separated by commas; or one file, of which a hash of
the words gives eight tenths to train, one to dev and one to test. Files are columns (conll.py) or JSON lines
(span_lines.py), plain or compressed (.gz, .xz).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from omegamax.data.tsv import SPLITS, split_of

MAX_WORDS = 20_000  # of a sentence
_ENDINGS = (".gz", ".xz")
_JSON = (".jsonl", ".ndjson", ".json")
_NAMES = {"train": ("train",), "dev": ("dev", "devel", "valid", "validation", "testa"), "test": ("test", "testb")}
_TOKEN = re.compile(
    r"https?://\S+|www\.\S+"  # addresses
    r"|[@#]\w+"  # handles and hashtags
    r"|\d+(?:[.,:/]\d+)*"  # numbers, times, dates
    r"|\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b"  # do n't, it 's
    r"|\w+(?:-\w+)*"
    r"|\.{2,}|[^\w\s]",
    re.IGNORECASE,
)


class TaggedSentence(NamedTuple):
    """A sentence and its entities. Checkpoints hold a checksum of the repr of all sentences: keep names and order."""

    words: tuple[str, ...]
    spans: tuple[tuple[int, int, str], ...]  # (first word, word after the last, type); none where they are not known
    offsets: tuple[tuple[int, int], ...]  # where each word begins and ends in the text
    text: str
    tags: tuple[str, ...] = ()  # as the file has them; none for JSON lines with character spans
    line: int = 0  # of the file, where the sentence begins


def from_words(
    words: tuple[str, ...], spans: tuple[tuple[int, int, str], ...] = (), tags: tuple[str, ...] = (), line: int = 0
) -> TaggedSentence:
    """Makes a sentence of words, with a space between each two."""
    offsets, place = [], 0
    for word in words:
        offsets.append((place, place + len(word)))
        place += len(word) + 1
    return TaggedSentence(words, spans, tuple(offsets), " ".join(words), tags, line)


def from_text(text: str) -> TaggedSentence:
    """Makes a sentence of a text: finds its words and where they are.

    >>> from_text("Don't call @anna, it's 5.30!").words
    ('Do', "n't", 'call', '@anna', ',', 'it', "'s", '5.30', '!')
    """
    found = [(match.group(), match.span()) for match in _TOKEN.finditer(text)]
    return TaggedSentence(tuple(word for word, _ in found), (), tuple(place for _, place in found), text)


def is_json(path: Path) -> bool:
    """Returns whether the name of a file, without .gz or .xz, ends as JSON lines do."""
    return (path.with_suffix("") if path.suffix in _ENDINGS else path).suffix in _JSON


def split_files(data: str | Path) -> dict[str, Path]:
    """Returns the files of "train", "dev" and "test", the same three times if there is one file that is divided."""
    named = [Path(part.strip()) for part in str(data).split(",")]
    if len(named) == len(SPLITS) and not Path(data).exists():
        for path in named:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file; give files for train, dev and test, in this order")
        return dict(zip(SPLITS, named))
    path = Path(data)
    if path.is_dir():
        return {split: _file_of(path, split) for split in SPLITS}
    if path.is_file():
        return dict.fromkeys(SPLITS, path)
    raise FileNotFoundError(
        f"{path}: no such file or directory; give a directory with train, dev and test, three files with commas "
        "between them, or one file"
    )


def read_splits(data: str | Path, read: Callable[[Path], Iterator[TaggedSentence]]) -> dict[str, list[TaggedSentence]]:
    """Reads the sentences of "train", "dev" and "test".

    Arguments:
        data: a directory, three files with commas between them, or one file
        read: reads the sentences of a file
    """
    files = split_files(data)
    if len(set(files.values())) == 1:
        found: dict[str, list[TaggedSentence]] = {split: [] for split in SPLITS}
        for sentence in read(files["train"]):
            found[split_of(sentence.text)].append(sentence)
    else:
        found = {split: list(read(file)) for split, file in files.items()}
    for split, sentences in found.items():
        if not sentences:
            raise ValueError(
                f"{files[split]}: expected sentences for the split {split}, got none; add some, or give a directory "
                "with a file for each of train, dev and test"
            )
    return found


def check_length(path: Path, line: int, n_words: int) -> None:
    """Raises ValueError for a sentence that has more words than MAX_WORDS."""
    if n_words > MAX_WORDS:
        raise ValueError(
            f"{path}, line {line}: expected a sentence of at most {MAX_WORDS} words, got more; blank lines between "
            "sentences may be missing"
        )


def _file_of(directory: Path, split: str) -> Path:
    """Returns the only file whose name, up to the first dot, is that of the split."""
    names = sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))
    for name in _NAMES[split]:
        found = [path for path in names if path.name.split(".")[0].lower() == name]
        if len(found) > 1:
            raise ValueError(
                f"{directory}: expected one file for {split}, got {', '.join(path.name for path in found)}; give three "
                "files with commas between them"
            )
        if found:
            return found[0]
    raise FileNotFoundError(
        f"{directory}: no file for {split}; there must be one for each of {', '.join(SPLITS)}, such as {split}.conll"
    )
