"""The word-by-word attention of Rocktäschel et al. (ICLR 2016): a look at the premise for each word of the hypothesis.

    m_1 ... m_P = LSTM(premise)
    h_1 ... h_H = LSTM(hypothesis), beginning with the last state of the first
    p_t = argmax_Ω over k of  vᵀ tanh(W m_k + U h_t + R r_{t−1})       weights of the words of the premise
    r_t = Σ_k p_tk m_k + tanh(T r_{t−1})                               what was read so far
    logits = V tanh(A r_H + B h_H)

`AttentiveLSTM` is the same with one look, by the last state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.models.aligners import Reading, WordAlignment
from omegamax.models.attentive_lstm import read_pair
from omegamax.models.pair_classifier import PairOutput
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class WordByWordLSTM(nn.Module):
    """Reads the premise, then the hypothesis word by word, and looks back at the premise at each word.

    Arguments:
        in_features: of a word
        n_classes: how many labels there are
        normalizer: what turns the scores of the premise's words into weights
        hidden_size: features of a state
        dropout: the share of features that training drops

    >>> model = WordByWordLSTM(5, 3, normalizer=SquaredNorm(), hidden_size=8)
    >>> premise, hypothesis = torch.randn(2, 6, 5), torch.randn(2, 4, 5)
    >>> logits, alignment = model(premise, hypothesis, torch.tensor([6, 3]), torch.tensor([4, 2]))
    >>> logits.shape, alignment.hypothesis.weights.shape
    (torch.Size([2, 3]), torch.Size([2, 4, 6]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        normalizer: Normalizer = _SHANNON,
        hidden_size: int = 100,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_normalizer("WordByWordLSTM", normalizer)
        self.normalizer = normalizer
        self.of_premise = nn.LSTM(in_features, hidden_size, batch_first=True)
        self.of_hypothesis = nn.LSTM(in_features, hidden_size, batch_first=True)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.read = nn.Linear(hidden_size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.carry = nn.Linear(hidden_size, hidden_size, bias=False)
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_size, n_classes)

    def forward(
        self, premise: Tensor, hypothesis: Tensor, premise_lengths: Tensor, hypothesis_lengths: Tensor
    ) -> PairOutput:
        """Computes the logits (B, classes) of words (B, P, features) and (B, H, features), and where each word looked.

        Arguments:
            premise: features of its words
            hypothesis: features of its words
            premise_lengths: (B,)
            hypothesis_lengths: (B,)
        """
        states = read_pair(
            self.of_premise, self.of_hypothesis, premise, hypothesis, premise_lengths, hypothesis_lengths
        )
        memory, keys, queries = states.premise, self.key(states.premise), self.query(states.hypothesis)
        places = torch.arange(premise.shape[1], device=premise.device)
        allowed = places < premise_lengths.to(premise.device).unsqueeze(-1)  # (B, P)
        there = torch.arange(hypothesis.shape[1], device=premise.device) < hypothesis_lengths.to(
            premise.device
        ).unsqueeze(-1)
        read, rows = torch.zeros_like(states.last), []
        for query, present in zip(queries.unbind(1), there.unbind(1)):
            scores = self.score((keys + (query + self.read(read)).unsqueeze(1)).tanh()).squeeze(-1)
            weights = normalize(self.normalizer, scores, allowed & present.unsqueeze(-1))  # zero beyond the length
            found = torch.bmm(weights.unsqueeze(1), memory).squeeze(1) + self.carry(read).tanh()
            read = torch.where(present.unsqueeze(-1), found, read)
            rows.append(weights)
        combined = self.combine(self.dropout(torch.cat([read, states.last], -1))).tanh()
        alignment = WordAlignment(Reading(torch.stack(rows, 1), None), None)
        return PairOutput(self.out(self.dropout(combined)), alignment)
