"""CoNLL-U files: dependency trees, read and written without changing a byte outside the columns HEAD and DEPREL.

    # text = She saw it.
    1   She   she   PRON   PRP   _   2   nsubj   _   _
    2   saw   see   VERB   VBD   _   0   root    _   _
    3-4 it.   _     _      _     _   _   _       _   _
    ...

A sentence keeps its lines as they came, with comments, multiword tokens (3-4), empty nodes (8.1), blank lines and line
ends, so that the texts of all sentences together are the text of the file. The reader is our own because the package
`conllu` parses lines into values and writes them back in its own form: features are sorted, blank lines and line ends
become standard, and an error does not name the line. https://universaldependencies.org/format.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omegamax.data.dependency_checks import tree_problem
from omegamax.data.printable import short_repr
from omegamax.data.tsv import read_text

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
UNKNOWN_VALUE = "_"
MAX_WORDS = 2000  # of a sentence: scores of arcs grow with the square, some losses with the cube

_ID, _FORM, _UPOS, _XPOS, _FEATS, _HEAD, _DEPREL, _MISC = 0, 1, 3, 4, 5, 6, 7, 9


@dataclass(frozen=True)
class ConlluSentence:
    """The lines of a sentence, and the columns of its syntactic words.

    Words are numbered from 1; multiword tokens and empty nodes are lines but no words. `heads` is None if a word has no
    head, as in a text that was not annotated.
    """

    lines: tuple[str, ...]  # as in the file, with line ends; the blank line that ends the sentence too
    places: tuple[int, ...]  # of the words among the lines
    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    heads: tuple[int, ...] | None  # 0 is the root
    relations: tuple[str, ...]
    line: int = 1  # of the file, where the sentence begins

    @property
    def text(self) -> str:
        """Returns the lines as one text."""
        return "".join(self.lines)

    def with_tree(
        self, heads: Sequence[int], relations: Sequence[str], misc: Sequence[str] | None = None
    ) -> ConlluSentence:
        """Returns the sentence with other heads and relations. `misc` are values to add to the column MISC."""
        if not len(heads) == len(relations) == len(self.places):
            raise ValueError(
                f"with_tree: expected a head and a relation for each of {len(self.places)} words, "
                f"got {len(heads)} and {len(relations)}; leave out multiword tokens and empty nodes"
            )
        lines = list(self.lines)
        for number, place in enumerate(self.places):
            body, end = _body_and_end(lines[place])
            cells = body.split("\t")
            cells[_HEAD], cells[_DEPREL] = str(heads[number]), relations[number]
            if misc is not None and misc[number]:
                cells[_MISC] = misc[number] if cells[_MISC] == UNKNOWN_VALUE else f"{cells[_MISC]}|{misc[number]}"
            lines[place] = "\t".join(cells) + end
        return replace(self, lines=tuple(lines), heads=tuple(heads), relations=tuple(relations))

    def with_comments(self, comments: Sequence[str]) -> ConlluSentence:
        """Returns the sentence with comment lines (without #) in front of its first word."""
        first = next(at for at, line in enumerate(self.lines) if line.strip() and not line.startswith("#"))
        end = _body_and_end(self.lines[first])[1] or "\n"
        new = tuple(f"# {comment}{end}" for comment in comments)
        lines = (*self.lines[:first], *new, *self.lines[first:])
        return replace(self, lines=lines, places=tuple(place + len(new) for place in self.places))


def read_conllu(
    path: str | Path, *, on_error: Callable[[str], None] | None = None, check_trees: bool = True
) -> list[ConlluSentence]:
    """Reads all sentences of a file, which may be compressed (.gz, .xz).

    A mistake raises ValueError with file and line. With `on_error` that function gets the message, the sentence is left
    out, and reading goes on. `check_trees` asks for heads that form a tree with one root.
    """
    return list(parse_conllu(read_text(Path(path)), str(path), on_error=on_error, check_trees=check_trees))


def parse_conllu(
    text: str, name: str, *, on_error: Callable[[str], None] | None = None, check_trees: bool = True
) -> Iterator[ConlluSentence]:
    """Reads sentences from a text; `name` is the file in messages, the rest is as in `read_conllu`."""
    for first, lines in _blocks(text):
        try:
            sentence = _sentence(lines, first)
            if check_trees:
                check_tree(sentence)
        except ValueError as error:
            message = f"{name}, {error}"
            if on_error is None:
                raise ValueError(message) from None
            on_error(message)
        else:
            yield sentence


def sentence_of_words(words: Sequence[str]) -> ConlluSentence:
    """Makes a sentence without annotation of words.

    >>> sentence_of_words(["Go", "!"]).lines[0]
    '1\\tGo\\t_\\t_\\t_\\t_\\t_\\t_\\t_\\t_\\n'
    """
    blank = "\t".join([UNKNOWN_VALUE] * 8)
    rows = [f"{number}\t{word}\t{blank}\n" for number, word in enumerate(words, start=1)]
    return _sentence([*rows, "\n"], 1)


def looks_like_conllu(lines: Iterable[str]) -> bool:
    """Says whether lines are CoNLL-U rather than plain words: the first one that is no comment has ten columns."""
    for line in lines:
        if line.strip() and not line.startswith("#"):
            return line.count("\t") >= len(COLUMNS) // 2
    return False


def check_tree(sentence: ConlluSentence) -> None:
    """Raises ValueError unless the heads are a tree with one root. The line in the message is that of the word."""
    if sentence.heads is None:
        raise ValueError(f"line {sentence.line}: the sentence has words without a head; annotate or remove it")
    problem = tree_problem(sentence.heads)
    if problem is not None:
        line = sentence.line + sentence.places[problem.word - 1]
        raise ValueError(f"line {line}: {problem.text}; correct or remove the sentence")


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Cuts a text into sentences with the number of their first line. Only a line feed ends a line.

    Blank lines belong to the sentence before them, those at the beginning to the first one, and comments without words
    to the next sentence; nothing is lost.
    """
    lines: list[str] = []
    first, begun, ended = 1, False, False
    for number, line in enumerate(_lines(text), start=1):
        blank = not line.strip()
        if ended and not blank:
            yield first, lines
            lines, first, begun, ended = [], number, False, False
        lines.append(line)
        begun = begun or not (blank or line.startswith("#"))
        ended = begun and blank
    if any(line.strip() for line in lines):
        yield first, lines


def _lines(text: str) -> list[str]:
    """Cuts at line feeds alone: other separators may stand within a form."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _body_and_end(line: str) -> tuple[str, str]:
    body = line.rstrip("\r\n")
    return body, line[len(body) :]


def _sentence(lines: Sequence[str], first: int) -> ConlluSentence:
    places: list[int] = []
    rows: list[list[str]] = []
    for place, line in enumerate(lines):
        if not line.strip() or line.startswith("#"):
            continue
        cells = _body_and_end(line)[0].split("\t")
        if len(cells) != len(COLUMNS):
            raise ValueError(
                f"line {first + place}: expected {len(COLUMNS)} columns separated by tabs, got {len(cells)}; "
                "correct or remove the line"
            )
        if _is_word(cells[_ID], len(rows), first + place):
            _check_word(cells, first + place)
            places.append(place)
            rows.append(cells)
    if not rows:
        raise ValueError(
            f"line {first}: expected words, got only comments, multiword tokens or empty nodes; "
            "remove or complete the sentence"
        )
    columns = [tuple(cells[column] for cells in rows) for column in (_FORM, _UPOS, _XPOS, _FEATS, _DEPREL)]
    forms, upos, xpos, feats, relations = columns
    heads = _heads(rows, [first + place for place in places])
    return ConlluSentence(tuple(lines), tuple(places), forms, upos, xpos, feats, heads, relations, first)


def _is_word(identifier: str, n_before: int, line: int) -> bool:
    if identifier == str(n_before + 1):
        return True
    for sign in "-.":
        left, found, right = identifier.partition(sign)
        if found and left.isdecimal() and right.isdecimal():
            return False
    raise ValueError(
        f"line {line}: expected the ID {n_before + 1}, a range such as 3-4 or an empty node such as 8.1, "
        f"got {short_repr(identifier)}; number the words from 1"
    )


def _check_word(cells: Sequence[str], line: int) -> None:
    for column in (_FORM, _HEAD, _DEPREL):
        if not cells[column].strip():
            raise ValueError(f"line {line}: the column {COLUMNS[column]} is empty; write _ where nothing is known")


def _heads(rows: Sequence[Sequence[str]], lines: Sequence[int]) -> tuple[int, ...] | None:
    heads = []
    for cells, line in zip(rows, lines):
        head = cells[_HEAD]
        if head == UNKNOWN_VALUE:
            return None
        if not (head.isascii() and head.isdecimal() and len(head) < 10 and int(head) <= len(rows)):
            raise ValueError(
                f"line {line}: expected a HEAD from 0 (the root) to {len(rows)}, the number of words, or _, "
                f"got {short_repr(head)}; correct or remove the sentence"
            )
        heads.append(int(head))
    return tuple(heads)
