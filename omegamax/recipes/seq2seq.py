"""Sequence to sequence: any pairs of texts. Translation, transliteration, summarization of short texts.

    omegamax train seq2seq --data pairs.tsv --level word --attention sparsemax

The data is a table of two columns, source and target (see data/tsv.py); model and metrics are in text_to_text.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from omegamax.data.tsv import read_splits
from omegamax.data.vocabulary import split_text
from omegamax.recipes.text_to_text import TextPair, TextToText, check_lengths, usable
from omegamax.training.settings import Seq2SeqSettings


class SequenceToSequence(TextToText):
    """Learns to write the second column of a table from the first."""

    metric: ClassVar[str] = "bleu"
    settings_type: ClassVar[type] = Seq2SeqSettings

    @classmethod
    def read_pairs(cls, settings: Seq2SeqSettings) -> dict[str, list[TextPair]]:
        """The rows of the table; those that are too long are left out of the training data."""
        if settings.data is None:
            raise ValueError(
                "seq2seq: data is missing; give a TSV file with two columns, or a directory with train.tsv, dev.tsv "
                "and test.tsv (--data PATH)"
            )
        pairs = {
            split: [TextPair(tuple(split_text(source, settings.level)), target) for source, target in rows]
            for split, rows in read_splits(settings.data, ("source", "target")).items()
        }
        return usable(pairs, settings)

    @classmethod
    def reserved(cls, settings: Seq2SeqSettings) -> Sequence[str]:
        """None."""
        return ()

    def read(self, lines: Iterable[str]) -> list[TextPair]:
        """One source per line; of a table, the first column."""
        level = self.settings.level
        pairs = [TextPair(tuple(split_text(line.split("\t")[0].strip(), level)), "") for line in lines]
        check_lengths(pairs, level)
        return pairs
