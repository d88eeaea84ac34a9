"""Writes reported bugs as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from omegamax.reproductions.report import table
from omegamax.reproductions.upstream.case import NOT_INSTALLED, Finding, UpstreamCase

_VERDICTS = {True: "right", False: "WRONG", None: ""}


def listing(cases: Sequence[UpstreamCase], width: int = 120) -> str:
    """Lists the id, the package and the report of each case."""
    lines = [textwrap.fill("upstream: bugs of other packages that users reported in public", width), ""]
    for case in cases:
        body = textwrap.fill(case.reported, width, initial_indent="      ", subsequent_indent="      ")
        lines.append(f"  {case.id}  [{case.package} {case.installed or NOT_INSTALLED}]\n{body}")
    return "\n".join(lines)


def heading(case: UpstreamCase, width: int = 120) -> str:
    """Writes what was reported, where, and which version of the package runs."""
    lines = [f"{case.id}  [{case.package} {case.installed or NOT_INSTALLED}]", *case.links]
    lines.append(textwrap.fill(case.reported, width))
    if case.note:
        lines.append(textwrap.fill(case.note, width))
    return "\n".join(lines)


def comparison(findings: Sequence[Finding]) -> str:
    """Writes what the package gives beside what we give, one quantity in a line."""
    head = ("quantity", "should be", "theirs", "", "ours", "")
    rows = [
        (f.quantity, f.right, f.theirs, _VERDICTS[f.theirs_right], f.ours, _VERDICTS[f.ours_right]) for f in findings
    ]
    return table([head, *rows])
