"""Three ways for a pen to look at the text that it writes: a window that slides, attention by content, a fixed vector.

Graves, "Generating sequences with recurrent neural networks", arXiv 1308.0850, 2013, section 5 (the window).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from omegamax.attention import Additive, Attention, GaussianMixtureAttention
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.smoothmax import SmoothMax

_FIRST = 0.5  # where the centres of the window start: half a letter before the first


class WindowText(nn.Module):
    """Letters under a window of Gaussians that only moves forward.

    Arguments:
        size: features of a letter
        query_size: features of a query
        n_components: Gaussians of the window
        rate: letters by which an untrained window moves with every query
    """

    def __init__(self, size: int, query_size: int, *, n_components: int, rate: float) -> None:
        super().__init__()
        self.attention = GaussianMixtureAttention(query_size, n_components)
        nn.init.constant_(self.attention.of_query.bias[2 * n_components :], math.log(rate))
        self.out_features = size

    def forward(self, letters: Tensor, lengths: Tensor) -> _WindowReader:
        """Returns what reads the features (batch, U, size) of letters.

        Arguments:
            letters: (batch, U, size)
            lengths: (batch,)
        """
        return _WindowReader(self.attention, letters, lengths)


class _WindowReader:
    def __init__(self, attention: GaussianMixtureAttention, letters: Tensor, lengths: Tensor) -> None:
        self.attention, self.lengths = attention, lengths
        self.letters = nn.functional.pad(letters, (0, 0, 0, 1))  # one place after the last letter
        self.real = torch.arange(letters.shape[1] + 1, device=letters.device) < lengths[:, None]
        self.place = letters.new_full((len(letters), attention.n_components), _FIRST)

    def read(self, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the features that the window sees, log φ (batch, U), and whether it has passed the last letter."""
        window = self.attention.window(query.unsqueeze(1), self.letters.shape[1], state=self.place)
        self.place = window.state
        scores = window.scores.squeeze(1)
        seen = torch.where(self.real, scores.exp(), 0)
        inside = scores.masked_fill(~self.real, -torch.inf)
        passed = scores.gather(1, self.lengths[:, None]).squeeze(1) > inside.amax(1)
        return (seen.unsqueeze(1) @ self.letters).squeeze(1), inside[:, :-1], passed


class ContentText(nn.Module):
    """Letters that are found by their content: an additive score of what a bidirectional LSTM says of each.

    Arguments:
        size: features of a letter
        query_size: features of a query
        normalizer: turns scores into weights
    """

    def __init__(self, size: int, query_size: int, *, normalizer: SmoothMax) -> None:
        super().__init__()
        self.context = BidirectionalLSTM(size, size)
        self.attention = Attention(Additive(query_size, self.context.out_features, size), normalizer=normalizer)
        self.out_features = size + self.context.out_features

    def forward(self, letters: Tensor, lengths: Tensor) -> _ContentReader:
        """Returns what reads the features (batch, U, size) of letters.

        Arguments:
            letters: (batch, U, size)
            lengths: (batch,)
        """
        return _ContentReader(self.attention, self.context(letters, lengths), letters, lengths)


class _ContentReader:
    def __init__(self, attention: Attention, context: Tensor, letters: Tensor, lengths: Tensor) -> None:
        self.attention, self.context, self.lengths = attention, context, lengths
        self.values = torch.cat([letters, context], -1)

    def read(self, query: Tensor) -> tuple[Tensor, Tensor, None]:
        found = self.attention(query.unsqueeze(1), self.context, self.values, lengths=self.lengths)
        return found.output.squeeze(1), found.weights.squeeze(1), None


class FixedText(nn.Module):
    """Letters as one vector that never changes: the last states of a bidirectional LSTM.

    Arguments:
        size: features of a letter
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.context = BidirectionalLSTM(size, size)
        self.out_features = self.context.out_features

    def forward(self, letters: Tensor, lengths: Tensor) -> _FixedReader:
        """Returns what reads the features (batch, U, size) of letters.

        Arguments:
            letters: (batch, U, size)
            lengths: (batch,)
        """
        states = self.context(letters, lengths)
        onward, back = states.chunk(2, -1)
        last = onward.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, onward.shape[-1])).squeeze(1)
        return _FixedReader(torch.cat([last, back[:, 0]], -1))


class _FixedReader:
    def __init__(self, vector: Tensor) -> None:
        self.vector = vector

    def read(self, query: Tensor) -> tuple[Tensor, None, None]:
        return self.vector, None, None
