"""How dates are written in each locale: CLDR's patterns through Babel, and some that people write by hand.

Patterns use CLDR's letters (d day, M month, y year, E weekday). Years run from 1970 to 2069, so that two digits tell
the year, and a locale's numeric patterns keep one order of day and month: 03/04/17 has one reading.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from omegamax.extras import how_to_install

if TYPE_CHECKING:
    from babel import Locale

FIRST, LAST = datetime.date(1970, 1, 1), datetime.date(2069, 12, 31)

LOCALES = tuple(
    """
    af ar_EG bg bn ca cs da de el en en_CA en_GB es et eu fa fi fil fr fr_CA he hi hr hu hy id is it ja ka ko lt lv
    ms nb ne nl pl pt ro ru sk sl sr sv sw ta th tr uk vi zh zh_Hant
    """.split()  # noqa: SIM905
)

_LENGTHS = ("short", "medium", "long", "full")
_SKELETONS = ("yMd", "yMMMd", "yMMMEd", "yMMMMd")
_EVERYWHERE = ("y-MM-dd", "dd MMM y", "d-MMM-y", "d MMMM y")
_NTH = "{nth}"  # the day as an ordinal number
_BY_HAND = {
    "en": (f"MMM. {_NTH}, y", f"MMMM {_NTH}, y", f"{_NTH} 'of' MMMM, y", "EEE MMM d y", "MMM d ''yy"),
    "fr": (f"'le' {_NTH} MMMM y", f"EEEE {_NTH} MMMM y", "EEE d MMM y"),
    "de": ("'den' d. MMMM y", "EEEE, 'der' d. MMMM y", "EEE d. MMM y"),
    "es": ("'el' d 'de' MMMM 'de' y", "d MMMM, y"),
    "it": (f"{_NTH} MMMM y", "'il' d MMMM y"),
    "pt": ("d 'de' MMMM, y", "EEE, d 'de' MMM y"),
    "nl": (f"{_NTH} MMMM y",),
    "ja": ("y年MM月dd日", "y.M.d"),
    "ko": ("y년 M월 d일", "y.MM.dd"),
    "zh": ("y年MM月dd日", "y.M.d"),
}

_ZEROS = {"arab": "٠", "arabext": "۰", "beng": "০", "deva": "०", "khmr": "០", "mymr": "၀", "tibt": "༠"}
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200e\u200f\u061c\ufeff"))  # marks of direction and the like


class Style(NamedTuple):
    """One way to write dates in a locale."""

    pattern: str
    digits: str  # "" for 0-9, else the locale's own zero


def write(date: datetime.date, locale: str, style: Style) -> str:
    """Writes a date in this locale and style, as a user would type it (see `as_typed`)."""
    from babel.dates import DateTimeFormat

    cldr = babel_locale(locale)
    pattern = style.pattern
    if _NTH in pattern:
        pattern = pattern.replace(_NTH, f"'{_ordinal(date.day, cldr.language)}'")
    text = _parsed(pattern) % DateTimeFormat(date, cldr)
    if style.digits:
        text = text.translate({ord(str(digit)): chr(ord(style.digits) + digit) for digit in range(10)})
    return as_typed(text)


def as_typed(text: str) -> str:
    """Returns a text as a keyboard gives it: plain characters and spaces, and no invisible marks.

    >>> as_typed("3\u202fмарта\u00a0 2017")
    '3 марта 2017'
    """
    return " ".join(unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).split())


@functools.cache
def styles(locale: str) -> tuple[Style, ...]:
    """Returns all styles of a locale: CLDR's four lengths and common skeletons, then what people write by hand."""
    cldr = babel_locale(locale)
    patterns = [str(cldr.date_formats[length].pattern) for length in _LENGTHS]
    patterns += [str(cldr.datetime_skeletons[name].pattern) for name in _SKELETONS if name in cldr.datetime_skeletons]
    plain_months = not any(char.isdigit() for name in month_names(locale) for char in name)
    patterns += [p for p in _EVERYWHERE if plain_months or "MMM" not in p]
    patterns += _BY_HAND.get(cldr.language, ())
    zero = _ZEROS.get(cldr.default_numbering_system, "")
    digits = ("", zero) if zero else ("",)
    return tuple(Style(p, zero) for p in _unambiguous(dict.fromkeys(patterns)) for zero in digits)


def _unambiguous(patterns: Iterable[str]) -> list[str]:
    """Keeps patterns of whole dates; leaves out a numeric one that orders day, month and year unlike an earlier one.

    A year of four digits at the front is always kept, because month and day follow it in every locale.
    """
    kept, order = [], None
    for pattern in patterns:
        fields = re.sub(r"'[^']*'", "", pattern.replace(_NTH, "d"))  # without quoted text
        letters = "".join(dict.fromkeys(re.sub(r"[^dMy]", "", fields)))
        if sorted(letters) != ["M", "d", "y"]:
            continue
        if "MMM" not in fields and (letters != "yMd" or "yy" in fields):
            order = order or letters
            if letters != order:
                continue
        kept.append(pattern)
    return kept


@functools.cache
def month_names(locale: str) -> dict[str, int]:
    """Returns every name of a month, in lower case as typed, with its number."""
    months = babel_locale(locale).months
    return {
        as_typed(name).lower(): number
        for context in ("format", "stand-alone")
        for width in ("wide", "abbreviated")
        for number, name in months[context][width].items()
    }


@functools.cache
def babel_locale(locale: str) -> Locale:
    """Returns CLDR's data of a locale such as "fr" or "en_GB"."""
    try:
        from babel import Locale, UnknownLocaleError, localedata
    except ImportError:
        raise ImportError(f"dates need Babel; {how_to_install('nlp')}") from None
    # Babel keeps what it resolved for one locale in tables that others share: after Japanese, Lithuanian months would
    # have Japanese names. With its cache emptied before and after, this locale has tables of its own.
    localedata._cache.clear()
    try:
        parsed = Locale.parse(locale)
        _ = parsed.months  # reads them
    except (ValueError, UnknownLocaleError):
        close = difflib.get_close_matches(locale, localedata.locale_identifiers(), n=3)
        advice = f"did you mean {' or '.join(close)}?" if close else "use CLDR's names, such as fr or en_GB"
        raise ValueError(f"dates: unknown locale {locale!r}; {advice}") from None
    finally:
        localedata._cache.clear()
    return parsed


@functools.cache
def _parsed(pattern: str):
    from babel.dates import parse_pattern

    return parse_pattern(pattern)


def _ordinal(day: int, language: str) -> str:
    """Returns 1st, 2nd ... in English, 1e in Dutch, 1er in French, 1º in Italian; the last two have no 2nd."""
    if language == "en":
        return f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    if language == "nl":
        return f"{day}e"
    return f"{day}{ {'fr': 'er', 'it': 'º'}[language] }" if day == 1 else str(day)
