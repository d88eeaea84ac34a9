"""Pairs of texts from files: two columns of a table, two fields of JSON lines, or two files whose lines are aligned.

    en-de.train.tsv.xz          a table; source and target are columns, counted from 1
    corpus.train.en, .train.de  aligned files; source and target are their endings
    train.jsonl                 JSON objects; source and target are names of fields, source.0 the first item of a list

The order of source and target is the direction. A data set is divided as in text_files.py: a directory, a common
beginning of names, or a single file (or two aligned ones), where a hash of the source text decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.data.printable import short_repr
from omegamax.data.text_files import check_characters, divided_files, packed_file, read_lines
from omegamax.data.tsv import SPLITS, split_of

_JSON, _TABLE = ".jsonl", ".tsv"


class PairOfTexts(NamedTuple):
    """A source and the texts that are right for it: one, or several where there are several references."""

    source: str
    targets: tuple[str, ...]
    sentences: tuple[str, ...] = ()  # of the source, where a list of them was read


def read_text_pairs(path: str | Path, source: str, target: str) -> dict[str, list[PairOfTexts]]:
    """Reads the pairs of "train", "dev" and "test", in the order of the files.

    Arguments:
        path: a file, a directory, or the common beginning of several files
        source: a column of a table, counted from 1; the ending of a file; or a field of JSON lines
        target: the same, of the texts to write
    """
    path = Path(path)
    if source == target:
        raise ValueError(f"{path}: source and target must differ, got {source!r} twice; change --source or --target")
    columns = source.isdecimal() and target.isdecimal()
    if columns and min(int(source), int(target)) < 1:
        raise ValueError(f"{path}: columns are counted from 1, got {source} and {target}; change --source or --target")
    aligned = not columns and _has_aligned_files(path, source)
    if aligned:
        found = _read_aligned(path, source, target)
    else:
        found = _read_divided(path, source, target, _TABLE if columns else _JSON)
    for split, pairs in found.items():
        if not pairs:
            raise ValueError(f"{path}: the {split} split is empty; add lines, or give files for train, dev and test")
    return found


def _read_divided(path: Path, source: str, target: str, kind: str) -> dict[str, list[PairOfTexts]]:
    files = divided_files(path, [kind])
    if files is not None:
        return {split: list(_read_file(file, source, target, kind)) for split, file in files.items()}
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file or directory; give a file, a directory with train{kind}, dev{kind} and test{kind}, "
            f"or aligned files such as {path.name}.en and {path.name}.de (--source en --target de)"
        )
    return _divide(_read_file(path, source, target, kind))


def _read_file(path: Path, source: str, target: str, kind: str) -> Iterator[PairOfTexts]:
    if kind == _JSON:
        return _json_pairs(path, source, target)
    return _pairs(str(path), read_lines(path, int(source)), read_lines(path, int(target)))


def _divide(pairs: Iterator[PairOfTexts]) -> dict[str, list[PairOfTexts]]:
    found: dict[str, list[PairOfTexts]] = {split: [] for split in SPLITS}
    for pair in pairs:
        found[split_of(pair.source)].append(pair)
    return found


def _has_aligned_files(path: Path, ending: str) -> bool:
    if path.is_dir():
        return packed_file(path / SPLITS[0], [f".{ending}"]) is not None
    names = (path, path.with_name(f"{path.name}.{SPLITS[0]}"))
    return bool(path.name) and any(packed_file(name, [f".{ending}"]) is not None for name in names)


def _read_aligned(path: Path, source: str, target: str) -> dict[str, list[PairOfTexts]]:
    sides = [divided_files(path, [f".{ending}"]) for ending in (source, target)]
    if sides[0] is not None and sides[1] is not None:
        return {split: list(_aligned_pairs(sides[0][split], sides[1][split])) for split in SPLITS}
    files = [packed_file(path, [f".{ending}"]) for ending in (source, target)]
    if files[0] is None or files[1] is None:
        missing = target if sides[1] is None and files[1] is None else source
        raise FileNotFoundError(f"{path}: there is no file that ends with .{missing} beside the other; add it")
    return _divide(_aligned_pairs(files[0], files[1]))


def _aligned_pairs(source: Path, target: Path) -> Iterator[PairOfTexts]:
    return _pairs(f"{source} and {target}", read_lines(source), read_lines(target))


def _pairs(where: str, sources: Iterator[str], targets: Iterator[str]) -> Iterator[PairOfTexts]:
    """Pairs two columns; a row whose two texts are blank is skipped."""
    for number, source in enumerate(sources, start=1):
        target = next(targets, None)
        if target is None:
            n_more = sum(1 for _ in sources) + 1
            raise ValueError(f"{where}: the source has {n_more} more lines than the target; align the files")
        if source.strip() or target.strip():
            yield _checked(f"{where}, row {number}", source, (target,))
    n_more = sum(1 for _ in targets)
    if n_more:
        raise ValueError(f"{where}: the target has {n_more} more lines than the source; align the files")


def _checked(where: str, source: str, targets: tuple[str, ...], sentences: tuple[str, ...] = ()) -> PairOfTexts:
    source, targets = " ".join(source.split()), tuple(" ".join(target.split()) for target in targets)
    for name, text in (("source", source), *(("target", target) for target in targets)):
        if not text:
            raise ValueError(f"{where}: the {name} is empty; fill it in or remove the line")
        check_characters(where, name, text)
    return PairOfTexts(source, targets, tuple(" ".join(each.split()) for each in sentences if each.strip()))


def _json_pairs(path: Path, source: str, target: str) -> Iterator[PairOfTexts]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(
                f"{where}: expected a JSON object, got {short_repr(line[:80])}; correct the line"
            ) from None
        from_source = _texts(where, content, source)
        yield _checked(where, " ".join(from_source), _texts(where, content, target), from_source)


def _texts(where: str, content: Any, name: str) -> tuple[str, ...]:
    """Returns a field as texts: that of a string, or all of a list; `name.0` is the first of a list."""
    found = content
    for part in name.split("."):
        if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            has = f"the fields {', '.join(map(str, content))}" if isinstance(content, dict) else short_repr(content)
            raise ValueError(f"{where}: there is no field {name}, got {has}; choose it with --source or --target")
    texts = found if isinstance(found, list) else [found]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{where}: {name} must be a text or a list of texts, got {short_repr(found)}; correct the line"
        )
    return tuple(texts)
