"""Words as they can be printed: in any script for which a font is installed, and never as a formula.

The typeface of the figures has Latin, Greek and Cyrillic letters. What it lacks is taken from DejaVu Sans, which comes
with matplotlib, then from whatever font of this machine has it. A character that none of them has becomes □, so that
drawing never fails and never warns.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

FAMILIES = ("STIXGeneral", "DejaVu Sans")  # Times-like, then what knows most scripts; both ship with matplotlib
MISSING = "□"
_SEEN = {"\n": "↵", "\r": "↵", "\t": "⇥"}  # in a token they matter, and would else be nothing
# Formula fonts have letters in places that are not theirs, the last resort has frames, and colour fonts do not draw.
_NOT_FOR_TEXT = ("cmb", "cmex", "cmmi", "cmr", "cmss", "cmsy", "cmtt", "STIX", "DejaVu", "Last Resort", "LastResort")


def printable(text: object) -> str:
    """The text, with □ for what no font has; dollars are dollars, not the signs of a formula."""
    drawn = "".join(_drawn(character) for character in unicodedata.normalize("NFC", str(text)))
    return drawn.replace("$", r"\$")


def name(text: object, *, max_characters: int = 48) -> str:
    """A title or an entry of a legend: one that would fill the figure loses its middle; names differ at the ends."""
    whole = str(text)
    if len(whole) > max_characters:
        kept = max_characters - 1
        whole = f"{whole[: kept - kept // 2]}…{whole[-(kept // 2) :]}"
    return printable(whole)


def token(text: object, *, max_characters: int = 24) -> str:
    """A label of one line: spaces are seen where there is nothing else, and long ones end in an ellipsis."""
    whole = "".join(_SEEN.get(character, character) for character in str(text))
    if whole.isspace():
        whole = "␣" * len(whole)
    if len(whole) > max_characters:
        whole = whole[: max_characters - 1] + "…"
    return printable(whole) or MISSING * bool(whole)


def width(label: str, size: float) -> float:
    """Inches that a label takes at this type size, about: enough to choose the size of a figure."""
    wide = sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.53 for character in label)
    return wide * size / 72


def families(texts: Iterable[object]) -> list[str]:
    """The fonts that these texts need, the usual ones first."""
    needed = {font for text in texts for character in str(text) if (font := _font_of(character)) is not None}
    return [*FAMILIES, *sorted(needed - set(FAMILIES))]


def labels(who: str, name: str, given: Sequence[object] | None, count: int) -> list[str]:
    """As many tokens as there are places, or none at all."""
    if given is None or len(given) == 0:
        return []
    if len(given) != count:
        raise ValueError(f"{who}: {name} must name each of the {count}, got {len(given)}; give one label each")
    return [token(label) for label in given]


def _drawn(character: str) -> str:
    if character == "\n":
        return character
    kind = unicodedata.category(character)
    if kind == "Cf":  # marks of direction and joining, seen in what they do to others
        return ""
    return character if kind[0] != "C" and _font_of(character) is not None else MISSING


@functools.cache
def _font_of(character: str) -> str | None:
    """The family that will draw the character."""
    for family in FAMILIES:
        if _has(family, character):
            return family
    for family in _installed():
        if _has(family, character):
            return family
    return None


def _has(family: str, character: str) -> bool:
    font = _opened(family)
    return font is not None and font.get_char_index(ord(character)) != 0


@functools.cache
def _installed() -> tuple[str, ...]:
    names = {entry.name for entry in font_manager.fontManager.ttflist}
    fit = (name for name in names if not name.startswith(_NOT_FOR_TEXT) and "Emoji" not in name and "Color" not in name)
    return tuple(
        sorted(fit, key=lambda name: ("Sans" not in name, name))
    )  # one family for a whole script, if it can be


@functools.cache
def _opened(family: str) -> FT2Font | None:
    """The file that matplotlib takes for this family, or None where it cannot be read."""
    try:
        path = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=False)
        return font_manager.get_font(path)
    except (ValueError, RuntimeError, OSError):
        return None
