"""The command `omegamax`. It turns options into objects, calls the library, and prints or draws the results.

Each command is a module with HELP, DESCRIPTION, EXAMPLES, `add_arguments(parser)` and `run(options)`. None of them
loads PyTorch before it runs, so that --help is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from omegamax.cli import (
    attend,
    bench,
    check_data,
    compare,
    evaluate,
    explore,
    export,
    info,
    operators,
    plot,
    predict,
    reproduce,
    score,
    timeseries,
    train,
)
from omegamax.cli.errors import CommandError, as_command_errors
from omegamax.cli.parser import Parser, add_command
from omegamax.data.printable import printable

_MAX_MESSAGE = 2000  # characters of an error
_COMMANDS_OF_MODELS = ("train", "evaluate", "predict", "score", "attend", "compare", "explore", "export")
_COMMANDS_THAT_TRAIN = ("train", "compare")

COMMANDS: dict[str, Any] = {
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "score": score,
    "attend": attend,
    "compare": compare,
    "export": export,
    "check-data": check_data,
    "timeseries": timeseries,
    "reproduce": reproduce,
    "plot": plot,
    "operators": operators,
    "explore": explore,
    "bench": bench,
    "info": info,
}

_DESCRIPTION = """\
Sparse and structured attention: train models with it, look at it, and check
the papers behind it."""

_EXAMPLES = """\
examples:
  omegamax train dates --attention fusedmax      on generated data, in minutes
  omegamax attend runs/dates-fusedmax "3 May"    where the trained model looks
  omegamax compare dates --attention softmax,sparsemax,fusedmax
                                                 one task, several normalizers
  omegamax reproduce fig2                        a figure, ours and the paper's
  omegamax operators                             all operators on one row
  omegamax check-data tagger DIR                 mistakes in the data
  omegamax timeseries classify TRAIN.ts TEST.ts  dynamic time warping
  omegamax train --help                          the tasks
  omegamax train dates --help                    the options of a task

in Python:
  import omegamax as om
  weights = om.sparsemax(scores, dim=-1)"""


def command() -> None:
    """Runs `main` and ends the process with its exit code."""
    code = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # PyTorch never ends the threads of a process group that a DDP model has used. Now and then such a thread aborts
        # the process while the interpreter shuts down, so the interpreter is not shut down.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    The code is 0, 2 for a mistake of the caller, 130 after Ctrl-C, and 141 if the reader of the output has gone.
    """
    _escape_unknown_characters()
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command is None:
        parser.print_help()
        return 0
    if options.command in _COMMANDS_OF_MODELS and "torch" not in sys.modules:
        # Threads that wait for the next small operation sleep; by default they would keep a core busy.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if options.command in _COMMANDS_THAT_TRAIN:
        from omegamax.cli.freed_memory import keep_freed_memory

        keep_freed_memory()
    try:
        with as_command_errors():
            code = COMMANDS[options.command].run(options) or 0
            sys.stdout.flush()
            return code
    except CommandError as error:
        print(f"omegamax {options.command}: {printable(error, max_length=_MAX_MESSAGE)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"omegamax {options.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has gone
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # Python flushes them at its end
            os.dup2(nowhere, stream.fileno())
        return 141


def _escape_unknown_characters() -> None:
    """Writes a character that the terminal does not have as an escape, Ω as \\u03a9, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict":
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="omegamax", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"omegamax {_version()}", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for name, module in COMMANDS.items():
        add_command(commands, name, module)
    return parser


def _version() -> str:
    import omegamax

    return omegamax.__version__
