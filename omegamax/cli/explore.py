"""The command `omegamax explore`, which writes the explorer and opens it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import webbrowser
from pathlib import Path

from omegamax.cli.errors import CommandError
from omegamax.cli.output import check_absent
from omegamax.data.files import write_user_file
from omegamax.data.printable import printable
from omegamax.errors import os_error_text

HELP = "move scores and see what every operator makes of them"
DESCRIPTION = """\
Writes a web page that computes rows, the simplex and structures itself, with
the kernels of this library, and opens it in a browser. The page is one file:
it works from disk, offline and on a phone, and sends nothing anywhere."""
EXAMPLES = """\
examples:
  omegamax explore                              opens the page
  omegamax explore --out page.html --no-open    writes it, to keep or to share"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds where the page goes, and whether it is opened."""
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where the page goes (default: a file among the temporary ones)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--no-open", action="store_true", help="write the page without opening it")


def run(options: argparse.Namespace) -> None:
    """Writes the page and opens it."""
    from omegamax.explorer import explorer_page

    path = _write(explorer_page(), options.out, overwrite=options.overwrite)
    print(printable(path))
    if not options.no_open and not webbrowser.open(path.resolve().as_uri()):
        print("omegamax explore: no browser could be started; open the file above in one", file=sys.stderr)


def _write(page: str, out: Path | None, *, overwrite: bool) -> Path:
    """Writes the page where the user says, or into a temporary file of its own."""
    if out is not None:
        check_absent([out], overwrite=overwrite)
        write_user_file(out, page.encode())
        return out
    try:
        number, name = tempfile.mkstemp(prefix="omegamax-explorer-", suffix=".html")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise CommandError(
            f"cannot write a temporary file ({os_error_text(error)}); choose a place with --out"
        ) from error
    return Path(name)
