"""Writes claims as text: a list of all, and the table of one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from omegamax.reproductions.catalogue import SOURCES
from omegamax.reproductions.claim import Claim, Row, short

_HEAD = ("quantity", "published", "ours", "within", "agrees")
_VERDICTS = {True: "yes", False: "NO", None: ""}


def listing(claims: Sequence[Claim], width: int = 120) -> str:
    """Lists id, status, place and statement of each claim, under the name of its source."""
    lines: list[str] = []
    for source, title in SOURCES.items():
        chosen = [claim for claim in claims if claim.source == source]
        if chosen:
            lines += [textwrap.fill(f"{source}: {title}", width, subsequent_indent="  "), ""]
            lines += [_entry(claim, width) for claim in chosen]
            lines.append("")
    runs = sum(bool(claim.run) for claim in claims)
    wrong = sum(not claim.holds for claim in claims)
    lines.append(f"{len(claims)} claims: {runs} run here, of which {wrong} are false as published.")
    return "\n".join(lines)


def _entry(claim: Claim, width: int) -> str:
    figure = f", draws {claim.figure}" if claim.figure else ""
    body = textwrap.fill(
        f"{claim.where}: {claim.statement}", width, initial_indent="      ", subsequent_indent="      "
    )
    return f"  {claim.id}  [{claim.status}{figure}]\n{body}"


def heading(claim: Claim, width: int = 120) -> str:
    """Writes the id, the place and the statement of a claim."""
    lines = [f"{claim.id}  [{claim.status}]", f"{claim.source}, {claim.where}"]
    lines.append(textwrap.fill(claim.statement, width))
    return "\n".join(lines)


def comparison(rows: Sequence[Row]) -> str:
    """Writes published numbers beside ours, one quantity in a line."""
    return table([_HEAD, *((*row[:4], _VERDICTS[row.agrees]) for row in rows)])


def published_only(claim: Claim) -> str:
    """Writes the published numbers of a claim that cannot be run."""
    return table([("quantity", "published"), *((name, short(number)) for name, number in claim.published.items())])


def table(cells: Sequence[Sequence[str]]) -> str:
    """Writes rows of cells in columns, with a line under the first row."""
    widths = [max(len(cell) for cell in column) for column in zip(*cells)]
    lines = [_line(row, widths) for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _line(row: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
