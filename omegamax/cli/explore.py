"""The command `omegamax explore`, which writes the explorer and opens it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from omegamax.cli.errors import CommandError
from omegamax.cli.explore_models import add_model_arguments, attention_data, load_models, serve_page, wants_models
from omegamax.cli.output import check_absent
from omegamax.data.files import write_user_file
from omegamax.data.printable import printable
from omegamax.errors import os_error_text

HELP = "move scores and see what every operator makes of them"
DESCRIPTION = """\
Writes a web page that computes rows, the simplex and structures itself, with
the kernels of this library, and opens it in a browser. The page is one file:
it works from disk, offline and on a phone, and sends nothing anywhere.

With trained runs, or with --model, the page also shows their attention on
your inputs, side by side. With --serve it can be given new input: it is then
served on this computer alone, by a server that asks the models."""
EXAMPLES = """\
examples:
  omegamax explore                              opens the page
  omegamax explore --out page.html --no-open    writes it, to keep or to share
  omegamax explore runs/dates-softmax runs/dates-fusedmax "3 May" "4 juin"
  omegamax explore --model DIR --attention softmax,sparsemax "A short text"
  omegamax explore runs/dates-fusedmax --serve  lets you type new input"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the models, where the page goes, and whether it is opened."""
    add_model_arguments(parser)
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where the page goes (default: a file among the temporary ones)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--no-open", action="store_true", help="write the page without opening it")


def run(options: argparse.Namespace) -> None:
    """Writes the page and opens it."""
    from omegamax.explorer import explorer_page

    if options.serve and options.out is not None:
        raise CommandError("--serve shows the page without a file; leave --out or --serve out")
    if options.out is not None:
        check_absent([options.out], overwrite=options.overwrite)  # before models are loaded
    data = None
    if wants_models(options):
        sources, lines = load_models(options)
        data = {"view": "attention", "attention": attention_data(sources, lines, serves=options.serve)}
        if options.serve:
            serve_page(explorer_page(data), sources, options, opens=not options.no_open)
            return
    path = _write(explorer_page(data), options.out)
    print(printable(path))
    import webbrowser  # here, so that --help is quick

    if not options.no_open and not webbrowser.open(path.resolve().as_uri()):
        print("omegamax explore: no browser could be started; open the file above in one", file=sys.stderr)


def _write(page: str, out: Path | None) -> Path:
    """Writes the page where the user says, or into a temporary file of its own."""
    if out is not None:
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
