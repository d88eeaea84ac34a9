"""`omegamax predict`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import IO

from omegamax.cli.destination import check_absent
from omegamax.cli.evaluate import add_run, loaded, threads
from omegamax.cli.refusal import Refused
from omegamax.data.printable import visible
from omegamax.errors import reason

_MAX_LINE, _MAX_INPUT = 1 << 20, 1 << 30  # bytes

HELP = "what a trained model says of your own input"
DESCRIPTION = "Reads one input per line and writes one output per line, in the same order."
EXAMPLES = """\
examples:
  echo "3 March 2017" | omegamax predict runs/dates-fusedmax
  printf 'fr\\tvendredi 3 mars 2017\\n' | omegamax predict runs/dates-fusedmax
                                                  locale, tab, text
  omegamax predict runs/en-de --input en.txt --out de.txt --beam 5
  torchrun --nproc-per-node=2 -m omegamax predict runs/en-de --input en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, where lines come from and where they go."""
    add_run(parser)
    parser.add_argument("--input", metavar="FILE", type=Path, help="one input per line (default: standard input)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="one output per line (default: standard output)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file that --out names")


def run(options: argparse.Namespace) -> None:
    """Predicts, shared among processes, and writes on the first."""
    if options.out is not None:
        check_absent([options.out], overwrite=options.overwrite)
    from omegamax.data import atomic
    from omegamax.recipes.train_and_test import read_lines
    from omegamax.training.counting import counting
    from omegamax.training.prediction import predict
    from omegamax.training.processes import joined

    with joined(options.device) as crew:
        found = loaded(options, crew.device)
        lines = crew.alone(lambda: read_input(options.input))
        examples = read_lines(found.task, lines)
        chosen = threads(options, found, examples, crew)
        with chosen, counting("predicting", shown=crew.first and options.out is not None) as tick:
            outputs = predict(found.task, found.model, examples, batch_size=options.batch_size, crew=crew, tick=tick)
        if not crew.first:
            return
        text = "".join(f"{line}\n" for line in outputs)
        if options.out is None:
            sys.stdout.flush()
            if sys.stdout.isatty():  # a person reads it; a file or a program gets every character as it is
                text = "".join(f"{visible(line)}\n" for line in outputs)
            sys.stdout.buffer.write(text.encode(errors="backslashreplace"))  # UTF-8, whatever the terminal is set to
        else:
            atomic.write_chosen_file(options.out, text.encode(errors="backslashreplace"))


def read_input(path: Path | None) -> list[str]:
    """The lines of a file in UTF-8, or of standard input.

    Only a line feed ends a line: other separators may stand within a text.
    """
    try:
        if path is None:
            content = _bounded(sys.stdin.buffer, "standard input")
        else:
            with path.open("rb") as file:
                content = _bounded(file, str(path))
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path or 'standard input'} is not UTF-8 ({error.reason} at byte {error.start}); convert it to UTF-8"
        ) from error
    except OSError as error:
        raise Refused(f"cannot read {path} ({reason(error)}); check the path") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _bounded(stream: IO[bytes], name: str) -> bytes:
    """All that there is to read, line by line, so that an endless line or file is noticed early."""
    lines: list[bytes] = []
    size = 0
    while line := stream.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise Refused(
                f"{name}, line {len(lines) + 1}: expected at most {_MAX_LINE} bytes in a line, got more; shorten it"
            )
        lines.append(line)
        size += len(line)
        if size > _MAX_INPUT:
            raise Refused(f"{name}: expected at most {_MAX_INPUT >> 20} MiB, got more; divide the input")
    return b"".join(lines)
