"""Recognisers of speech: one encoder of sound, and CTC or a decoder with attention on top of it.

Graves et al., ICML 2006 (CTC); Chorowski et al., NIPS 2015 (attention that knows where it was).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention import Attention
from omegamax.attention.ctc_head import CTCHead
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.models.log_mel import LogMel
from omegamax.smoothmax import SmoothMax

_STILL = 1e-3  # the least deviation of a band, so that silence is not blown up


class SpeechBatch(NamedTuple):
    """Sounds and the labels that they say. The labels of an attention decoder end with END."""

    samples: Tensor  # (batch, n)
    n_samples: Tensor  # (batch,)
    labels: Tensor  # (batch, S), padded with 0
    n_labels: Tensor  # (batch,)


class Frames(NamedTuple):
    """What an encoder makes of sound."""

    states: Tensor  # (batch, T, size)
    lengths: Tensor  # (batch,)


class SpeechEncoder(nn.Module):
    """Log-mel features with zero mean and unit deviation over each utterance, several frames side by side, an LSTM.

    Arguments:
        hidden_size: features of each direction of the LSTM
        n_layers: of the LSTM
        stacked: frames of 10 ms that become one
        dropout: probability of features
    """

    def __init__(self, hidden_size: int, *, n_layers: int = 2, stacked: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.features, self.stacked = LogMel(), stacked
        n_bands = self.features.bands.shape[-1]
        self.lstm = BidirectionalLSTM(n_bands * stacked, hidden_size, n_layers=n_layers, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.out_features = self.lstm.out_features

    def forward(self, samples: Tensor, n_samples: Tensor) -> Frames:
        """Encodes sounds.

        Arguments:
            samples: (batch, n)
            n_samples: (batch,), how many are sound
        """
        features = self.features(samples)  # (batch, frames, bands)
        count = 1 + (n_samples - self.features.width).clamp(min=0) // self.features.hop
        real = torch.arange(features.shape[1], device=features.device) < count.unsqueeze(-1)
        weight = real.unsqueeze(-1) / count[:, None, None]
        mean = (weight * features).sum(1, keepdim=True)
        deviation = (weight * (features - mean).square()).sum(1, keepdim=True).sqrt().clamp(min=_STILL)
        features = torch.where(real.unsqueeze(-1), (features - mean) / deviation, 0)
        missing = -features.shape[1] % self.stacked
        frames = nn.functional.pad(features, (0, 0, 0, missing)).unflatten(1, (-1, self.stacked)).flatten(2)
        lengths = (count + self.stacked - 1) // self.stacked
        return Frames(self.dropout(self.lstm(frames, lengths)), lengths)


class CTCRecognizer(nn.Module):
    """A class for every frame: a label or nothing. Class 0 is the blank, label k is class k + 1.

    Arguments:
        encoder: of sound
        n_labels: how many labels there are
        regularizer: Ω of the sum over alignments; None is Shannon
    """

    def __init__(self, encoder: SpeechEncoder, n_labels: int, *, regularizer: SmoothMax | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = CTCHead(encoder.out_features, n_labels + 1, regularizer=regularizer)

    def forward(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities (batch, T, n_labels + 1) and the number of frames of each item."""
        frames = self.encoder(batch.samples, batch.n_samples)
        return self.head(frames.states, frames.lengths), frames.lengths


class Transcript(NamedTuple):
    """What a decoder wrote, with the weights that it read by."""

    labels: list[int]
    weights: Tensor  # (labels + 1, T), the last row where it stopped


