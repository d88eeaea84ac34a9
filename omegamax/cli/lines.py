"""Lines of input and the answers to them: read some at a time, answer them, write the answers in order, forget them."""

from __future__ import annotations

import argparse
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from omegamax.cli.errors import CommandError
from omegamax.cli.evaluate import choose_threads
from omegamax.data.files import write_user_file
from omegamax.data.printable import printable
from omegamax.errors import DataError, os_error_text

_MAX_LINE, _MAX_INPUT = 1 << 20, 1 << 30  # bytes
_MAX_SKIPPED = 1 << 26  # bytes of a line that is too long; beyond them its end is not looked for
_BATCHES = 16  # read at a time: enough to sort lines by length, few enough to be forgotten soon
_MAX_REPORTS = 20  # of bad lines
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
_OWN_NUMBER = re.compile(r"line 1\b")  # of an error about a line that was read alone

Read = Callable[[Sequence[str]], list[Any]]  # lines to examples
Write = Callable[[Any, Sequence[Any]], list[str]]  # a model and examples to lines


def add_lines(parser: argparse.ArgumentParser, input_help: str, output_help: str) -> None:
    """Adds --input, --out and --overwrite."""
    parser.add_argument("--input", metavar="FILE", type=Path, help=f"{input_help} (default: standard input)")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"{output_help} (default: standard output)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file that --out names")


def answer_lines(options: argparse.Namespace, found: Any, processes: Any, read: Read, write: Write) -> int:
    """Answers each line of the input on all processes; rank 0 writes. Returns the exit code, 2 after a bad line.

    Memory holds the lines of a few batches, however many there are; with --out it also holds all answers, because the
    file is written whole or not at all.
    """
    from omegamax.training.prediction import write_lines
    from omegamax.training.progress import progress_bar

    reports = _Reports(options.command, processes.is_rank_zero)
    chunks = _Chunks(options.input, options.batch_size * _BATCHES) if processes.is_rank_zero else None
    answers: list[str] = []
    n_lines = 0
    shown = processes.is_rank_zero and options.out is not None
    with ExitStack() as threads, progress_bar("predicting", shown=shown) as on_batch:
        while lines := processes.on_rank_zero(lambda: chunks.next() if chunks is not None else []):
            places, examples = _read_examples(lines, read, n_lines, reports)
            if n_lines == 0:
                threads.enter_context(choose_threads(options, found, examples, processes))
            outputs = write_lines(found.task, write, found.model, examples, options.batch_size, processes, on_batch)
            n_lines += len(lines)
            every = [""] * len(lines)
            for place, output in zip(places, outputs):
                every[place] = output
            if processes.is_rank_zero and options.out is None:
                _print_lines(every)
            elif processes.is_rank_zero:
                answers += every
    if processes.is_rank_zero and options.out is not None:
        write_user_file(options.out, _as_bytes(answers))
    return 2 if reports.n_bad else 0


def answer_input(options: argparse.Namespace, found: Any, processes: Any, read: Read, write: Write) -> int:
    """Reads the whole input, answers its examples on all processes, and writes on rank 0. Returns the exit code, 0."""
    from omegamax.training.prediction import write_lines
    from omegamax.training.progress import progress_bar

    lines = processes.on_rank_zero(lambda: read_input(options.input, keep_ends=found.task.keeps_line_ends))
    examples = read(lines)
    threads = choose_threads(options, found, examples, processes)
    shown = processes.is_rank_zero and options.out is not None
    with threads, progress_bar("predicting", shown=shown) as on_batch:
        answers = write_lines(found.task, write, found.model, examples, options.batch_size, processes, on_batch)
    if processes.is_rank_zero and options.out is None:
        _print_lines(answers)
    elif processes.is_rank_zero:
        write_user_file(options.out, _as_bytes(answers))
    return 0


class _Reports:
    """Says on rank 0 which lines were bad, the first ones of many."""

    def __init__(self, command: str, shown: bool) -> None:
        self.command, self.shown, self.n_bad = command, shown, 0

    def add(self, number: int, reason: str) -> None:
        self.n_bad += 1
        if self.shown and self.n_bad <= _MAX_REPORTS:
            more = " (further bad lines are not reported)" if self.n_bad == _MAX_REPORTS else ""
            reason = printable(_OWN_NUMBER.sub(f"line {number}", reason, count=1), max_length=1000)
            print(f"omegamax {self.command}: {reason}; its output is empty{more}", file=sys.stderr)


