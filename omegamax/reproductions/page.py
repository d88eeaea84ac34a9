"""Writes docs/claims.md from the catalogue: `python -m omegamax.reproductions.page docs/claims.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from omegamax.reproductions.catalogue import CLAIMS, SOURCES, of_source
from omegamax.reproductions.claim import Claim

_INTRODUCTION = """\
---
search:
  boost: 0.2  # it has every word of the field, and few answers
---

# Claims

Every theorem, proposition, figure, table and stated number of the five sources of this library, and how each is
checked. Those that run are computed by one command, which prints our numbers beside the published ones and draws the
figures:

```text
omegamax reproduce --list
omegamax reproduce fig2 prop1 lecture-example
```

*False as published* means that the command prints a counterexample. A *recipe* is a task that must be trained to give
numbers of the same kind (`omegamax train`). This page is made from the table that the command reads, and a test keeps
it so.
"""


def page() -> str:
    """Returns the whole page."""
    parts = [_INTRODUCTION, _summary()]
    for source, title in SOURCES.items():
        parts.append(f"## {source.capitalize()}\n\n{title}.\n")
        parts += [_entry(claim) for claim in of_source(source)]
    return "\n".join(parts)


def _summary() -> str:
    claims = list(CLAIMS.values())
    wrong = [f"`{claim.id}`" for claim in claims if not claim.holds]
    runs = sum(bool(claim.run) for claim in claims)
    return (
        f"There are {len(claims)} claims; {runs} run here. {len(wrong)} are false as published: {', '.join(wrong)}.\n"
    )


def _entry(claim: Claim) -> str:
    """Writes a claim as an entry of a list: names of tests are too long for the column of a table."""
    statement = _escaped(claim.statement) + ("" if claim.holds else " **False as published.**")
    if claim.remark:
        statement += f" *{_escaped(claim.remark)}*"
    checks = []
    if claim.run:
        checks.append(f"`omegamax reproduce {claim.id}`" + (" (measures time)" if claim.timed else ""))
    checks += _tests(claim.tests)
    if claim.benchmark:
        checks.append(f"`{claim.benchmark}`")
    if claim.recipe:
        checks.append(f"needs the trained recipe `{claim.recipe}`")
    if claim.reason:
        checks.append(_escaped(claim.reason))
    listed = "".join(f"    - {check}\n" for check in checks)
    return f"- **`{claim.id}`**, {_escaped(claim.where)}. {statement}\n{listed}"


def _tests(tests: Sequence[str]) -> list[str]:
    """Writes the file of each test once, then its tests."""
    files: dict[str, list[str]] = {}
    for test in tests:
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(name)
    return [f"`{file}`: " + ", ".join(map(_code, names)) for file, names in files.items()]


def _code(name: str) -> str:
    """Writes a name as code; a name that is longer than the line of a phone may be broken after its underscores."""
    return f"`{name}`" if len(name) <= 40 else f"<code>{name.replace('_', '_<wbr>')}</code>"


def _escaped(text: str) -> str:
    """Escapes the signs of Markdown, of which formulas have many."""
    return re.sub(r"([\\_*|\[\]])", r"\\\1", text).replace("<", "&lt;")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
