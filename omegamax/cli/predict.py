"""`omegamax predict`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from omegamax.cli.destination import check_absent
from omegamax.cli.evaluate import add_run, loaded
from omegamax.cli.refusal import Refused

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
    from omegamax.recipes import atomic
    from omegamax.recipes.counting import counting
    from omegamax.recipes.experiment import read_lines
    from omegamax.recipes.prediction import predict
    from omegamax.recipes.workers import joined

    with joined(options.device) as crew:
        found = loaded(options, crew.device)
        lines = crew.alone(lambda: _lines(options.input))
        examples = read_lines(found.task, lines)
        with counting("predicting", shown=crew.first and options.out is not None) as tick:
            outputs = predict(found.task, found.model, examples, batch_size=options.batch_size, crew=crew, tick=tick)
        if not crew.first:
            return
        text = "".join(f"{line}\n" for line in outputs)
        if options.out is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())  # UTF-8, whatever the terminal is set to
        else:
            atomic.write_file(options.out, text.encode())


def _lines(path: Path | None) -> list[str]:
    """Of a file in UTF-8. Only a line feed ends a line: other separators may stand within a text."""
    try:
        text = (sys.stdin.buffer.read() if path is None else path.read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path or 'standard input'} is not UTF-8 ({error.reason} at byte {error.start}); convert it to UTF-8"
        ) from error
    except OSError as error:
        raise Refused(f"cannot read {path} ({(error.strerror or 'error').lower()})") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
