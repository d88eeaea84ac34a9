"""Tables of tab-separated text, plain or compressed (.gz, .xz).

A table is one file, which is divided into splits; a directory with train.tsv, dev.tsv and test.tsv; or the common
beginning of such names, as `en-de` for en-de.train.tsv, en-de.dev.tsv and en-de.test.tsv. Every error names the file,
the line and what to do.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from omegamax.data.files import read_regular_file

SPLITS = ("train", "dev", "test")
_ENDINGS = ("", ".gz", ".xz")
_OF_TEN = {0: "dev", 1: "test"}  # of ten equal parts, one each; eight are for training

MAX_BYTES = 1 << 30  # of a file, also once decompressed: it is read whole
MAX_LINE = 1_000_000  # characters

Row = tuple[str, ...]


def read_splits(
    path: str | Path, columns: Sequence[str], check: Callable[[Row], None] | None = None
) -> dict[str, list[Row]]:
    """Reads the rows of "train", "dev" and "test", in the order of the file.

    `check` raises a ValueError for a row that means nothing; the file and the line are added to its message.
    If there is a single file, a hash of all columns but the last (the target) decides to which split a row belongs. So
    it is the same on every machine, whatever else the file holds, and equal inputs are always in the same split.
    """
    path = Path(path)
    divided = path.is_dir() or _file_with_prefix(path, SPLITS[0]) is not None
    if divided:
        found = {split: read_rows(_find_file(path, split), columns, check) for split in SPLITS}
    elif path.exists():
        found = {split: [] for split in SPLITS}
        for row in read_rows(path, columns, check):
            found[split_of("\t".join(row[:-1]))].append(row)
    else:
        raise FileNotFoundError(
            f"{path}: no such file or directory; give a .tsv file, or a directory with train.tsv, dev.tsv and test.tsv"
        )
    for split, rows in found.items():
        if not rows:
            why = "its file has no rows" if divided else "none of the rows of the file fell to it"
            if not any(found.values()):
                why = "there are no rows at all"
            raise ValueError(
                f"{path}: the {split} split is empty, because {why}; "
                "add rows, or give a directory with train.tsv, dev.tsv and test.tsv"
            )
    return found


def split_of(key: str) -> str:
    """Returns the split of a key by its hash: "train" for eight keys in ten, "dev" and "test" for one each."""
    part = hashlib.sha256(key.encode()).digest()[0] * 10 // 256
    return _OF_TEN.get(part, "train")


def read_rows(path: str | Path, columns: Sequence[str], check: Callable[[Row], None] | None = None) -> list[Row]:
    """Reads the rows of one file, each with these columns; skips blank lines."""
    path = Path(path)
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        if len(line) > MAX_LINE:
            raise ValueError(
                f"{path}, line {number}: expected at most {MAX_LINE} characters, got {len(line)}; shorten or remove it"
            )
        cells = tuple(cell.strip() for cell in line.split("\t"))
        if len(cells) != len(columns):
            raise ValueError(
                f"{path}, line {number}: expected {len(columns)} columns separated by tabs ({', '.join(columns)}), "
                f"got {len(cells)}; correct or remove the line"
            )
        if not all(cells):
            empty = columns[cells.index("")]
            raise ValueError(f"{path}, line {number}: the column {empty} is empty; fill it in or remove the line")
        if check is not None:
            try:
                check(cells)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
        rows.append(cells)
    return rows


def _find_file(path: Path, split: str) -> Path:
    """Returns the file of a split in a directory, or among files whose names begin with the path."""
    found = (
        _first_file(path / f"{split}.tsv{ending}" for ending in _ENDINGS)
        if path.is_dir()
        else _file_with_prefix(path, split)
    )
    if found is None:
        raise FileNotFoundError(
            f"{path}: no {split}.tsv, {split}.tsv.gz or {split}.tsv.xz; there must be train.tsv, dev.tsv and test.tsv, "
            "or give a single file, which is then divided"
        )
    return found


def _file_with_prefix(path: Path, split: str) -> Path | None:
    return _first_file(path.with_name(f"{path.name}.{split}.tsv{ending}") for ending in _ENDINGS) if path.name else None


def _first_file(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def read_text(path: Path) -> str:
    """Reads a whole file in UTF-8, also compressed (.gz, .xz); ValueError with file and line if it is not."""
    try:
        data = _decompressed(path, read_regular_file(path, MAX_BYTES))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file; check the path") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path}: not a whole {path.suffix} file ({error}); compress it again") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {number}: not UTF-8 (byte 0x{data[error.start]:02x}); convert the file to UTF-8"
        ) from None


def _decompressed(path: Path, data: bytes) -> bytes:
    """Decompresses the content of a file, up to a limit: a few bytes may stand for more than memory holds."""
    if path.suffix not in (".gz", ".xz"):
        return data
    with (gzip if path.suffix == ".gz" else lzma).open(io.BytesIO(data)) as file:
        parts, length = [], 0
        while part := file.read(1 << 20):
            parts.append(part)
            length += len(part)
            if length > MAX_BYTES:
                raise ValueError(
                    f"{path}: expected at most {MAX_BYTES >> 20} MiB once decompressed, got more; divide the file"
                )
    return b"".join(parts)
