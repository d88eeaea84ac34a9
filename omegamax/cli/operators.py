"""The command `omegamax operators`, which prints and draws one row of scores under every operator."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli.output import check_absent, make_writable
from omegamax.cli.tables import terminal_width
from omegamax.data.printable import printable

HELP = "show every operator on one row of scores"
DESCRIPTION = """\
Prints one row of scores under every operator: the weights, how many are not
zero (support), how many runs of neighbours have equal weight (segments), how
many different weights there are (levels), and the smoothed maximum. Draws the
operators, the losses, expected alignments and trees, and denoising."""
EXAMPLES = "example:\n  omegamax operators --out figures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the directory of the pictures."""
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("figures"), help="where the pictures go (default: figures)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace pictures of the same name in DIR")


def run(options: argparse.Namespace) -> None:
    """Prints the table and draws the pictures."""
    make_writable(options.out)
    from omegamax.cli.operator_table import PICTURES, draw, table

    check_absent([options.out / name for name in PICTURES], overwrite=options.overwrite, chosen=False)
    print(table(terminal_width()))
    print("\nPictures:", *(printable(path) for path in draw(options.out)), sep="\n  ")
