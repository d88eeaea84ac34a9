"""The settings of `omegamax train dates`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.recipes.settings.limits import MAX_LENGTH
from omegamax.recipes.settings.seq2seq import Seq2SeqSettings
from omegamax.training.settings import check_field, option


@dataclass(frozen=True)
class DatesSettings(Seq2SeqSettings):
    """Dates of many locales to ISO form; data=None generates them."""

    data: str | None = option(
        None, "a TSV of locale, text and ISO date, or a directory; generated if left out", metavar="PATH"
    )
    level: str = option("char", "what a token is: a character or a word", choices=("char", "word"))
    max_length: int = option(
        60, "longer training examples are left out, and no output is longer", least=1, most=MAX_LENGTH
    )
    examples: int = option(
        40_000, "training examples to generate; a twentieth as many for dev and test each", least=1, most=1_000_000
    )
    locales: str = option("", "comma-separated CLDR locales (fr,en_GB); left out, about fifty", metavar="LIST")
    default_locale: str = option("", "locale of input lines that name none; left out, en, or the first of the locales")
    typos: float = option(0.0, "probability of a typing error in an input")
    data_seed: int = option(0, "seed of the generated dates and their splits", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "typos", 0 <= self.typos <= 1, "a probability, from 0 to 1")
