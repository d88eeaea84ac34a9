"""Questions about stories in the format of bAbI (Weston et al., 2015), also compressed (.gz, .xz).

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <TAB> bathroom <TAB> 1

A line is a sentence, or a question with its answer and the numbers of the sentences that it follows from. Numbers begin
at 1 again where a new story begins. A directory has two files for each task, `qa1_NAME_train.txt` and
`qa1_NAME_test.txt`; the last tenth of the training stories is kept for dev, as the data have no such split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from omegamax.data.printable import short_repr
from omegamax.data.text_files import PACKED, numbered_lines

MAX_WORDS = 1000  # of a sentence
_WORD = re.compile(r"[\w'-]+")
_END = re.compile(r"(?<=[.?!])\s+")
_FILE = re.compile(r"qa(\d+)_.*_(train|test)\.txt(?:\.gz|\.xz)?")
_DEV = 10  # one of so many training stories is for dev

Sentence = tuple[str, ...]


class StoryQuestion(NamedTuple):
    """A question, and the sentences that were said before it.

    Checkpoints hold a checksum of the repr of all questions, so the class and its fields must keep their names.
    """

    story: tuple[Sentence, ...]
    question: Sentence
    target: str  # the answer, "" where it is not known; several words are written with commas, as in the files
    facts: tuple[int, ...] = ()  # places in the story, from 0, of the sentences from which the answer follows
    task: int = 1


def words_of(text: str) -> Sentence:
    """Splits a sentence into words in lower case, without its full stop or question mark.

    >>> words_of("Where is Mary?")
    ('where', 'is', 'mary')
    """
    return tuple(_WORD.findall(text.lower()))


def sentences_of(line: str) -> list[str]:
    """Splits a line after full stops, question marks and exclamation marks; a line with a tab stays as it is.

    >>> sentences_of("Ada left. Where is Ada?")
    ['Ada left.', 'Where is Ada?']
    """
    return [line] if "\t" in line else _END.split(line.strip())


def parse_stories(lines: Iterable[tuple[int, str]], where: str, *, task: int = 1) -> Iterator[list[StoryQuestion]]:
    """Yields the questions of each story. Errors begin with `where` and the number of the line.

    Lines without numbers belong to one story, and a blank line ends it. A question may stand without its answer.

    Arguments:
        lines: each with its number in the file
        where: the name of the file, for errors
        task: the number that the questions get
    """
    story: list[Sentence] = []
    places: dict[int, int] = {}  # the place in the story of a line's number
    questions: list[StoryQuestion] = []
    for at, line in lines:
        number, text = _numbered(line)
        if not text or number == 1:
            if questions:
                yield questions
            story, places, questions = [], {}, []
        if not text:
            continue
        try:
            cells = text.split("\t")
            words = words_of(cells[0])
            if not 1 <= len(words) <= MAX_WORDS:
                raise ValueError(f"expected 1 to {MAX_WORDS} words, got {len(words)}; correct the line")
            if len(cells) == 1 and not cells[0].rstrip().endswith("?"):
                if number is not None:
                    places[number] = len(story)
                story.append(words)
                continue
            if not story:
                raise ValueError("expected a sentence before the first question, got none; add the story")
            answer = cells[1].strip().lower() if len(cells) > 1 else ""
            facts = _facts(cells[2] if len(cells) > 2 else "", places)
            questions.append(StoryQuestion(tuple(story), words, answer, facts, task))
        except ValueError as error:
            raise ValueError(f"{where}, line {at}: {error}") from None
    if questions:
        yield questions


def _numbered(line: str) -> tuple[int | None, str]:
    """Divides a line into its number, if it has one, and its text."""
    first, _, rest = line.strip().partition(" ")
    if first.isascii() and first.isdigit() and len(first) < 10:
        return int(first), rest.strip()
    return None, line.strip()


def _facts(cell: str, places: dict[int, int]) -> tuple[int, ...]:
    numbers = cell.split()
    for number in numbers:
        if not (number.isascii() and number.isdigit() and int(number) in places):
            raise ValueError(
                f"expected the numbers of sentences before the question, got {short_repr(number)}; correct the line"
            )
    return tuple(places[int(number)] for number in numbers)


def read_babi(path: str | Path, tasks: Sequence[int] = ()) -> dict[str, list[StoryQuestion]]:
    """Reads the splits of some tasks from a directory; of all that are there if none is named.

    Arguments:
        path: a directory with qa1_NAME_train.txt, qa1_NAME_test.txt, ...
        tasks: their numbers
    """
    files = _files(Path(path))
    wanted = list(tasks) or sorted(files)
    splits: dict[str, list[StoryQuestion]] = {"train": [], "dev": [], "test": []}
    for task in wanted:
        if set(files.get(task, ())) != {"train", "test"}:
            raise ValueError(
                f"{path}: expected qa{task}_NAME_train.txt and qa{task}_NAME_test.txt, also with .gz or .xz, got "
                f"{', '.join(sorted(files.get(task, ()))) or 'neither'}; choose other tasks or another directory"
            )
        stories = {split: list(_stories(files[task][split], task)) for split in ("train", "test")}
        if len(stories["train"]) < 2:
            raise ValueError(f"{files[task]['train']}: expected at least 2 stories, got fewer; add some")
        n_dev = max(1, len(stories["train"]) // _DEV)
        for split, some in (
            ("train", stories["train"][:-n_dev]),
            ("dev", stories["train"][-n_dev:]),
            ("test", stories["test"]),
        ):
            splits[split] += [question for story in some for question in story]
    return splits


def _files(path: Path) -> dict[int, dict[str, Path]]:
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such directory; give one with files such as qa1_NAME_train.txt")
    found: dict[int, dict[str, Path]] = {}
    for file in sorted(path.iterdir()):
        if match := _FILE.fullmatch(file.name):
            found.setdefault(int(match[1]), {}).setdefault(match[2], file)
    if not found:
        raise FileNotFoundError(
            f"{path}: no file such as qa1_NAME_train.txt (or {', '.join(f'.txt{each}' for each in PACKED[1:])}); give "
            "the directory of one language of bAbI"
        )
    return found


def _stories(file: Path, task: int) -> Iterator[list[StoryQuestion]]:
    for questions in parse_stories(numbered_lines(file), str(file), task=task):
        for question in questions:
            if not question.target:
                raise ValueError(
                    f"{file}: expected an answer after a tab for each question, got none for "
                    f"{short_repr(' '.join(question.question))}; add it"
                )
        yield questions
