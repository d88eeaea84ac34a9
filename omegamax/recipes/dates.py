"""Dates written in many languages and styles, to ISO form: `seq2seq` with generated data.

    omegamax train dates --attention fusedmax

"vendredi 3 mars 2017", "3/3/17" and "Mar. 3rd, 2017" all become 2017-03-03. The locale is the first token of the input,
because 03/04/17 means nothing without it.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar

from omegamax.data.date_patterns import LOCALES, as_typed, babel_locale
from omegamax.data.dates import WrittenDate, generate_dates
from omegamax.data.tsv import SPLITS, Row, read_splits
from omegamax.models import EncoderDecoder
from omegamax.recipes.encoder_decoder import encoder_decoder
from omegamax.recipes.settings import DatesSettings
from omegamax.recipes.text_to_text import TextPair, Texts, TextToText

_MIN_EXAMPLES = 100  # of dev and test


class Dates(TextToText):
    """Learns to read dates."""

    name: ClassVar[str] = "dates"
    metric: ClassVar[str] = "exact_match"
    settings_type: ClassVar[type] = DatesSettings
    settings: DatesSettings

    @classmethod
    def read_texts(cls, settings: DatesSettings) -> dict[str, list[Texts]]:
        """Generates dates, or reads the rows of a table of locale, text and ISO date."""
        default_locale(settings)  # raises ValueError now rather than at the first prediction
        if settings.data is None:
            return {split: _texts(_generate(settings, split)) for split in SPLITS}
        known = locales_of(settings)

        def check(row: Row) -> None:
            _check_locale(row[0], known)
            _check_iso(row[2])

        tables = read_splits(settings.data, ("locale", "text", "date"), check)
        return {
            split: _texts(WrittenDate(_check_locale(locale, known), as_typed(text), iso) for locale, text, iso in rows)
            for split, rows in tables.items()
        }

    @classmethod
    def reserved(cls, settings: DatesSettings) -> Sequence[str]:
        """Returns one token for each locale."""
        return [_token(locale) for locale in locales_of(settings)]

    def model(self) -> EncoderDecoder:
        return encoder_decoder(self.settings, len(self.source), len(self.target))

    def read(self, lines: Iterable[str]) -> list[TextPair]:
        """Makes an example of each line: "fr<TAB>vendredi 3 mars 2017", or only the text for the default locale."""
        return self.make_examples(_texts(self._dates(lines, n_columns=2)))

    def read_scored(self, lines: Iterable[str]) -> list[TextPair]:
        """Makes an example of each line with a locale, a text and an ISO date, separated by tabs."""
        return self.make_examples(_texts(self._dates(lines, n_columns=3)))

    def _dates(self, lines: Iterable[str], n_columns: int) -> list[WrittenDate]:
        known, default = locales_of(self.settings), default_locale(self.settings)
        dates = []
        for number, line in enumerate(lines, start=1):
            locale, tab, text = line.rstrip("\r\n").partition("\t")
            if not tab:
                locale, text = default, line
            text, _, iso = text.partition("\t")
            try:
                if n_columns == 3:
                    _check_iso(iso)
                locale = _check_locale(locale.strip(), known)
                dates.append(WrittenDate(locale, as_typed(text), iso if n_columns == 3 else ""))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        return dates


def locales_of(settings: DatesSettings) -> list[str]:
    """Returns the locales that the settings name, each checked; about fifty if they name none."""
    named = [name.strip().replace("-", "_") for name in settings.locales.split(",") if name.strip()]
    for name in named:
        babel_locale(name)
    return list(dict.fromkeys(named)) or list(LOCALES)


def default_locale(settings: DatesSettings) -> str:
    """Returns the locale of lines that name none: that of the settings, or English, or the first of the locales."""
    known = locales_of(settings)
    if settings.default_locale:
        return _check_locale(settings.default_locale, known)
    return "en" if "en" in known else known[0]


def _generate(settings: DatesSettings, split: str) -> list[WrittenDate]:
    count = settings.examples if split == "train" else max(_MIN_EXAMPLES, settings.examples // 20)
    return generate_dates(count, split, seed=settings.data_seed, locales=locales_of(settings), typos=settings.typos)


def _texts(dates: Iterable[WrittenDate]) -> list[Texts]:
    return [Texts(date.text, date.iso, (_token(date.locale),)) for date in dates]


def _token(locale: str) -> str:
    return f"<{locale}>"


def _check_locale(locale: str, known: Sequence[str]) -> str:
    locale = locale.replace("-", "_")
    if locale in known:
        return locale
    close = difflib.get_close_matches(locale, known, n=2)
    advice = f"did you mean {' or '.join(close)}?" if close else f"use one of {', '.join(known)}"
    raise ValueError(f"locale {locale!r} is not among those of the settings; {advice}")


def _check_iso(text: str) -> None:
    try:
        if datetime.date.fromisoformat(text).isoformat() == text:  # newer Pythons also read 20170303
            return
    except ValueError:
        pass
    raise ValueError(f"expected a date such as 2017-03-03, got {text!r}; correct or remove the line")
