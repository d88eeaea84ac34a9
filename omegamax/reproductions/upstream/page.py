"""Writes docs/upstream.md: `python -m omegamax.reproductions.upstream.page docs/upstream.md`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from omegamax.reproductions.upstream.case import NOT_INSTALLED, Finding, UpstreamCase, installed_version
from omegamax.reproductions.upstream.cases import CASES

_PACKAGES = ("torch", "transformers", "entmax", "pytorch-crf", "torch-struct", "tslearn")
_INTRODUCTION = """\
# Upstream bugs, run

Users of other packages reported these bugs in public. Each is a small program here: it runs the installed package, and
this library on the same input. One command runs them all, with the versions that you have:

```text
omegamax reproduce upstream
omegamax reproduce entmax-at-one torch-ctc-infeasible
```

The page is written by a program, from what ran: `python -m omegamax.reproductions.upstream.page docs/upstream.md`. It
ran with

    {versions}, on a CPU.

`tests/reproductions/test_upstream.py` runs every case, and checks that our side is right and that this page says what
runs. Some bugs have been repaired since; they stay, so that ours stay repaired too. A case without a thread was found
while this library was built.

Threads that we could not look up are not listed: pytorch/pytorch#110213 and huggingface/transformers#46132.
"""
_MARKS = {True: "right", False: "**wrong**", None: ""}


def page() -> str:
    """Runs every case and returns the whole page."""
    versions = ", ".join(f"{name} {installed_version(name) or NOT_INSTALLED}" for name in _PACKAGES)
    return "\n".join([_INTRODUCTION.format(versions=versions), *(section(case) for case in CASES.values())])


def section(case: UpstreamCase) -> str:
    """Runs one case and returns its section."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f"{description(case)}\n{results(case.reproduce())}"


def description(case: UpstreamCase) -> str:
    """Returns the part of a section that does not depend on what is installed."""
    links = ", ".join(f"[{thread}]({link})" for thread, link in zip(case.threads, case.links))
    where = f"Reported in {links}." if links else "No public thread."
    note = f" {case.note}" if case.note else ""
    return f"## {case.id}\n\n{case.reported} {where}{note}\n"


def results(findings: Sequence[Finding]) -> str:
    """Returns the table of a section."""
    lines = ["| quantity | should be | theirs | | ours | |", "|---|---|---|---|---|---|"]
    for f in findings:
        cells = (f.quantity, f.right, f.theirs, _MARKS[f.theirs_right], f.ours, _MARKS[f.ours_right])
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
