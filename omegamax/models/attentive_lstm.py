"""The attentive reader of sentence pairs of Rocktäschel et al. (ICLR 2016): one look back at the premise.

    m_1 ... m_P = LSTM(premise)
    h_1 ... h_H = LSTM(hypothesis), beginning with the last state of the first
    p = argmax_Ω over k of  vᵀ tanh(W h_H + U m_k)       weights of the words of the premise
    logits = V tanh(A Σ_k p_k m_k + B h_H)

It is the model of Martins & Astudillo (ICML 2016) and of table 1 and figure 3 of Niculae & Blondel (NIPS 2017), who had
GRUs for LSTMs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax.attention.attention import Attention
from omegamax.models.aligners import Reading, WordAlignment
from omegamax.models.pair_classifier import PairOutput


class AttentiveLSTM(nn.Module):
    """Reads the premise, then the hypothesis, and looks back at the premise once.

    Arguments:
        in_features: of a word
        n_classes: how many labels there are
        attention: of the last state of the hypothesis over the states of the premise, whose features have the size
            `hidden_size`; None looks at nothing: the last state has to say all
        hidden_size: features of a state
        dropout: the share of features that training drops

    >>> attention = Attention(Additive(8, 8), normalizer=SquaredNorm())
    >>> model = AttentiveLSTM(5, 3, attention=attention, hidden_size=8)
    >>> premise, hypothesis = torch.randn(2, 6, 5), torch.randn(2, 4, 5)
    >>> logits, alignment = model(premise, hypothesis, torch.tensor([6, 3]), torch.tensor([4, 2]))
    >>> logits.shape, alignment.hypothesis.weights.shape
    (torch.Size([2, 3]), torch.Size([2, 1, 6]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        attention: Attention | None,
        hidden_size: int = 100,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.of_premise = nn.LSTM(in_features, hidden_size, batch_first=True)
        self.of_hypothesis = nn.LSTM(in_features, hidden_size, batch_first=True)
        self.attention = attention
        self.combine = nn.Linear(hidden_size if attention is None else 2 * hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_size, n_classes)

    def forward(
        self, premise: Tensor, hypothesis: Tensor, premise_lengths: Tensor, hypothesis_lengths: Tensor
    ) -> PairOutput:
        """Computes the logits (B, classes) of words (B, P, features) and (B, H, features), and where it looked.

        Arguments:
            premise: features of its words
            hypothesis: features of its words
            premise_lengths: (B,)
            hypothesis_lengths: (B,)
        """
        states = read_pair(
            self.of_premise, self.of_hypothesis, premise, hypothesis, premise_lengths, hypothesis_lengths
        )
        query = states.last.unsqueeze(1)  # (B, 1, hidden)
        if self.attention is None:
            return PairOutput(self._logits(query), None)
        context, weights = self.attention(query, states.premise, lengths=premise_lengths)
        return PairOutput(self._logits(torch.cat([context, query], -1)), WordAlignment(Reading(weights, None), None))

    def _logits(self, read: Tensor) -> Tensor:
        return self.out(self.dropout(self.combine(self.dropout(read)).tanh())).squeeze(1)


class PairStates(NamedTuple):
    """States of both sentences, zero beyond their lengths."""

    premise: Tensor  # (B, P, hidden)
    hypothesis: Tensor  # (B, H, hidden)
    last: Tensor  # (B, hidden), after the last word of the hypothesis


def read_pair(
    of_premise: nn.LSTM,
    of_hypothesis: nn.LSTM,
    premise: Tensor,
    hypothesis: Tensor,
    premise_lengths: Tensor,
    hypothesis_lengths: Tensor,
) -> PairStates:
    """Reads the premise, and then the hypothesis from the state in which the premise ended.

    Arguments:
        of_premise: reads the premise
        of_hypothesis: reads the hypothesis
        premise: features of its words, (B, P, features)
        hypothesis: features of its words, (B, H, features)
        premise_lengths: (B,)
        hypothesis_lengths: (B,)
    """
    states, last = of_premise(_packed(premise, premise_lengths))
    others, (ending, _) = of_hypothesis(_packed(hypothesis, hypothesis_lengths), last)
    padded, _ = pad_packed_sequence(states, batch_first=True, total_length=premise.shape[1])
    other, _ = pad_packed_sequence(others, batch_first=True, total_length=hypothesis.shape[1])
    return PairStates(padded, other, ending.squeeze(0))


def _packed(words: Tensor, lengths: Tensor) -> nn.utils.rnn.PackedSequence:
    return pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
