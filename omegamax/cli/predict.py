"""The command `omegamax predict`, which writes the outputs of a trained model for lines of input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import IO

from omegamax.cli.errors import CommandError
from omegamax.cli.evaluate import add_run, choose_threads, load_run
from omegamax.cli.output import check_absent
from omegamax.cli.parser import at_least
from omegamax.cli.prediction_options import add_prediction_options, chosen_prediction
from omegamax.data.files import write_user_file
from omegamax.data.printable import printable
from omegamax.errors import os_error_text
from omegamax.recipes.settings import MAX_LENGTH

_MAX_LINE, _MAX_INPUT = 1 << 20, 1 << 30  # bytes

HELP = "write the outputs of a trained model for your own input"
DESCRIPTION = """\
Reads one input per line and writes one output per line, in the same order. A
tagger also reads files in columns, with --input-format, and writes them."""
EXAMPLES = """\
examples:
  echo "3 March 2017" | omegamax predict runs/dates-fusedmax
  printf 'fr\\tvendredi 3 mars 2017\\n' | omegamax predict runs/dates-fusedmax
                                                  locale, tab, text
  omegamax predict runs/en-de --input en.txt --out de.txt --beam 5
  echo "ada keeps the" | omegamax predict runs/language --temperature 0.8
  echo "Ada met Bo in Paris." | omegamax predict runs/tagger-l2 --ranked
  omegamax predict runs/tagger-crf --input test.conll --input-format conll \\
      --output-format conll --out tagged.conll
  torchrun --nproc-per-node=2 -m omegamax predict runs/en-de --input en.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the run, the input and the output."""
    add_run(parser)
    parser.add_argument("--input", metavar="FILE", type=Path, help="one input per line (default: standard input)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="one output per line (default: standard output)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file that --out names")
    parser.add_argument(
        "--max-length",
        metavar="N",
        type=at_least(1, MAX_LENGTH),
        help="tokens of an output at most (default: as trained)",
    )
    parser.add_argument(
        "--temperature",
        metavar="X",
        type=float,
        help="draw the tokens of a continuation; smaller is safer, 0 takes the most likely (default: as trained)",
    )
    parser.add_argument("--sampling-seed", metavar="N", type=int, help="seed of the draws (default: as trained)")
    add_prediction_options(parser)


def run(options: argparse.Namespace) -> None:
    """Predicts on all processes, and writes on rank 0."""
    if options.out is not None:
        check_absent([options.out], overwrite=options.overwrite)
    from omegamax.recipes.tasks import read_examples
    from omegamax.training.prediction import predict
    from omegamax.training.processes import join_processes
    from omegamax.training.progress import progress_bar

    with join_processes(options.device) as processes:
        sampling = {"temperature": options.temperature, "sampling_seed": options.sampling_seed}
        found = load_run(options, processes.device, max_length=options.max_length, **sampling)
        found.task.prediction = chosen_prediction(options, found.task)
        lines = processes.on_rank_zero(lambda: read_input(options.input))
        examples = read_examples(found.task, lines)
        threads = choose_threads(options, found, examples, processes)
        shown = processes.is_rank_zero and options.out is not None
        with threads, progress_bar("predicting", shown=shown) as on_batch:
            outputs = predict(
                found.task,
                found.model,
                examples,
                batch_size=options.batch_size,
                processes=processes,
                on_batch=on_batch,
            )
        if not processes.is_rank_zero:
            return
        text = "".join(f"{line}\n" for line in outputs)
        if options.out is None:
            sys.stdout.flush()
            if sys.stdout.isatty():  # a person reads it; a file or a program gets every character as it is
                text = "".join(f"{printable(line)}\n" for line in outputs)
            sys.stdout.buffer.write(text.encode(errors="backslashreplace"))  # UTF-8, whatever the terminal is set to
        else:
            write_user_file(options.out, text.encode(errors="backslashreplace"))


def read_input(path: Path | None) -> list[str]:
    """Reads the lines of a file in UTF-8, or of standard input.

    Only a line feed ends a line: other separators may stand within a text.
    """
    try:
        if path is None:
            content = _read_bounded(sys.stdin.buffer, "standard input")
        else:
            with path.open("rb") as file:
                content = _read_bounded(file, str(path))
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{path or 'standard input'} is not UTF-8 ({error.reason} at byte {error.start}); convert it to UTF-8"
        ) from error
    except OSError as error:
        raise CommandError(f"cannot read {path} ({os_error_text(error)}); check the path") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _read_bounded(stream: IO[bytes], name: str) -> bytes:
    """Reads everything, line by line, so that an endless line or file is noticed early."""
    lines: list[bytes] = []
    size = 0
    while line := stream.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise CommandError(
                f"{name}, line {len(lines) + 1}: expected at most {_MAX_LINE} bytes in a line, got more; shorten it"
            )
        lines.append(line)
        size += len(line)
        if size > _MAX_INPUT:
            raise CommandError(f"{name}: expected at most {_MAX_INPUT >> 20} MiB, got more; divide the input")
    return b"".join(lines)
