"""A bidirectional LSTM that reads and an LSTM that writes, with global attention and input feeding.

    h = BiLSTM(x)                                     one state for each source token
    s_t = LSTM(s_{t−1}, [y_{t−1}; a_{t−1}])           a_{t−1} is fed back, so that the decoder knows where it looked
    p_t = argmax_Ω(s_tᵀ W h / √d)                     weights of the source tokens (Luong's "general" score, scaled)
    a_t = tanh(C [Σ_k p_tk h_k; s_t])                 from which a leaf predicts the next token

Luong, Pham & Manning, "Effective approaches to attention-based neural machine translation", EMNLP 2015; the shape of
the experiments of Niculae & Blondel, NeurIPS 2017. The root of the size d is ours: an optimizer that moves every weight
by the same step makes scores large at once. A sparse normalizer is then one-hot before it has found the right word, and
has no gradient for the others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax import checks
from omegamax.attention.dropout import Dropout
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.models.sequence_model import SequenceModel
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class LSTMMemory(NamedTuple):
    """What the decoder needs to know of a source."""

    keys: Tensor  # (B, K, hidden), W h / √d: what a decoder's state is multiplied with
    states: Tensor  # (B, K, hidden), h; zero beyond the length
    allowed: Tensor  # (B, K), True where there is a token
    hidden: tuple[Tensor, ...]  # (B, hidden) for each layer: the end of both directions
    cell: tuple[Tensor, ...]
    source: Tensor  # (B, K), the tokens


class LSTMState(NamedTuple):
    """The decoder between two tokens."""

    hidden: tuple[Tensor, ...]  # (B, hidden) for each layer
    cell: tuple[Tensor, ...]
    fed: Tensor  # (B, hidden), a_{t−1}


class _Cell(nn.Module):
    """One step of an LSTM whose share of the gates that depends on tokens is given from outside."""

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features + hidden_size, 4 * hidden_size)
        with torch.no_grad():
            self.linear.bias[hidden_size : 2 * hidden_size] += 1  # at first it forgets little

    def forward(self, inputs: Tensor, hidden: Tensor, cell: Tensor, more: Tensor | None) -> tuple[Tensor, Tensor]:
        gates = self.linear(torch.cat([inputs, hidden], -1))
        gates = gates if more is None else gates + more
        enter, forget, new, leave = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * cell.tanh(), cell


class DecodedTarget(NamedTuple):
    """All steps of a target under teacher forcing."""

    fed: Tensor  # (B, T, hidden), a_t
    weights: Tensor | None  # (B, T, K); None without attention
    embedded: Tensor  # (B, T, features), the tokens that were read


class FeedingLSTM(SequenceModel):
    """The base of models with this encoder and decoder; a leaf makes predictions from a_t.

    Under teacher forcing the decoder is a loop over target tokens, because each step reads what the last one attended
    to. Everything else is outside of the loop: keys, the tokens' share of the gates, and the scores of tokens.

    Arguments:
        n_source: how many source tokens there are
        n_target: how many target tokens there are
        normalizer: of the attention; None gives the decoder the encoder's last state in place of attention
        embedding_size: features of a token
        hidden_size: features of a state; each direction of the encoder has half
        n_layers: of the encoder and of the decoder
        dropout: the share of features that training drops
        scaled: whether scores are divided by the root of hidden_size
        padding: the target token beyond the end of a text, which costs nothing
    """

    def __init__(
        self,
        n_source: int,
        n_target: int,
        *,
        normalizer: Normalizer | None = _SHANNON,
        embedding_size: int = 256,
        hidden_size: int = 256,
        n_layers: int = 1,
        dropout: float = 0.0,
        scaled: bool = True,
        padding: int = 0,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if hidden_size < 2 or hidden_size % 2:
            raise ValueError(
                f"{who}: hidden_size must be even, half for each direction, got {hidden_size}; "
                f"use {hidden_size + 1 if hidden_size > 0 else 2}"
            )
        checks.check_count(who, "n_layers", n_layers)
        if normalizer is not None:
            check_normalizer(who, normalizer)
        self.normalizer, self.padding = normalizer, padding
        self.score_scale = hidden_size**-0.5 if scaled else 1.0
        self.source_embedding = nn.Embedding(n_source, embedding_size)
        self.target_embedding = nn.Embedding(n_target, embedding_size)
        self.encoder = nn.LSTM(
            embedding_size,
            hidden_size // 2,
            n_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if n_layers > 1 else 0.0,
        )
        self.of_token = nn.Linear(embedding_size, 4 * hidden_size, bias=False)
        self.cells = nn.ModuleList(_Cell(hidden_size, hidden_size) for _ in range(n_layers))
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.combine = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.dropout = Dropout(dropout)

    def encode(self, source: Tensor, lengths: Tensor | None) -> LSTMMemory:
        embedded = self.dropout(self.source_embedding(source))
        if lengths is None:
            states, last = self.encoder(embedded)
            allowed = torch.ones_like(source, dtype=torch.bool)
        else:
            lengths = checks.check_lengths(type(self).__name__, tuple(source.shape[:1]), lengths).to(source.device)
            packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, last = self.encoder(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
            allowed = torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1)
        hidden, cell = (tuple(torch.cat([a, b], -1) for a, b in zip(each[::2], each[1::2])) for each in last)
        return LSTMMemory(self.key(states) * self.score_scale, states, allowed, hidden, cell, source)

    def start(self, encoded: LSTMMemory) -> LSTMState:
        return LSTMState(encoded.hidden, encoded.cell, torch.zeros_like(encoded.hidden[-1]))

    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        return self._decode(target[:, :-1], self.encode(source, lengths)).weights

    def _decode(self, tokens: Tensor, encoded: LSTMMemory) -> DecodedTarget:
        """Reads the tokens (B, T) one after the other."""
        embedded = self.dropout(self.target_embedding(tokens))
        state, fed, weights = self.start(encoded), [], []
        for of_token in self.of_token(embedded).unbind(1):
            state, looked = self._advance(of_token, state, encoded)
            fed.append(state.fed)
            weights.append(looked)
        looked_at = [each for each in weights if each is not None]
        return DecodedTarget(torch.stack(fed, 1), torch.stack(looked_at, 1) if looked_at else None, embedded)

    def _advance(self, of_token: Tensor, state: LSTMState, encoded: LSTMMemory) -> tuple[LSTMState, Tensor | None]:
        below, more, hidden, cell = state.fed, of_token, [], []
        for place, layer in enumerate(self.cells):
            new, kept = layer(below, state.hidden[place], state.cell[place], more if place == 0 else None)
            hidden.append(new)
            cell.append(kept)
            below = self.dropout(new) if place + 1 < len(self.cells) else new
        context, weights = self._read(below, encoded)
        fed = self.dropout(self.combine(torch.cat([context, below], -1)).tanh())
        return LSTMState(tuple(hidden), tuple(cell), fed), weights

    def _read(self, query: Tensor, encoded: LSTMMemory) -> tuple[Tensor, Tensor | None]:
        """Averages the source's states for one query (B, hidden) of each item."""
        if self.normalizer is None:
            return encoded.hidden[-1], None
        scores = torch.bmm(encoded.keys, query.unsqueeze(-1)).squeeze(-1)  # (B, K)
        weights = normalize(self.normalizer, scores, encoded.allowed)
        return torch.bmm(weights.unsqueeze(1), encoded.states).squeeze(1), weights
