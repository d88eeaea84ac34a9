"""A network that writes texts with a pen, and one that reads what a pen has written.

    h_t = LSTM([point_{t-1}, w_{t-1}], h_{t-1}),    w_t = what h_t looks at in the text,
    g_t = LSTM([point_{t-1}, h_t, w_t], g_{t-1}),   p(point_t | ...) = a mixture density of [h_t, g_t]

Graves, "Generating sequences with recurrent neural networks", arXiv 1308.0850, 2013, section 5, with two layers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.ctc_head import CTCHead
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.models.pen_density import PenDensity

_NEAR = 7  # points that the reader's first layer sees at once


class PenPredictions(NamedTuple):
    """The density of every point given those before it, and how much the network looked at each letter."""

    density: PenDensity  # (batch, T)
    scores: Tensor | None  # (batch, T, U): weights, or log φ of a window; None if there is no attention


class PenWritings(NamedTuple):
    """What a network wrote."""

    points: Tensor  # (batch, T, 4)
    lengths: Tensor  # (batch,), how many points each has
    scores: Tensor | None  # as in PenPredictions


class Handwriter(nn.Module):
    """Writes texts, point by point.

    Points (batch, T, 4) say how far the pen goes right and down from the point before, whether it is lifted after the
    point, and whether the point is the last.

    Arguments:
        n_letters: of the alphabet
        text: a module of text_readers.py, for letters of `letter_size` and queries of `hidden_size` features
        letter_size: features of a letter
        hidden_size: features of each layer
        n_components: Gaussians of the mixture
    """

    def __init__(
        self, n_letters: int, text: nn.Module, *, letter_size: int, hidden_size: int, n_components: int
    ) -> None:
        super().__init__()
        self.read_size = int(text.out_features)  # type: ignore[arg-type]
        self.embedding = nn.Embedding(n_letters, letter_size)
        self.text = text
        self.first = nn.LSTMCell(3 + self.read_size, hidden_size)
        self.second = nn.LSTM(3 + hidden_size + self.read_size, hidden_size, batch_first=True)
        self.out = nn.Linear(2 * hidden_size, 6 * n_components + 2)
        self.n_components = n_components

    def forward(self, letters: Tensor, n_letters: Tensor, points: Tensor) -> PenPredictions:
        """Computes the density of every point, given the text and the points before.

        Arguments:
            letters: numbers of letters (batch, U)
            n_letters: (batch,)
            points: (batch, T, 4)
        """
        before = nn.functional.pad(points[:, :-1, :3], (0, 0, 1, 0))
        steps = _FirstLayer(self, letters, n_letters)
        found = [steps.step(each) for each in before.unbind(1)]
        first, read = torch.stack([step[0] for step in found], 1), torch.stack([step[1] for step in found], 1)
        second, _ = self.second(torch.cat([before, first, read], -1))
        density = PenDensity.of(self.out(torch.cat([first, second], -1)), self.n_components)
        return PenPredictions(density, _stacked([step[2] for step in found]))

    def write(self, letters: Tensor, n_letters: Tensor, noise: Tensor, *, bias: float = 0.0) -> PenWritings:
        """Draws points until the window has passed the last letter; without a window, until the last one is drawn.

        The window moves on a little before a letter is finished, so the stroke is finished too. The coin of the last
        point knows how long the texts of training were; a window knows where it is in any text, and does not ask it.

        Arguments:
            letters: numbers of letters (batch, U)
            n_letters: (batch,)
            noise: (batch, T, 5), as `PenDensity.sample` takes it; no writing has more than T points
            bias: how much likely points are preferred
        """
        steps, state = _FirstLayer(self, letters, n_letters), None
        before = noise.new_zeros(len(letters), 3)
        writing = torch.ones_like(n_letters, dtype=torch.bool)
        lengths = torch.zeros_like(n_letters)
        points, scores = [], []
        for at_step in noise.unbind(1):
            first, read, looked, passed = steps.step(before)
            second, state = self.second(torch.cat([before, first, read], -1).unsqueeze(1), state)
            features = self.out(torch.cat([first, second.squeeze(1)], -1))
            point = PenDensity.of(features, self.n_components).biased(bias).sample(at_step)
            if passed is not None:
                writing = writing & ~(passed & (before[:, 2] == 1))  # a stroke is not cut in the middle
            lengths = lengths + writing
            points.append(point)
            scores.append(looked)
            if passed is None:
                writing = writing & (point[:, 3] == 0)
            if not bool(writing.any()):
                break
            before = point[:, :3]
        return PenWritings(torch.stack(points, 1), lengths, _stacked(scores))


class _FirstLayer:
    """The first layer at work on one batch: its state, and what it read last."""

    def __init__(self, model: Handwriter, letters: Tensor, n_letters: Tensor) -> None:
        self.cell = model.first
        self.reader = model.text(model.embedding(letters), n_letters)
        self.state: tuple[Tensor, Tensor] | None = None
        self.read = self.cell.weight_hh.new_zeros(len(letters), model.read_size)

    def step(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Takes the point before; returns the state, what was read, how it looked, and whether it passed the end."""
        self.state = self.cell(torch.cat([point, self.read], -1), self.state)
        self.read, scores, passed = self.reader.read(self.state[0])
        return self.state[0], self.read, scores, passed


