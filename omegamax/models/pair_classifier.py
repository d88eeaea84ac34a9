"""A classifier of sentence pairs: a reader of words below, any model of two sequences of features above."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.models.aligners import WordAlignment
from omegamax.models.pretrained_encoder import PieceBatch
from omegamax.models.sequence_tagger import WordReader
from omegamax.models.word_features import WordBatch


class PairBatch(NamedTuple):
    """B pairs of sentences: first all premises, then all hypotheses, as 2B rows of words."""

    words: WordBatch | None
    pieces: PieceBatch | None
    premise_lengths: Tensor  # (B,)
    hypothesis_lengths: Tensor  # (B,)
    labels: Tensor  # (B,); 0 where they are not known


class PairOutput(NamedTuple):
    """The scores of labels, and where the model looked."""

    logits: Tensor  # (B, classes)
    alignment: WordAlignment | None  # None without attention


class PairClassifier(nn.Module):
    """Reads the words of both sentences alike, and classifies the pair.

    Arguments:
        reader: makes the features of words
        classifier: takes features (B, P, size) and (B, H, size) of premise and hypothesis with their lengths
    """

    def __init__(self, reader: WordReader, classifier: nn.Module) -> None:
        super().__init__()
        self.reader, self.classifier = reader, classifier
        # Tables, files of vectors and encoders differ in scale, and scores are products of two vectors.
        self.norm = nn.LayerNorm(reader.size)

    def forward(self, batch: PairBatch) -> PairOutput:
        """Computes the logits of a `batch`."""
        lengths = [batch.premise_lengths, batch.hypothesis_lengths]
        words = self.norm(self.reader(batch.words, batch.pieces, torch.cat(lengths)))
        premise, hypothesis = (part[:, : int(n.max())] for part, n in zip(words.split(len(lengths[0])), lengths))
        return self.classifier(premise, hypothesis, *lengths)
