"""ESIM: sentence pairs by alignment between two recurrent layers (Chen, Zhu, Ling, Wei, Jiang & Inkpen, ACL 2017).

    h, p = BiLSTM(hypothesis), BiLSTM(premise)
    scores[i, j] = h_i · p_j
    c_i = Σ_j weights[i, j] p_j                       what word i reads of the premise; the other way round likewise
    v = BiLSTM(relu(W [h_i; c_i; h_i − c_i; h_i ∘ c_i]))
    logits = MLP [mean of v; maximum of v], of both sentences

The alignment is any `Aligner`: rows under any Ω, or the matchings and sequences of SparseMAP.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax.attention.masking import zero_beyond
from omegamax.attention.scores import DotProduct
from omegamax.models.aligners import Aligner
from omegamax.models.pair_classifier import PairOutput


class ESIM(nn.Module):
    """Aligns the states of two sentences, and reads the comparison of each word with what it is aligned to.

    Arguments:
        in_features: of a word
        n_classes: how many labels there are
        aligner: decides what words read
        hidden_size: features of a state, both directions together
        dropout: the share of features that training drops

    >>> model = ESIM(5, 3, aligner=RowAligner(SquaredNorm()), hidden_size=8)
    >>> premise, hypothesis = torch.randn(2, 6, 5), torch.randn(2, 4, 5)
    >>> logits, alignment = model(premise, hypothesis, torch.tensor([6, 3]), torch.tensor([4, 2]))
    >>> logits.shape, alignment.hypothesis.weights.shape, alignment.premise.weights.shape
    (torch.Size([2, 3]), torch.Size([2, 4, 6]), torch.Size([2, 6, 4]))
    """

    def __init__(
        self, in_features: int, n_classes: int, *, aligner: Aligner, hidden_size: int = 200, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if hidden_size < 2 or hidden_size % 2:
            raise ValueError(
                f"ESIM: hidden_size must be even, half for each direction, got {hidden_size}; "
                f"use {hidden_size + 1 if hidden_size > 0 else 2}"
            )
        self.encoder = nn.LSTM(in_features, hidden_size // 2, batch_first=True, bidirectional=True)
        self.score = DotProduct()
        self.aligner = aligner
        self.compare = nn.Linear(4 * hidden_size, hidden_size)
        self.composer = nn.LSTM(hidden_size, hidden_size // 2, batch_first=True, bidirectional=True)
        n_sides = 2 if aligner.both_ways else 1
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(2 * n_sides * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, n_classes)

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
        lengths = [premise_lengths, hypothesis_lengths]
        premise, hypothesis = _read(self.encoder, [premise, hypothesis], lengths)
        alignment = self.aligner(self.score(hypothesis, premise), hypothesis_lengths, premise_lengths)
        compared = [self._compare(hypothesis, alignment.hypothesis.weights @ premise)]
        if alignment.premise is not None:
            compared.insert(0, self._compare(premise, alignment.premise.weights @ hypothesis))
        lengths = lengths[-len(compared) :]
        pooled = [_pool(states, n) for states, n in zip(_read(self.composer, compared, lengths), lengths)]
        hidden = self.hidden(self.dropout(torch.cat(pooled, -1))).tanh()
        return PairOutput(self.out(self.dropout(hidden)), alignment)

    def _compare(self, words: Tensor, read: Tensor) -> Tensor:
        return self.compare(self.dropout(torch.cat([words, read, words - read, words * read], -1))).relu()


def _read(lstm: nn.LSTM, sentences: list[Tensor], lengths: list[Tensor]) -> list[Tensor]:
    """Computes the states of several batches of sentences (B, N, features) by one call, which is faster."""
    longest = max(words.shape[1] for words in sentences)
    together = torch.cat([nn.functional.pad(words, (0, 0, 0, longest - words.shape[1])) for words in sentences])
    packed = pack_padded_sequence(together, torch.cat(lengths).cpu(), batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=longest)
    parts = states.chunk(len(sentences))
    return [part[:, : words.shape[1]] for part, words in zip(parts, sentences)]


def _pool(states: Tensor, lengths: Tensor) -> Tensor:
    """Returns mean and maximum over the words of a sentence, (B, 2 · features)."""
    within = (torch.arange(states.shape[1], device=states.device) < lengths.unsqueeze(-1)).unsqueeze(-1)
    mean = zero_beyond(states, lengths).sum(1) / lengths.unsqueeze(-1)
    return torch.cat([mean, states.masked_fill(~within, -torch.inf).amax(1)], -1)