class _BadLine(NamedTuple):
    """A line that is no text."""

    reason: str


def _read_examples(
    lines: Sequence[str | _BadLine], read: Read, n_before: int, reports: _Reports
) -> tuple[list[int], list[Any]]:
    """Returns the examples of the lines that can be read, and their places."""
    there = {place: line for place, line in enumerate(lines) if isinstance(line, str)}
    for place, line in enumerate(lines):
        if isinstance(line, _BadLine):
            reports.add(n_before + place + 1, f"line 1: {line.reason}")
    try:
        return list(there), read(list(there.values()))
    except DataError:
        pass
    places, examples = [], []
    for place, text in there.items():
        try:
            examples += read([text])
            places.append(place)
        except DataError as error:
            reports.add(n_before + place + 1, str(error))
    return places, examples


class _Chunks:
    """Some lines of the input at a time; single ones if a person types them."""

    def __init__(self, path: Path | None, size: int) -> None:
        self._lines = _input_lines(path)
        self._size = 1 if path is None and sys.stdin.isatty() else size

    def next(self) -> list[str | _BadLine]:
        return [_decoded(line) for line in islice(self._lines, self._size)]


def _decoded(line: bytes) -> str | _BadLine:
    if len(line) > _MAX_LINE:
        return _BadLine(f"expected at most {_MAX_LINE} bytes in a line, got more; shorten it")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return _BadLine("not UTF-8; convert the input to UTF-8")


def read_input(path: Path | None, *, keep_ends: bool = False) -> list[str]:
    """Reads all lines of a file in UTF-8, which may be compressed (.gz, .xz), or of standard input; at most 1 GiB.

    Only a line feed ends a line: other separators may stand within a text. A carriage return before it is dropped,
    unless `keep_ends` says to keep it.
    """
    name = path or "standard input"
    lines: list[str] = []
    size = 0
    for number, raw in enumerate(_input_lines(path, keep_ends=keep_ends), start=1):
        size += len(raw) + 1
        if size > _MAX_INPUT:
            raise CommandError(f"{name}: expected at most {_MAX_INPUT >> 20} MiB, got more; divide the input")
        line = _decoded(raw)
        if isinstance(line, _BadLine):
            raise CommandError(f"{name}, line {number}: {line.reason}")
        lines.append(line)
    return lines


def _input_lines(path: Path | None, *, keep_ends: bool = False) -> Iterator[bytes]:
    """Reads a file or standard input line by line, without ends of lines.

    Of a line of more than `_MAX_LINE` bytes only the first `_MAX_LINE` + 1 are returned, before the rest is read; an
    endless line is an error.
    """
    try:
        if path is None:
            yield from _bounded_lines(sys.stdin.buffer, "standard input", keep_ends)
        else:
            with _OPENERS.get(path.suffix, open)(path, "rb") as file:
                yield from _bounded_lines(file, str(path), keep_ends)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise CommandError(f"{path} is not a whole {path.suffix if path else ''} file; compress it again") from error
    except OSError as error:
        raise CommandError(f"cannot read {path} ({os_error_text(error)}); check the path") from error


def _bounded_lines(stream: IO[bytes], name: str, keep_ends: bool) -> Iterator[bytes]:
    mark = b"\xef\xbb\xbf"  # of byte order, before the first line
    number = 0
    while line := stream.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE and not line.endswith(b"\n"):
            yield line
            _skip_line(stream, f"{name}, line {number}")
        else:
            line = line.removeprefix(mark).removesuffix(b"\n")
            yield line if keep_ends else line.removesuffix(b"\r")
        mark = b""


def _skip_line(stream: IO[bytes], where: str) -> None:
    """Reads the rest of a line."""
    for _ in range(_MAX_SKIPPED // _MAX_LINE):
        rest = stream.readline(_MAX_LINE)
        if not rest or rest.endswith(b"\n"):
            return
    raise CommandError(
        f"{where}: expected at most {_MAX_LINE} bytes in a line, got more than {_MAX_SKIPPED}; check that it is a text"
    )


def _print_lines(lines: Sequence[str]) -> None:
    sys.stdout.flush()
    if sys.stdout.isatty():  # a person reads it; a file or a program gets every character as it is
        lines = [printable(line) for line in lines]
    sys.stdout.buffer.write(_as_bytes(lines))  # UTF-8, whatever the terminal is set to
    sys.stdout.buffer.flush()


def _as_bytes(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
