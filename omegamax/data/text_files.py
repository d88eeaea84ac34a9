"""Running text from files: plain text or one column of a table, also compressed (.gz, .xz), read line by line.

A data set is one file, a directory with train, dev and test (`train.txt`, `dev.tsv.xz`, ...), or files with a common
beginning (`en-de` for en-de.train.tsv, ...). Of a single plain text the first eight tenths of the lines are for
training, then a tenth for dev and a tenth for test, so that neighbours stay together. The rows of a single table are
independent of each other, so a hash of the row decides, as in tsv.py.
"""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from omegamax.data.tsv import MAX_LINE, SPLITS, split_of

PACKED = ("", ".gz", ".xz")  # endings of a file: as it is, or compressed
_KINDS = (".txt", ".tsv")
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_MAX_BYTES = 1 << 32  # of a file, once decompressed
_LINE_BYTES = 4 * MAX_LINE  # a character of UTF-8 has at most four

_HALF = re.compile("[\ud800-\udfff]")
Lines = Callable[[], Iterator[str]]  # reads the text from its beginning, each time it is called


def check_characters(where: str, name: str, text: str) -> None:
    """Raises ValueError for a text with half of a surrogate pair, which JSON can hold, and UTF-8 cannot."""
    if _HALF.search(text):
        raise ValueError(f"{where}: the {name} has half of a surrogate pair, which is no character; correct it")


def text_splits(path: str | Path, column: int = 0) -> dict[str, Lines]:
    """Finds the lines of "train", "dev" and "test".

    Arguments:
        path: a file, a directory, or the common beginning of three files
        column: of a table, counted from 1; 0 takes whole lines
    """
    path = Path(path)
    files = divided_files(path, _KINDS)
    if files is not None:
        found: dict[str, Lines] = {split: partial(read_lines, file, column) for split, file in files.items()}
    elif path.is_file():
        found = _divided_rows(path, column) if column else _divided_text(path)
    else:
        raise FileNotFoundError(
            f"{path}: no such file or directory; give a text file, or a directory with train.txt, dev.txt and test.txt"
        )
    for split, lines in found.items():
        if next(lines(), None) is None:
            raise ValueError(
                f"{path}: the {split} split has no lines; add some, or give a directory with train.txt, dev.txt and "
                "test.txt"
            )
    return found


def read_lines(path: Path, column: int = 0) -> Iterator[str]:
    """Reads a file line by line, or a column of a table; a tab becomes a space, blank rows of a table are skipped."""
    for number, line in numbered_lines(path):
        if not column:
            yield line.replace("\t", " ")
        elif line.strip():
            yield _cell(path, number, line, column)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Reads the lines of a file with their numbers, counted from 1."""
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield from _numbered(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: not a whole {path.suffix} file ({error}); compress it again") from None


def _numbered(path: Path, file: IO[bytes]) -> Iterator[tuple[int, str]]:
    number = size = 0
    while raw := file.readline(_LINE_BYTES + 1):
        number += 1
        size += len(raw)
        if len(raw) > _LINE_BYTES:
            raise ValueError(f"{path}, line {number}: expected at most {_LINE_BYTES} bytes, got more; shorten the line")
        if size > _MAX_BYTES:
            raise ValueError(f"{path}: expected at most {_MAX_BYTES >> 30} GiB of text, got more; divide the file")
        try:
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x}); convert the file to UTF-8"
            ) from None


def _cell(path: Path, number: int, line: str, column: int) -> str:
    cells = line.split("\t")
    if len(cells) < column:
        raise ValueError(
            f"{path}, line {number}: expected at least {column} columns separated by tabs, got {len(cells)}; "
            "correct the line, or choose another column"
        )
    return cells[column - 1].strip()


def divided_files(path: Path, kinds: Sequence[str]) -> dict[str, Path] | None:
    """Returns the files of the three splits; None if the path is a single file or nothing.

    Arguments:
        path: a directory with train, dev and test, or the common beginning of their names
        kinds: endings that a file may have, such as .txt; it may be compressed, .txt.gz
    """
    if not path.is_dir() and not (path.name and _file_of(path, SPLITS[0], kinds)):
        return None
    files = {split: _file_of(path, split, kinds) for split in SPLITS}
    for split, file in files.items():
        if file is None:
            raise FileNotFoundError(
                f"{path}: no {' or '.join(f'{split}{kind}' for kind in kinds)}, also with .gz or .xz; there must be a "
                f"file for each of {', '.join(SPLITS)}, or give a single file, which is then divided"
            )
    return {split: file for split, file in files.items() if file is not None}


def _file_of(path: Path, split: str, kinds: Sequence[str]) -> Path | None:
    name = path / split if path.is_dir() else path.with_name(f"{path.name}.{split}")
    return packed_file(name, kinds)


def packed_file(path: Path, kinds: Sequence[str]) -> Path | None:
    """Returns the file at a path with one of the endings `kinds`, plain or compressed; None if there is none."""
    endings = [f"{kind}{packed}" for kind in kinds for packed in PACKED]
    return next(
        (each for each in (path.with_name(f"{path.name}{ending}") for ending in endings) if each.is_file()), None
    )


def _divided_rows(path: Path, column: int) -> dict[str, Lines]:
    def lines(split: str) -> Iterator[str]:
        return (line for line in read_lines(path, column) if split_of(line) == split)

    return {split: partial(lines, split) for split in SPLITS}


def _divided_text(path: Path) -> dict[str, Lines]:
    n_lines = sum(1 for _ in read_lines(path))
    tenth = max(1, n_lines // 10)
    ends = {"train": n_lines - 2 * tenth, "dev": n_lines - tenth, "test": n_lines}

    def lines(split: str) -> Iterator[str]:
        begin = {"train": 0, "dev": ends["train"], "test": ends["dev"]}[split]
        for number, line in enumerate(read_lines(path)):
            if number >= ends[split]:
                return
            if number >= begin:
                yield line

    return {split: partial(lines, split) for split in SPLITS}
