"""Tables for people to read."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the first to the left and the others to the right.

    >>> print(aligned([["", "dev"], ["exact_match", "0.98"]]))
                  dev
    exact_match  0.98
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:])]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Four digits, or a dash.

    >>> number(0.98765), number(123456.0), number(None)
    ('0.9877', '123456', '–')
    """
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
