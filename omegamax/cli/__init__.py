"""The command `omegamax`: strings to objects, and nothing else."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from omegamax.cli.refusal import Refused

_DESCRIPTION = """\
Smoothed max operators for PyTorch: softmax, sparsemax, entmax, sq-pnorm-max,
fusedmax, oscarmax, groupmax, and any differentiable regularizer."""

_EXAMPLES = """\
examples:
  omegamax info                 which versions and kernels this installation uses
  omegamax demo                 the operators side by side: a table, and pictures in report/
  omegamax demo --out figures   the same, with the pictures in figures/
  omegamax reproduce --list     every theorem, figure and table of the papers behind it
  omegamax reproduce fig2       one of them: our numbers beside the published ones

  OMEGAMAX_KERNELS=reference omegamax info     forces the pure PyTorch kernels

in Python:
  import omegamax as om
  weights = om.sparsemax(scores, dim=-1)"""

_DEMO = """\
Prints one row of scores under every operator: the weights, how many are not
zero (support), how many runs of neighbours have equal weight (segments), how
many different weights there are (levels), and the smoothed maximum. Draws
figure2.png, operators.png, denoising.png and alignments.png."""


class _Parser(argparse.ArgumentParser):
    """Complains in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0, or 2 for a mistake of the caller."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        options.run(options)
    except Refused as refused:
        print(f"omegamax {options.command}: {refused}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="omegamax", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=raw)
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=_Parser)
    info = commands.add_parser(
        "info", help="versions, kernels and threads", description="Prints versions, kernels and threads."
    )
    info.set_defaults(run=_info)
    demo = commands.add_parser(
        "demo",
        help="the operators on one row of scores",
        description=_DEMO,
        epilog="example:\n  omegamax demo --out figures",
        formatter_class=raw,
    )
    demo.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("report"), help="where the pictures go (default: report)"
    )
    demo.set_defaults(run=_demo)
    from omegamax.cli import reproduce

    again = commands.add_parser(
        "reproduce",
        help=reproduce.HELP,
        description=reproduce.DESCRIPTION,
        epilog=reproduce.EXAMPLES,
        formatter_class=raw,
    )
    reproduce.add_arguments(again)
    again.set_defaults(run=reproduce.run)
    return parser


# PyTorch and matplotlib take seconds to load, so each command loads what it needs and --help loads nothing.


def _info(options: argparse.Namespace) -> None:
    from omegamax.cli.info import describe

    print(describe())


def _demo(options: argparse.Namespace) -> None:
    _make_writable(options.out)
    from omegamax.cli.demo import draw, table

    print(table())
    try:
        paths = draw(options.out)
    except ImportError as error:
        raise Refused(str(error)) from error
    print(f"\nPictures: {', '.join(str(path) for path in paths)}")


def _make_writable(directory: Path) -> None:
    """Fails before any work is done."""
    probe = directory / ".omegamax"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused(f"cannot write to {directory} ({reason.lower()}); choose another directory with --out") from error
