"""A recurrent encoder that reads a text in both directions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omegamax import checks


class SourceStates(NamedTuple):
    """States of an encoded text."""

    states: Tensor  # (B, K, features), one for each token; zero beyond the length
    last: Tensor  # (B, features): the end of each direction, the lecture's single fixed vector
    lengths: Tensor | None  # (B,); None if there is no padding


class RecurrentEncoder(nn.Module):
    """A bidirectional GRU (Bahdanau et al., ICLR 2015): state k depends on the tokens before and after token k.

    It takes embedded tokens (B, K, features) with lengths (B,); padding is never read. Each direction has half of the
    states' features.

    Arguments:
        in_features: of an embedded token
        hidden_size: features of a state, both directions together
    """

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        if hidden_size < 2 or hidden_size % 2:
            raise ValueError(
                f"RecurrentEncoder: hidden_size must be even, half for each direction, got {hidden_size}; "
                f"use {hidden_size + 1 if hidden_size > 0 else 2}"
            )
        self.gru = nn.GRU(in_features, hidden_size // 2, batch_first=True, bidirectional=True)

    def forward(self, embedded: Tensor, lengths: Tensor | None) -> SourceStates:
        """Computes the states of all tokens; `lengths` is None if there is no padding."""
        if lengths is None:
            states, last = self.gru(embedded)
            return SourceStates(states, torch.cat([last[0], last[1]], -1), None)
        lengths = checks.check_lengths("RecurrentEncoder", tuple(embedded.shape[:1]), lengths).to(embedded.device)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])
        return SourceStates(states, torch.cat([last[0], last[1]], -1), lengths)
