"""The deep biaffine parser: scores of arcs and of their relations, from the states of a bidirectional LSTM.

    arc[h, m]      = a_hᵀ U b_m + a_hᵀ u                    how well word h suits as the head of word m
    label[m, l]    = c_hᵀ V_l d_m + (c_h + d_m)ᵀ v_l + v    the relation l, given that h is the head of m

where a and c are small networks of a word as a head, b and d of a word as a modifier. Dozat & Manning, ICLR 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.models.pretrained_encoder import PieceBatch
from omegamax.models.sequence_tagger import SharedDropout, WordReader
from omegamax.models.word_features import WordBatch


class WordStates(NamedTuple):
    """What is known of each word before heads are chosen."""

    arcs: Tensor  # (B, N + 1, N + 1): scores of [head, modifier]; 0 is the root
    heads: Tensor  # (B, N + 1, label features): each word as a head
    modifiers: Tensor  # (B, N, label features): each word as a modifier, without the root


class ParserScores(NamedTuple):
    """Scores of all arcs, and of the relations of given arcs."""

    arcs: Tensor  # (B, N + 1, N + 1): [head, modifier]
    labels: Tensor  # (B, N, labels)


class Biaffine(nn.Module):
    """Scores (B, H, M) of all pairs of heads (B, H, features) and modifiers (B, M, features).

    Arguments:
        n_features: of heads and of modifiers
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, n_features))  # Dozat & Manning begin at zero
        self.head_weight = nn.Parameter(torch.zeros(n_features))

    def forward(self, heads: Tensor, modifiers: Tensor) -> Tensor:
        """Computes the scores of all pairs."""
        return heads @ (self.weight @ modifiers.transpose(-1, -2) + self.head_weight.unsqueeze(-1))


class ArcLabels(nn.Module):
    """Scores (B, M, labels) of the relations between modifiers (B, M, features) and their heads (B, M, features).

    Arguments:
        n_features: of heads and of modifiers
        n_labels: how many relations there are
    """

    def __init__(self, n_features: int, n_labels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, n_labels * n_features))
        self.linear = nn.Linear(2 * n_features, n_labels)

    def forward(self, heads: Tensor, modifiers: Tensor) -> Tensor:
        """Computes the scores of all relations."""
        pairs = (heads @ self.weight).unflatten(-1, (self.linear.out_features, -1))  # (B, M, labels, features)
        bilinear = (pairs @ modifiers.unsqueeze(-1)).squeeze(-1)
        return bilinear + self.linear(torch.cat([heads, modifiers], -1))


class BiaffineParser(nn.Module):
    """Scores of arcs and relations from features of words.

    Arguments:
        reader: makes features of words; one without an LSTM of its own
        n_labels: how many relations there are
        n_tags: how many tags of each kind (universal, language-specific, ...) are numbered; empty reads no tags
        tag_size: features of a tag of each kind
        hidden_size: features of a state, both directions together
        n_layers: of the LSTM; 0 reads the features as they are, which suits a pretrained encoder
        arc_size: features of a word as a head or a modifier
        label_size: the same, for relations
        dropout: probability
    """

    def __init__(
        self,
        reader: WordReader,
        n_labels: int,
        *,
        n_tags: Sequence[int] = (),
        tag_size: int = 50,
        hidden_size: int = 400,
        n_layers: int = 2,
        arc_size: int = 200,
        label_size: int = 64,
        dropout: float = 0.33,
    ) -> None:
        super().__init__()
        self.reader = reader
        self.tags = nn.ModuleList(nn.Embedding(number, tag_size) for number in n_tags)
        n_states = reader.size + tag_size * len(self.tags)
        self.root = nn.Parameter(torch.randn(n_states) / math.sqrt(n_states))
        self.input_dropout = nn.Dropout(dropout)
        self.dropout = SharedDropout(dropout)
        self.lstm: BidirectionalLSTM | None = None
        if n_layers:
            self.lstm = BidirectionalLSTM(n_states, hidden_size // 2, n_layers=n_layers, dropout=dropout)
            n_states = self.lstm.out_features
        self.sizes = [arc_size, arc_size, label_size, label_size]
        self.project = nn.Linear(n_states, sum(self.sizes))  # the four small networks in one product
        self.arc = Biaffine(arc_size)
        self.label = ArcLabels(label_size, n_labels)

    def forward(
        self, words: WordBatch | None, pieces: PieceBatch | None, tags: Tensor, lengths: Tensor, heads: Tensor
    ) -> ParserScores:
        """Scores all arcs, and the relations of the arcs from `heads`.

        Arguments:
            words: what the reader needs of words
            pieces: of word-pieces, if it has an encoder
            tags: (B, N, kinds) numbers of tags
            lengths: (B,) numbers of words
            heads: (B, N), 0 is the root; padding may have any head
        """
        states = self.states(words, pieces, tags, lengths)
        return ParserScores(states.arcs, self.labels(states, heads))

    def states(self, words: WordBatch | None, pieces: PieceBatch | None, tags: Tensor, lengths: Tensor) -> WordStates:
        """Scores all arcs, and returns what `labels` needs.

        Arguments:
            words: what the reader needs of words
            pieces: of word-pieces, if it has an encoder
            tags: (B, N, kinds) numbers of tags
            lengths: (B,) numbers of words
        """
        kinds = [table(tags[..., kind]) for kind, table in enumerate(self.tags)]
        features = torch.cat([self.reader(words, pieces, lengths), *kinds], -1)
        root = self.root.to(features).expand(len(features), 1, -1)
        states = self.input_dropout(torch.cat([root, features], 1))  # (B, N + 1, features)
        if self.lstm is not None:
            states = self.lstm(states, lengths + 1)
        projected = nn.functional.leaky_relu(self.project(self.dropout(states)), 0.1)
        parts = [self.dropout(part) for part in projected.split(self.sizes, -1)]
        return WordStates(self.arc(parts[0], parts[1]), parts[2], parts[3][:, 1:])

    def labels(self, states: WordStates, heads: Tensor) -> Tensor:
        """Scores relations (B, N, labels) of words whose heads are given.

        Arguments:
            states: of the sentences
            heads: (B, N), 0 is the root; negative where there is no word
        """
        places = heads.clamp(min=0).unsqueeze(-1).expand(-1, -1, states.heads.shape[-1])
        return self.label(states.heads.gather(1, places), states.modifiers)