def _stacked(scores: list[Tensor | None]) -> Tensor | None:
    some = [each for each in scores if each is not None]
    return torch.stack(some, 1) if some else None


class PenReader(nn.Module):
    """Reads what a pen has written: CTC over pairs of points. Class 0 is the blank, letter k is class k + 1.

    Arguments:
        n_letters: of the alphabet
        hidden_size: features of each direction of the LSTM
        n_layers: of the LSTM
    """

    def __init__(self, n_letters: int, *, hidden_size: int, n_layers: int = 1) -> None:
        super().__init__()
        self.near = nn.Conv1d(3, hidden_size, _NEAR, stride=2, padding=_NEAR // 2)
        self.lstm = BidirectionalLSTM(hidden_size, hidden_size, n_layers=n_layers)
        self.head = CTCHead(self.lstm.out_features, n_letters + 1)

    def forward(self, points: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-probabilities (batch, T / 2, n_letters + 1) of pairs of points, and how many pairs there are.

        Arguments:
            points: (batch, T, 4)
            lengths: (batch,)
        """
        real = torch.arange(points.shape[1], device=points.device) < lengths.unsqueeze(-1)
        near = self.near(torch.where(real.unsqueeze(-1), points[..., :3], 0).mT).mT.relu()
        n_pairs = (lengths + 1) // 2
        return self.head(self.lstm(near, n_pairs), n_pairs), n_pairs

    def read(self, points: Tensor, lengths: Tensor) -> list[list[int]]:
        """Returns the numbers of the letters that the likeliest path spells.

        Arguments:
            points: (batch, T, 4)
            lengths: (batch,)
        """
        found = self.head.best_path(*self(points, lengths))
        return [[label - 1 for label in each.labels] for each in found]


class WriterAndReader(nn.Module):
    """A network that writes, and one that judges by reading; they share nothing.

    Arguments:
        writer: of texts
        reader: of points
    """

    def __init__(self, writer: Handwriter, reader: PenReader) -> None:
        super().__init__()
        self.writer, self.reader = writer, reader

    def forward(
        self, letters: Tensor, n_letters: Tensor, points: Tensor, lesson: Tensor, lesson_lengths: Tensor
    ) -> tuple[PenPredictions, tuple[Tensor, Tensor]]:
        """Returns the densities of points, and what the reader says of its lesson.

        Arguments:
            letters: (batch, U), to be written
            n_letters: (batch,)
            points: (batch, T, 4), with which they were written
            lesson: points (batch, T', 4) to be read
            lesson_lengths: (batch,)
        """
        return self.writer(letters, n_letters, points), self.reader(lesson, lesson_lengths)
