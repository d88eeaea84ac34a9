"""Text of strangers, made fit to be shown.

Vocabularies, names of tasks, paths and lines of a file may hold characters that change what a terminal or a page shows:
ESC moves the cursor, a newline fakes a second message, U+202E turns the rest of the line around. Everything that is
printed, drawn or put into a report and that we have not written ourselves goes through `visible`.
"""

from __future__ import annotations

import unicodedata
from typing import Any

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi marks too), surrogates, separators of lines
_JOINERS = "\u200c\u200d"  # of Persian, of Indic scripts and of emoji: they belong to the words
_MARK = " … "


def visible(text: object, *, most: int | None = None) -> str:
    """The text with characters that hide or move others written as escapes, and its middle left out beyond `most`.

    >>> print(visible("a\\x1b[2Jb\\nc\\u202ed"))
    a\\x1b[2Jb\\nc\\u202ed
    >>> visible("0123456789", most=7)
    '01 … 89'
    """
    shown = str(text)
    if most is not None and len(shown) > most:
        left = (most - len(_MARK)) // 2
        shown = shown[: most - len(_MARK) - left] + _MARK + shown[len(shown) - left :]
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(_escaped(letter) if _hides(letter) else letter for letter in shown)


def quoted(value: Any) -> str:
    """A value in an error message: its repr, cut where it is long, fit to be shown.

    >>> quoted([1, 2]), quoted("a\\x07")
    ('[1, 2]', "'a\\\\x07'")
    """
    try:
        return visible(repr(value), most=80)
    except (ValueError, RecursionError):  # Python writes no whole numbers of more than 4300 digits
        return f"a value of type {type(value).__name__} that is too long to print"


def _hides(letter: str) -> bool:
    return unicodedata.category(letter) in _HIDDEN and letter not in _JOINERS


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
