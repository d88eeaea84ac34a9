"""A network that scores every tag of every word, and every pair of neighbouring tags (Lample et al., NAACL 2016).

    x_n = [features of word n ; state of word n in a pretrained encoder]
    h   = BiLSTM(x_1, ..., x_N)
    score(y) = start[y_1] + Σ_n (W h_n + b)[y_n] + Σ_n transitions[y_{n−1}, y_n] + end[y_N]

The scores are the potentials of a `Chain`: its loss, its best sequence and its probabilities are for the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax.models.crf import CRF
from omegamax.models.pretrained_encoder import PieceBatch, PretrainedEncoder
from omegamax.models.word_features import WordBatch, WordFeatures
from omegamax.structures.chain import FactoredChain
from omegamax.structures.tagging_scheme import AllowedTransitions


class SharedDropout(nn.Module):
    """Dropout that leaves out the same features at every place of a sentence (Gal & Ghahramani, NeurIPS 2016).

    Arguments:
        p: the probability that a feature is left out
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, states: Tensor) -> Tensor:
        """Leaves out features of `states` (B, N, features) while training."""
        if not self.training or self.p == 0:
            return states
        kept = torch.rand(states.shape[0], 1, states.shape[2], device=states.device) >= self.p
        return states * (kept / (1 - self.p)).to(states.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class WordReader(nn.Module):
    """Reads sentences: features of words, a pretrained encoder, or both, and a bidirectional LSTM over them.

    Arguments:
        features: tables, letters and shapes; None reads none
        encoder: a pretrained model; None reads without one
        hidden_size: features of a state, both directions together
        n_layers: of the LSTM; 0 gives the features as they are
        dropout: of features and states, shared by all places of a sentence
    """

    def __init__(
        self,
        features: WordFeatures | None,
        encoder: PretrainedEncoder | None = None,
        *,
        hidden_size: int = 200,
        n_layers: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if features is None and encoder is None:
            raise ValueError("WordReader: features or encoder must be given, got neither; give at least one")
        if hidden_size < 2 or hidden_size % 2:
            raise ValueError(f"WordReader: hidden_size must be even and at least 2, got {hidden_size}; change it")
        self.features, self.encoder = features, encoder
        size = (0 if features is None else features.size) + (0 if encoder is None else encoder.size)
        self.before, self.after = SharedDropout(dropout), SharedDropout(dropout)
        self.layers = nn.ModuleList(
            nn.LSTM(hidden_size if layer else size, hidden_size // 2, batch_first=True, bidirectional=True)
            for layer in range(n_layers)
        )
        self.size = hidden_size if n_layers else size

    def forward(self, words: WordBatch | None, pieces: PieceBatch | None, lengths: Tensor) -> Tensor:
        """Computes states (B, N, size) of `words` and `pieces` in sentences of these `lengths` (B,)."""
        found = []
        if self.encoder is not None:
            assert pieces is not None
            found.append(self.encoder(pieces))
        if self.features is not None:
            assert words is not None
            found.append(self.features(words))
        states = self.before(torch.cat(found, -1))
        for layer in self.layers:
            packed = pack_padded_sequence(states, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=states.shape[1])
            states = self.after(states)
        return states


class SequenceTagger(nn.Module):
    """Potentials of chains of tags for some sentences.

    Arguments:
        reader: makes the states of words
        n_tags: how many tags there are, C
        allowed: which tags may follow, begin and end; None allows all
        learn_transitions: whether pairs of tags have scores of their own; otherwise they are 0 where allowed
    """

    def __init__(
        self,
        reader: WordReader,
        n_tags: int,
        *,
        allowed: AllowedTransitions | None = None,
        learn_transitions: bool = True,
    ) -> None:
        super().__init__()
        self.reader = reader
        self.emissions = nn.Linear(reader.size, n_tags)
        self.crf = CRF(n_tags, allowed=allowed).requires_grad_(learn_transitions)

    def forward(self, words: WordBatch | None, pieces: PieceBatch | None, lengths: Tensor) -> FactoredChain:
        """Computes the potentials of `words` and `pieces` in sentences of these `lengths` (B,)."""
        return self.crf(self.emissions(self.reader(words, pieces, lengths)))
