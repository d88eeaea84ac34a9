"""Sequence to sequence: any pairs of texts. Translation, transliteration, summarization of short texts.

    omegamax train seq2seq --data pairs.tsv --level word --attention sparsemax

The data is a table of two columns, source and target (see omegamax/data/tsv.py); model, loss and metrics are those of
text_to_text.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from omegamax.data.tsv import read_splits
from omegamax.data.vocabulary import split_text
from omegamax.recipes.settings import Seq2SeqSettings
from omegamax.recipes.text_to_text import TextPair, TextToText, check_lengths, limit_lengths


class SequenceToSequence(TextToText):
    """Learns to write the second column of a table from the first."""

    name: ClassVar[str] = "seq2seq"
    metric: ClassVar[str] = "bleu"
    settings_type: ClassVar[type] = Seq2SeqSettings

    @classmethod
    def read_pairs(cls, settings: Seq2SeqSettings) -> dict[str, list[TextPair]]:
        """Reads the rows of the table; leaves out training examples that are too long."""
        if settings.data is None:
            raise ValueError(
                "seq2seq: data is missing; give a TSV file with two columns, or a directory with train.tsv, dev.tsv "
                "and test.tsv (--data PATH)"
            )
        pairs = {
            split: [TextPair(tuple(split_text(source, settings.level)), target) for source, target in rows]
            for split, rows in read_splits(settings.data, ("source", "target")).items()
        }
        return limit_lengths(pairs, settings)

    def read(self, lines: Iterable[str]) -> list[TextPair]:
        """Makes an example of each line: all of it, or the first column of a table."""
        level = self.settings.level
        pairs = [TextPair(tuple(split_text(line.split("\t")[0].strip(), level)), "") for line in lines]
        check_lengths(pairs, level)
        return pairs
