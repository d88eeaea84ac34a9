"""Column files, as those of the CoNLL shared tasks: a word and its tags in a row, blank lines between sentences.

    EU      NNP  B-NP  B-ORG
    rejects VBZ  B-VP  O

Columns are separated by tabs, or by spaces where a row has no tab. Lines with -DOCSTART- and comments are skipped. Tags
may follow IOB1, IOB2, BIOES or BILOU. Every error names the file, the line and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from omegamax.data.printable import short_repr
from omegamax.data.tag_schemes import split_tag
from omegamax.data.tagged_sentences import MAX_WORDS, TaggedSentence, check_length, from_words
from omegamax.data.text_files import numbered_lines
from omegamax.spans.reading import read_spans

_DOCUMENT = "-DOCSTART-"

Row = tuple[int, list[str]]  # the number of a line, and its cells


def read_conll(path: str | Path, *, word_column: int = 1, tag_column: int = 0) -> Iterator[TaggedSentence]:
    """Reads the sentences of a column file, each when it is asked for.

    Arguments:
        path: of the file, plain or with .gz or .xz
        word_column: which column holds the words, counted from 1
        tag_column: which column holds the tags, counted from 1; 0 takes the last one
    """
    path = Path(path)
    for rows in sentences_of_rows(path, numbered_lines(path)):
        n_columns = len(rows[0][1])
        most = max(word_column, tag_column, 2 if tag_column == 0 else 1)
        if n_columns < most:
            raise ValueError(
                f"{path}, line {rows[0][0]}: expected at least {most} columns, got {n_columns}; separate columns by "
                "tabs or spaces, or choose others with --word-column and --tag-column"
            )
        words = tuple(cells[word_column - 1] for _, cells in rows)
        tags = tuple(_checked_tag(path, number, cells[tag_column - 1]) for number, cells in rows)
        yield from_words(words, tuple(read_spans(tags)), tags, rows[0][0])


def read_words(lines: Iterable[str], *, word_column: int = 1) -> Iterator[TaggedSentence]:
    """Reads sentences of a column file without tags, or whose tags do not matter.

    Arguments:
        lines: of the file
        word_column: which column holds the words, counted from 1
    """
    source = Path("the input")
    for rows in sentences_of_rows(source, enumerate(lines, start=1)):
        if len(rows[0][1]) < word_column:
            raise ValueError(
                f"line {rows[0][0]}: expected at least {word_column} columns, got {len(rows[0][1])}; correct the line"
            )
        yield from_words(tuple(cells[word_column - 1] for _, cells in rows), line=rows[0][0])


def sentences_of_rows(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[list[Row]]:
    """Groups numbered lines into sentences: rows that all have as many columns as the first row of the file."""
    rows: list[Row] = []
    first: tuple[int, int] | None = None  # the first row's number of columns, and its line
    for number, line in lines:
        if not line.strip():
            if rows:
                yield rows
                rows = []
            continue
        cells = _cells(line)
        if _is_comment(line, cells, None if first is None else first[0], inside=bool(rows)):
            continue
        if cells[0] == _DOCUMENT:
            continue
        if first is None:
            first = len(cells), number
        if len(cells) != first[0]:
            raise ValueError(
                f"{path}, line {number}: expected {first[0]} columns as in line {first[1]}, got {len(cells)}; correct "
                "or remove the line"
            )
        rows.append((number, cells))
        if len(rows) > MAX_WORDS:
            check_length(path, rows[0][0], len(rows))
    if rows:
        yield rows


def write_conll(words: Sequence[str], tags: Sequence[str]) -> str:
    """Returns the rows of a sentence: words and tags with a tab between them.

    >>> write_conll(["EU", "rejects"], ["B-ORG", "O"])
    'EU\\tB-ORG\\nrejects\\tO\\n'
    """
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.rstrip("\t ").split("\t")] if "\t" in line.strip() else line.split()


def _is_comment(line: str, cells: list[str], n_columns: int | None, *, inside: bool) -> bool:
    """Tells "# text = ..." before a sentence from a row whose word begins with the sign, as tweets have it."""
    if not line.startswith("#") or inside or "\t" in line:
        return False
    if n_columns is not None:
        return len(cells) != n_columns
    return not (len(cells) > 1 and _is_tag(cells[-1]))


def _is_tag(text: str) -> bool:
    try:
        split_tag(text)
    except ValueError:
        return False
    return True


def _checked_tag(path: Path, number: int, tag: str) -> str:
    try:
        split_tag(tag)
    except ValueError:
        raise ValueError(
            f"{path}, line {number}: expected a tag such as O, B-PER or I-PER, got {short_repr(tag)}; correct it, or "
            "choose another column with --tag-column"
        ) from None
    return tag
