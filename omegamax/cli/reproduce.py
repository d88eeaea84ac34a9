"""The command `omegamax reproduce`, which computes what the sources state and prints it beside their numbers."""

from __future__ import annotations

import argparse
import difflib
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli.errors import CommandError
from omegamax.cli.output import make_writable, save_picture
from omegamax.data.files import refuse_links
from omegamax.data.printable import printable

if TYPE_CHECKING:
    from omegamax.reproductions.claim import Claim
    from omegamax.reproductions.upstream.case import UpstreamCase

HELP = "compute theorems, figures and tables of the papers, beside the published"
DESCRIPTION = """\
Computes what a paper, tutorial or lecture states, prints our numbers beside
the published ones, and draws the figure where the claim is one. An ID is that
of a claim, of a source (paper, tutorial, sparsemap, lecture, conversation:
everything of it that runs here), or "all". "upstream" and the ids it lists run
bugs that users of other packages reported: what the installed package gives,
and what we give."""
EXAMPLES = """\
examples:
  omegamax reproduce --list                  every claim and its status
  omegamax reproduce --list tutorial         those of one source
  omegamax reproduce fig2                    a figure and its numbers
  omegamax reproduce prop1 prop2-oscarmax    two propositions, one false
  omegamax reproduce paper --out figures     the whole paper
  omegamax reproduce upstream                reported bugs of other packages"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the ids of claims, and the directory of the figures."""
    parser.add_argument("ids", metavar="ID", nargs="*", help="claims or sources; see --list")
    parser.add_argument("--list", action="store_true", help="name the claims and run nothing")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("report"), help="where figures go (default: report)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace figures of the same name in DIR")


def run(options: argparse.Namespace) -> None:
    """Lists claims, or computes them one after the other."""
    # Nothing here or in the catalogue loads PyTorch, so that --list is quick.
    from omegamax.reproductions import report
    from omegamax.reproductions.upstream import report as upstream_report

    width = min(120, shutil.get_terminal_size((80, 24)).columns)
    cases, ids = select_upstream(options.ids)
    if options.list:
        texts = [report.listing(select_claims(ids or ["all"], runnable=False), width)] if ids or not cases else []
        print("\n\n".join([*texts, *([upstream_report.listing(cases, width)] if cases else [])]))
        return
    claims = select_claims(ids, runnable=True) if ids or not cases else []
    for case in cases:
        print(upstream_report.heading(case, width))
        print(f"\n{upstream_report.comparison(case.reproduce())}\n")
    _check_figures(claims, options.out, options.overwrite)
    stuck = [claim for claim in claims if not claim.run]
    for claim in claims:
        print(report.heading(claim, width))
        if claim.run:
            _reproduce(claim, options.out, width)
        elif claim.published:
            print(f"\n{report.published_only(claim)}")
        print()
    if stuck:
        raise CommandError(_cannot(stuck))


def select_upstream(ids: Sequence[str]) -> tuple[list[UpstreamCase], list[str]]:
    """Returns the reported bugs among some ids, each once, and the other ids."""
    from omegamax.reproductions.upstream.cases import CASES

    found: dict[str, UpstreamCase] = {}
    for name in ids:
        found |= CASES if name == "upstream" else {name: CASES[name]} if name in CASES else {}
    return list(found.values()), [name for name in ids if name != "upstream" and name not in CASES]


def select_claims(ids: Sequence[str], *, runnable: bool) -> list[Claim]:
    """Returns the claims of some ids, each once; of a whole source only those that run, if `runnable`."""
    from omegamax.reproductions.catalogue import CLAIMS, SOURCES, of_source
    from omegamax.reproductions.upstream.cases import CASES

    if not ids:
        raise CommandError("give the id of a claim, such as fig2; omegamax reproduce --list names them all")
    found: dict[str, Claim] = {}
    for name in ids:
        if name in CLAIMS:
            found[name] = CLAIMS[name]
        elif name == "all" or name in SOURCES:
            whole = list(CLAIMS.values()) if name == "all" else of_source(name)
            found |= {claim.id: claim for claim in whole if claim.run or not runnable}
        else:
            raise CommandError(_unknown(name, [*CLAIMS, *SOURCES, *CASES, "upstream"]))
    return list(found.values())


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 3, 0.5) or [each for each in known if name.lower() in each][:3]
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"there is no claim {name!r}; {meant}omegamax reproduce --list names them all"


def _cannot(claims: Sequence[Claim]) -> str:
    """Says why these claims were not run."""
    reasons = []
    for claim in claims:
        tested = f"see {claim.tests[0]}" if claim.tests else ""
        reasons.append(f"{claim.id} was not run ({claim.reason.rstrip('.') or tested or claim.status})")
    return "; ".join(reasons)


def _check_figures(claims: Sequence[Claim], directory: Path, overwrite: bool) -> None:
    """Raises CommandError, before any work is done, if the figures cannot be written or would replace others."""
    names = [claim.figure for claim in claims if claim.figure]
    if not names:
        return
    refuse_links(directory / name for name in names)
    there = [name for name in names if (directory / name).exists()]
    if there and not overwrite:
        raise CommandError(
            f"{directory / there[0]} exists; say --overwrite to replace it, or choose another directory with --out"
        )
    make_writable(directory)


def _reproduce(claim: Claim, directory: Path, width: int) -> None:
    from omegamax.reproductions import report

    outcome = claim.reproduce()
    print(f"\n{report.comparison(outcome.rows)}")
    if claim.remark:
        print(f"\n{textwrap.fill(claim.remark, width)}")
    if outcome.draw is not None:
        try:
            figure = outcome.draw()
        except ImportError as error:
            raise CommandError(str(error)) from error
        save_picture(figure, directory / claim.figure)
        print(f"\nFigure: {printable(directory / claim.figure)}")
