"""Tables of text with aligned columns."""

from __future__ import annotations

import shutil
from collections.abc import Sequence


def terminal_width() -> int:
    """Returns the columns of the terminal; 80 if there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Aligns columns, each as wide as its widest cell: the first to the left and the others to the right.

    Columns that do not fit into `width` follow below, in a table of their own with the same first column.

    >>> print(aligned([["", "dev"], ["exact_match", "0.98"]]))
                  dev
    exact_match  0.98
    >>> print(aligned([["", "a", "b"], ["x", "100", "200"]], width=7))
         a
    x  100
    <BLANKLINE>
         b
    x  200
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n\n".join(_table(rows, widths, columns) for columns in _blocks(widths, width))


def _blocks(widths: Sequence[int], most: int | None) -> list[list[int]]:
    """Groups the columns after the first, so that each group fits beside it."""
    blocks: list[list[int]] = [[]]
    taken = widths[0]
    for column in range(1, len(widths)):
        taken += 2 + widths[column]
        if most is not None and taken > most and blocks[-1]:
            blocks.append([])
            taken = widths[0] + 2 + widths[column]
        blocks[-1].append(column)
    return blocks


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int], columns: Sequence[int]) -> str:
    lines = []
    for row in rows:
        cells = [row[column].rjust(widths[column]) for column in columns]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Writes a number with four digits, or a dash for None.

    >>> number(0.98765), number(123456.0), number(None)
    ('0.9877', '123456', '–')
    """
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