class LastWordCell(nn.Module):
    """A cell without memory: its state is a function of its inputs alone. It is called as nn.LSTMCell is.

    Arguments:
        in_features: of the inputs
        hidden_size: features of the state
    """

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.linear = nn.Linear(in_features, hidden_size)

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Returns the new state for inputs (batch, in_features); the second part of the state is not used."""
        return self.linear(inputs).tanh(), state[1]


class AttentionRecognizer(nn.Module):
    """A decoder that writes labels one by one, each after a look at the sound. Label `n_labels` is the end.

    An LSTM counts what it has written, and so learns how long the transcripts of training are. A `LastWordCell` knows
    the last label and what it read for it; only attention can tell it where in the sound it is.

    Arguments:
        encoder: of sound
        n_labels: how many labels there are
        attention: a layer of omegamax.attention from queries of `hidden_size` features to the encoder's states
        hidden_size: features of the decoder
        cell: the decoder, `nn.LSTMCell` or `LastWordCell`
        window: with an attention that knows its last weights, how many frames after their median may be looked at, and
            a third as many before it (Chorowski et al., section 3.3); None for all frames
    """

    def __init__(
        self,
        encoder: SpeechEncoder,
        n_labels: int,
        attention: nn.Module,
        hidden_size: int,
        *,
        cell: type[nn.LSTMCell] | type[LastWordCell] = nn.LSTMCell,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.attention, self.end, self.window = encoder, attention, n_labels, window
        self.embedding = nn.Embedding(n_labels + 1, hidden_size)  # the end stands before the first label too
        self.cell = cell(hidden_size + encoder.out_features, hidden_size)
        self.out = nn.Linear(hidden_size + encoder.out_features, n_labels + 1)

    def forward(self, batch: SpeechBatch) -> Tensor:
        """Returns the scores (batch, S, n_labels + 1) of each label, given those before it."""
        decoder = self._begin(batch)
        before = torch.cat([torch.full_like(batch.labels[:, :1], self.end), batch.labels[:, :-1]], 1)
        return torch.stack([decoder.step(label)[0] for label in before.unbind(1)], 1)

    def write(self, batch: SpeechBatch, max_length: int) -> list[Transcript]:
        """Writes the likeliest next label until the end.

        Arguments:
            batch: sounds; its labels are not read
            max_length: no transcript has more labels
        """
        decoder = self._begin(batch)
        label = torch.full((len(batch.samples),), self.end, device=batch.samples.device)
        written, rows = [], []
        finished = torch.zeros_like(label, dtype=torch.bool)
        for _ in range(max_length + 1):
            scores, weights = decoder.step(label)
            label = scores.argmax(-1)
            written.append(label)
            rows.append(weights)
            finished = finished | (label == self.end)
            if bool(finished.all()):
                break
        labels, all_weights = torch.stack(written, 1).tolist(), torch.stack(rows, 1)
        found = []
        for item, row in enumerate(labels):
            length = min(row.index(self.end) if self.end in row else len(row), max_length)
            found.append(Transcript(row[:length], all_weights[item, : length + 1]))
        return found

    def _begin(self, batch: SpeechBatch) -> _Decoder:
        return _Decoder(self, self.encoder(batch.samples, batch.n_samples))


class _Decoder:
    """The decoder at work on one batch: its state, what it read last, and where its attention was."""

    def __init__(self, model: AttentionRecognizer, frames: Frames) -> None:
        self.model, self.frames = model, frames
        size = (len(frames.states), model.cell.hidden_size)
        self.state = (frames.states.new_zeros(size), frames.states.new_zeros(size))
        self.read = frames.states.new_zeros(len(frames.states), model.encoder.out_features)
        self.place: Tensor | None = None

    def step(self, label: Tensor) -> tuple[Tensor, Tensor]:
        """Takes the label before; returns the scores (batch, n_labels + 1) of the next, and the weights (batch, T)."""
        model = self.model
        self.state = model.cell(torch.cat([model.embedding(label), self.read], -1), self.state)
        query = self.state[0].unsqueeze(1)
        if isinstance(model.attention, Attention):
            found = model.attention(query, self.frames.states, lengths=self.frames.lengths)
        else:
            near = self._near(model.window)
            found = model.attention(query, self.frames.states, state=self.place, mask=near, lengths=self.frames.lengths)
            self.place = found.state
        self.read = found.output.squeeze(1)
        return model.out(torch.cat([self.state[0], self.read], -1)), found.weights.squeeze(1)

    def _near(self, window: int | None) -> Tensor | None:
        """Returns which frames (batch, 1, T) are near the median of the last weights; None if all may be read."""
        if window is None:
            return None
        n_frames = self.frames.states.shape[1]
        frame = torch.arange(n_frames, device=self.frames.states.device)
        if self.place is None:
            return (frame <= window).expand(len(self.frames.states), 1, -1)
        median = (self.place.detach().cumsum(-1) < 0.5).sum(-1).clamp(max=n_frames - 1)
        ahead = frame - median[:, None, None]
        return (ahead >= -(window // 3)) & (ahead <= window)
