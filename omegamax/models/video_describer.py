"""Describes a clip in words: a vector for each frame, an LSTM that writes, and a look at the frames before each word.

    v_i = [frame_i; 3-D convolution(frames around i); position of i]    the convolution may be left out
    s_t = LSTM(s_{t−1}, [y_{t−1}; c_{t−1}])                             what was read is fed back
    c_t = Σ_i p_ti v_i,   p_t = argmax_Ω(s_tᵀ W v_i / √hidden)          or the mean of all v_i, for every word
    scores of y_t = V tanh(C [c_t; s_t])

The attention over frames finds when something happens in the whole clip; the 3-D convolution sees motion within a few
frames. Yao et al., "Describing videos by exploiting temporal structure", ICCV 2015. Their vectors come from networks
that were trained on other data, and have no positions. The scores are scaled, because without that the attention soon
stays on empty frames, from which nothing can be learned.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.transformer.embeddings import SinusoidalPositions
from omegamax.models.sequence_model import DecoderStep, SequenceModel

_CHANNELS = (12, 24)  # of the two convolutions over time
_POSITION, _WAVELENGTH = 16, 100.0  # features of a frame's position, and their scale: clips have tens of frames


class FrameEncoder(nn.Module):
    """Reads each frame alone: what its brightest window shows and where that is, and two layers on both.

    Arguments:
        out_features: of a frame's vector
        size: pixels of a frame, up and across
        window: pixels of the window, up and across
    """

    def __init__(self, out_features: int, *, size: int, window: int = 8) -> None:
        super().__init__()
        self.out_features = out_features
        self.window, self.n_places = window, size - window + 1
        self.first = nn.Linear(window**2 + 2 * self.n_places, 2 * out_features)
        self.second = nn.Linear(2 * out_features, out_features)

    def forward(self, clips: Tensor, real: Tensor) -> Tensor:
        """Encodes clips (B, T, H, W), whose frames are `real` (B, T), as vectors (B, T, out_features)."""
        frames = clips.flatten(0, 1).unsqueeze(1)  # (N, 1, H, W)
        windows = nn.functional.unfold(frames, self.window)  # (N, pixels, places)
        place = windows.sum(1).argmax(-1)
        shown = windows.gather(-1, place[:, None, None].expand(-1, windows.shape[1], 1)).squeeze(-1)
        where = [nn.functional.one_hot(axis, self.n_places) for axis in (place // self.n_places, place % self.n_places)]
        bright = shown.mean(-1, keepdim=True)  # where nothing is seen, its place says nothing
        seen = torch.cat([shown, *(bright * axis for axis in where)], -1)
        return self.second(self.first(seen).relu()).unflatten(0, clips.shape[:2])


class MotionEncoder(nn.Module):
    """Two 3-D convolutions, which see two frames before and two after each frame, and a layer.

    Arguments:
        out_features: of a frame's vector
        size: pixels of a frame, up and across
    """

    def __init__(self, out_features: int, *, size: int) -> None:
        super().__init__()
        self.out_features = out_features
        first, second = _CHANNELS
        self.first = nn.Conv3d(1, first, 3, stride=(1, 2, 2), padding=1)
        self.second = nn.Conv3d(first, second, 3, stride=(1, 2, 2), padding=1)
        self.out = nn.Linear(second * ((size + 3) // 4) ** 2, out_features)

    def forward(self, clips: Tensor, real: Tensor) -> Tensor:
        """Encodes clips (B, T, H, W), whose frames are `real` (B, T), as vectors (B, T, out_features)."""
        real = real[:, None, :, None, None]
        x = torch.where(real, clips.unsqueeze(1), 0)
        x = torch.where(real, self.first(x).relu(), 0)  # as the padding of a clip that is alone
        x = self.second(x).relu()  # (B, channels, T, h, w)
        return self.out(x.transpose(1, 2).flatten(2))


class EncodedClips(NamedTuple):
    """What the decoder needs to know of clips."""

    vectors: Tensor  # (B, T, features), one for each frame; zero beyond the length
    keys: Tensor  # (B, T, hidden), W v: what a decoder's state is multiplied with
    allowed: Tensor  # (B, T), True where there is a frame
    mean: Tensor  # (B, features), of the vectors


class VideoState(NamedTuple):
    """The decoder between two words."""

    hidden: Tensor  # (B, hidden)
    cell: Tensor
    read: Tensor  # (B, features), c_{t−1}


class VideoDescriber(SequenceModel):
    """Reads clips (B, T, H, W) with lengths (B,) and writes words.

    Arguments:
        encoders: of frames; their vectors stand side by side
        n_target: how many words there are
        normalizer: of the attention over frames; None reads the mean of all frames before every word
        positions: whether the vector of a frame says when it is; otherwise attention sees a set of frames
        embedding_size: features of a word
        hidden_size: features of the decoder
        dropout: the share of features that training drops
    """

    def __init__(
        self,
        encoders: list[FrameEncoder | MotionEncoder],
        n_target: int,
        *,
        normalizer: Normalizer | None,
        positions: bool = True,
        embedding_size: int = 64,
        hidden_size: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if normalizer is not None:
            check_normalizer("VideoDescriber", normalizer)
        self.encoders, self.normalizer = nn.ModuleList(encoders), normalizer
        self.positions = SinusoidalPositions(_WAVELENGTH) if positions else None
        self.norms = nn.ModuleList(nn.LayerNorm(encoder.out_features) for encoder in encoders)  # no part outweighs
        features = sum(encoder.out_features for encoder in encoders) + (_POSITION if positions else 0)
        self.key = None if normalizer is None else nn.Linear(features, hidden_size, bias=False)
        self.embedding = nn.Embedding(n_target, embedding_size)
        self.first_state = nn.Linear(features, 2 * hidden_size)
        self.cell = nn.LSTMCell(embedding_size + features, hidden_size)
        self.combine = nn.Linear(features + hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, n_target)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes the log-likelihood of each word of `target` after the first."""
        return self.log_likelihood(source, lengths, target)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        read, hidden, _ = self._decode(source, lengths, target)
        return self._log_probs(read, hidden).gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)

    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        return self._decode(source, lengths, target)[2]

    def encode(self, source: Tensor, lengths: Tensor | None) -> EncodedClips:
        """Computes the vectors of the frames, and their mean."""
        if lengths is None:
            lengths = torch.full(source.shape[:1], source.shape[1], device=source.device)
        real = torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1)
        seen = [self.dropout(norm(encoder(source, real))) for encoder, norm in zip(self.encoders, self.norms)]
        if self.positions is not None:
            seen.append(self.positions(source.new_zeros(*source.shape[:2], _POSITION)))
        vectors = torch.where(real.unsqueeze(-1), torch.cat(seen, -1), 0)
        keys = vectors if self.key is None else self.key(vectors) * self.key.out_features**-0.5
        return EncodedClips(vectors, keys, real, vectors.sum(1) / lengths.unsqueeze(-1))

    def start(self, encoded: EncodedClips) -> VideoState:
        hidden, cell = self.first_state(encoded.mean).tanh().chunk(2, -1)
        return VideoState(hidden, cell, torch.zeros_like(encoded.mean))

    def step(self, token: Tensor, state: VideoState, encoded: EncodedClips) -> DecoderStep:
        state, weights = self._advance(self.dropout(self.embedding(token)), state, encoded)
        return DecoderStep(self._log_probs(state.read, state.hidden), state, weights)

    def _decode(self, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns what was read (B, T, features), the states (B, T, hidden) and the weights (B, T, frames)."""
        encoded = self.encode(source, lengths)
        state, read, hidden, weights = self.start(encoded), [], [], []
        for embedded in self.dropout(self.embedding(target[:, :-1])).unbind(1):
            state, looked = self._advance(embedded, state, encoded)
            read.append(state.read)
            hidden.append(state.hidden)
            weights += [] if looked is None else [looked]
        return torch.stack(read, 1), torch.stack(hidden, 1), torch.stack(weights, 1) if weights else None

    def _advance(self, embedded: Tensor, state: VideoState, encoded: EncodedClips) -> tuple[VideoState, Tensor | None]:
        hidden, cell = self.cell(torch.cat([embedded, state.read], -1), (state.hidden, state.cell))
        if self.normalizer is None:
            return VideoState(hidden, cell, encoded.mean), None
        scores = torch.bmm(encoded.keys, hidden.unsqueeze(-1)).squeeze(-1)  # (B, T)
        weights = normalize(self.normalizer, scores, encoded.allowed)
        return VideoState(hidden, cell, torch.bmm(weights.unsqueeze(1), encoded.vectors).squeeze(1)), weights

    def _log_probs(self, read: Tensor, hidden: Tensor) -> Tensor:
        return self.out(self.dropout(self.combine(torch.cat([read, hidden], -1)).tanh())).log_softmax(-1)
