"""Sequence to sequence: any pairs of texts. Transliteration, spelling, short translations.

    omegamax train seq2seq --data pairs.tsv --level word --attention sparsemax

The data is a table of two columns, source and target (see omegamax/data/tsv.py); loss and metrics are those of
text_to_text.py.
"""

from __future__ import annotations

from typing import ClassVar

from omegamax.data.tsv import read_splits
from omegamax.models import EncoderDecoder
from omegamax.recipes.encoder_decoder import encoder_decoder
from omegamax.recipes.settings import Seq2SeqSettings
from omegamax.recipes.text_to_text import Texts, TextToText


class SequenceToSequence(TextToText):
    """Learns to write the second column of a table from the first."""

    name: ClassVar[str] = "seq2seq"
    metric: ClassVar[str] = "bleu"
    settings_type: ClassVar[type] = Seq2SeqSettings

    @classmethod
    def read_texts(cls, settings: Seq2SeqSettings) -> dict[str, list[Texts]]:
        """Reads the rows of the table."""
        if settings.data is None:
            raise ValueError(
                "seq2seq: data is missing; give a TSV file with two columns, or a directory with train.tsv, dev.tsv "
                "and test.tsv (--data PATH)"
            )
        tables = read_splits(settings.data, ("source", "target"))
        return {split: [Texts(source, target) for source, target in rows] for split, rows in tables.items()}

    def model(self) -> EncoderDecoder:
        return encoder_decoder(self.settings, len(self.source), len(self.target))
