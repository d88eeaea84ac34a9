"""Decomposable attention for sentence pairs (Parikh, Täckström, Das & Uszkoreit, EMNLP 2016): attend, compare, add up.

    scores[i, j] = F(h_i) · F(p_j)                of a word of the hypothesis and one of the premise
    c_i = Σ_j weights[i, j] p_j                   what word i reads of the premise; the other way round likewise
    logits = H [Σ_i G([h_i; c_i]); Σ_j G([p_j; d_j])]

The order of words plays no role, except in the alignment if that is a sequence or if the normalizer is fusedmax.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.attention.masking import zero_beyond
from omegamax.attention.scores import DotProduct
from omegamax.models.aligners import Aligner
from omegamax.models.pair_classifier import PairOutput


class DecomposableAttention(nn.Module):
    """Compares every word with what it reads of the other sentence, and adds up the comparisons.

    Arguments:
        in_features: of a word
        n_classes: how many labels there are
        aligner: decides what words read
        hidden_size: features inside
        dropout: the share of features that training drops

    >>> model = DecomposableAttention(5, 3, aligner=RowAligner(SquaredNorm()), hidden_size=8)
    >>> premise, hypothesis = torch.randn(2, 6, 5), torch.randn(2, 4, 5)
    >>> logits, alignment = model(premise, hypothesis, torch.tensor([6, 3]), torch.tensor([4, 2]))
    >>> logits.shape, alignment.hypothesis.weights.shape, alignment.premise.weights.shape
    (torch.Size([2, 3]), torch.Size([2, 4, 6]), torch.Size([2, 6, 4]))
    """

    def __init__(
        self, in_features: int, n_classes: int, *, aligner: Aligner, hidden_size: int = 200, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.project = nn.Linear(in_features, hidden_size)
        self.attend = _perceptron(hidden_size, hidden_size, dropout)
        self.score = DotProduct()
        self.aligner = aligner
        self.compare = _perceptron(2 * hidden_size, hidden_size, dropout)
        n_sides = 2 if aligner.both_ways else 1
        self.aggregate = nn.Sequential(
            _perceptron(n_sides * hidden_size, hidden_size, dropout), nn.Linear(hidden_size, n_classes)
        )

    def forward(
        self, premise: Tensor, hypothesis: Tensor, premise_lengths: Tensor, hypothesis_lengths: Tensor
    ) -> PairOutput:
        """Computes the logits (B, classes) of words (B, P, features) and (B, H, features), and the alignment.

        Arguments:
            premise: features of its words
            hypothesis: features of its words
            premise_lengths: (B,)
            hypothesis_lengths: (B,)
        """
        premise, hypothesis = self.project(premise), self.project(hypothesis)
        scores = self.score(self.attend(hypothesis), self.attend(premise))  # (B, H, P)
        alignment = self.aligner(scores, hypothesis_lengths, premise_lengths)
        sums = [self._sum(hypothesis, alignment.hypothesis.weights @ premise, hypothesis_lengths)]
        if alignment.premise is not None:
            sums.append(self._sum(premise, alignment.premise.weights @ hypothesis, premise_lengths))
        return PairOutput(self.aggregate(torch.cat(sums, -1)), alignment)

    def _sum(self, words: Tensor, read: Tensor, lengths: Tensor) -> Tensor:
        return zero_beyond(self.compare(torch.cat([words, read], -1)), lengths).sum(1)


def _perceptron(in_features: int, out_features: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(in_features, out_features),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(out_features, out_features),
        nn.ReLU(),
    )
