"""Prepares text for figures: any script for which a font is installed, and never a formula.

The typeface of the figures has Latin, Greek and Cyrillic letters. What it lacks is taken from DejaVu Sans, which comes
with matplotlib, then from whatever font of this machine has it, and then from a character that means the same: ａ is a.
A character that cannot be had is named by its code point, as in U+1F600, so that drawing never fails and never warns.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterable, Sequence

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

FAMILIES = ("STIXGeneral", "DejaVu Sans")  # Times-like, then one with most scripts; both ship with matplotlib
_STAND_INS = {"￭": "▪"}  # the joiner of word pieces is a small square, and few fonts have it
_VARIANTS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))  # choose a form of the character before them
_SEEN = {"\n": "↵", "\r": "↵", "\t": "⇥"}  # they matter in a token, and would be invisible
# Formula fonts have letters in places that are not theirs, the last resort has frames, and colour fonts draw nothing.
_NOT_FOR_TEXT = ("cmb", "cmex", "cmmi", "cmr", "cmss", "cmsy", "cmtt", "STIX", "DejaVu", "Last Resort", "LastResort")


def printable(text: object) -> str:
    r"""Replaces characters that no font can draw; dollars stay dollars and do not start a formula.

    >>> printable("a\U000e0fffb"), printable("\U000e0fff")
    ('a<U+E0FFF>b', 'U+E0FFF')
    """
    return _joined(_pieces(text))


def title(text: object, *, max_characters: int = 48) -> str:
    """Prepares a title or an entry of a legend; a long one loses its middle, because names differ at the ends."""
    pieces = _pieces(text)
    if sum(map(len, pieces)) > max_characters:
        kept = max_characters - 1
        end = _first(reversed(pieces), kept // 2)
        pieces = [*_first(pieces, kept - kept // 2), "…", *reversed(end)]
    return _joined(pieces)


def label(text: object, *, max_characters: int = 24) -> str:
    """Prepares a label of one line: a label of spaces shows them, and a long one ends in an ellipsis."""
    whole = "".join(_SEEN.get(character, character) for character in str(text))
    if whole.isspace():
        whole = "␣" * len(whole)
    pieces = _pieces(whole)
    if sum(map(len, pieces)) > max_characters:
        pieces = [*_first(pieces, max_characters - 1), "…"]
    if whole and not pieces:  # only marks, which are invisible by themselves
        pieces = [_code_point(whole[0])]
    return _joined(pieces)


def width(label: str, size: float) -> float:
    """Estimates the inches that a label takes at this type size, to choose the size of a figure."""
    wide = sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.53 for character in label)
    return wide * size / 72


def font_families(texts: Iterable[object]) -> list[str]:
    """Returns the fonts that these texts need, the usual ones first."""
    drawn = {character for text in texts for piece in _pieces(text) for character in piece}
    needed = {font for character in drawn if (font := _font_of(character)) is not None}
    return [*FAMILIES, *sorted(needed - set(FAMILIES))]


def labels(who: str, name: str, given: Sequence[object] | None, count: int) -> list[str]:
    """Prepares one label for each place, or none at all."""
    if given is None or len(given) == 0:
        return []
    if len(given) != count:
        raise ValueError(f"{who}: {name} must name each of the {count}, got {len(given)}; give one label each")
    return [label(each) for each in given]


def _joined(pieces: Iterable[str]) -> str:
    return "".join(pieces).replace("$", r"\$")


def _first(pieces: Iterable[str], max_characters: int) -> list[str]:
    """Returns as many whole pieces as have room."""
    pieces = list(pieces)
    ends = itertools.accumulate(map(len, pieces))
    return [piece for piece, end in zip(pieces, ends) if end <= max_characters]


def _pieces(text: object) -> list[str]:
    """Returns what is drawn for each character: itself, a character that means the same, or its code point."""
    characters = unicodedata.normalize("NFC", str(text))
    pieces = [piece for character in characters if (piece := _drawn(character)) != ""]
    if len(pieces) == 1 and pieces[0].startswith("<U+"):
        return [pieces[0][1:-1]]  # no other characters are beside it, so it needs no brackets
    return pieces


def _drawn(character: str) -> str:
    if character == "\n":
        return character
    kind = unicodedata.category(character)
    if kind == "Cf" or any(ord(character) in variants for variants in _VARIANTS):
        return ""  # marks of direction, joining and form only change the characters beside them
    if kind[0] == "C":
        return f"<{_code_point(character)}>"
    if _font_of(character) is not None:
        return character
    same = _STAND_INS.get(character) or unicodedata.normalize("NFKC", character)
    if same != character and all(_font_of(each) is not None for each in same):
        return same
    return f"<{_code_point(character)}>"


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


@functools.cache
def _font_of(character: str) -> str | None:
    """Finds the font family that draws the character; None if there is none."""
    for family in FAMILIES:
        if _has(family, character):
            return family
    for family in _installed():
        if _has(family, character):
            return family
    return None


def _has(family: str, character: str) -> bool:
    font = _opened(family)
    return font is not None and font.scalable and font.get_char_index(ord(character)) != 0


@functools.cache
def _installed() -> tuple[str, ...]:
    names = {entry.name for entry in font_manager.fontManager.ttflist}
    fit = (name for name in names if not name.startswith(_NOT_FOR_TEXT) and "Color" not in name)
    return tuple(
        sorted(fit, key=lambda name: ("Sans" not in name, name))
    )  # one family for a whole script, if it can be


@functools.cache
def _opened(family: str) -> FT2Font | None:
    """Opens the file that matplotlib uses for this family; None if it cannot be read."""
    try:
        path = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=False)
        return font_manager.get_font(path)
    except (ValueError, RuntimeError, OSError):
        return None
