"""Makes text from outside safe to print.

Vocabularies, names of tasks, paths and lines of a file may hold characters that change what a terminal or a page shows:
ESC moves the cursor, a newline imitates a second message, U+202E reverses the rest of the line. Every text that comes
from outside passes through `printable` before it is printed, drawn or put into a report.
"""

from __future__ import annotations

import unicodedata
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi marks too), surrogates, separators of lines
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji need them: they belong to the words
_GAP = " … "


def printable(text: object, *, max_length: int | None = None) -> str:
    """Writes characters that hide or move others as escapes, and leaves out the middle of texts over `max_length`.

    >>> print(printable("a\\x1b[2Jb\\nc\\u202ed"))
    a\\x1b[2Jb\\nc\\u202ed
    >>> printable("0123456789", max_length=7)
    '01 … 89'
    """
    shown = str(text)
    if max_length is not None and len(shown) > max_length:
        right = (max_length - len(_GAP)) // 2
        shown = shown[: max_length - len(_GAP) - right] + _GAP + shown[len(shown) - right :]
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(_escape(letter) if _is_hidden(letter) else letter for letter in shown)


def short_repr(value: Any) -> str:
    """Returns the repr of a value for an error message: printable, and shortened where it is long.

    >>> short_repr([1, 2]), short_repr("a\\x07")
    ('[1, 2]', "'a\\\\x07'")
    """
    try:
        return printable(repr(value), max_length=80)
    except (ValueError, RecursionError):  # Python writes no whole numbers of more than 4300 digits
        return f"a value of type {type(value).__name__} that is too long to print"


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in _HIDDEN and letter not in _JOINERS


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
