"""How a decoder reads what was encoded: by soft attention, by hard attention, or from one fixed vector.

A reader gives a context for each of the decoder's states. It also says what is maximised: a reader that chooses places
by chance needs the likelihood of the answer under each of its choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from omegamax.attention.attention import Attention
from omegamax.attention.hard import HardAttention
from omegamax.models.recurrent_encoder import SourceStates
from omegamax.operators.hard import Hard


class ReaderOutput(NamedTuple):
    """What a decoder read."""

    context: Tensor  # (B, Q, features)
    weights: Tensor | None  # (B, Q, K); None for a reader that does not look around


class Reader(nn.Module, ABC):
    """From decoder states `query` (B, Q, features) and encoder states `source` to contexts."""

    @abstractmethod
    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """What is read while predicting; nothing is left to chance."""

    @abstractmethod
    def log_likelihood(self, query: Tensor, source: SourceStates, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """Log p(y | x) for each query (B, Q), or a bound of it, while training.

        `answer` maps contexts (..., B, Q, features) to log p(y | context) (..., B, Q).
        """


class SoftReader(Reader):
    """An average over all places, with any score and any normalizer.

    Arguments:
        attention: averages over the places
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """Attention over the encoder's states."""
        return ReaderOutput(*self.attention(query, source.states, lengths=source.lengths))

    def log_likelihood(self, query: Tensor, source: SourceStates, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """Of the average itself."""
        return answer(self(query, source).context)


class HardReader(Reader):
    """One place for each state: drawn, or summed over, while training; the best one while predicting.

    Arguments:
        attention: chooses a place, and estimates how to learn it
    """

    def __init__(self, attention: HardAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """The state with the highest score."""
        best = Attention(self.attention.score, normalizer=Hard())  # not kept: the score has its place already
        return ReaderOutput(*best(query, source.states, lengths=source.lengths))

    def log_likelihood(self, query: Tensor, source: SourceStates, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """The estimator's objective, a lower bound of log p(y)."""
        glimpses = self.attention(query, source.states, lengths=source.lengths)
        return self.attention.objective(answer(glimpses.output), glimpses)


class FixedReader(Reader):
    """The encoder's last state for everyone: the encoder–decoder before attention (Sutskever et al., NeurIPS 2014)."""

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """The same vector for each query."""
        return ReaderOutput(source.last.unsqueeze(1).expand(-1, query.shape[1], -1), None)

    def log_likelihood(self, query: Tensor, source: SourceStates, answer: Callable[[Tensor], Tensor]) -> Tensor:
        """Given the fixed vector."""
        return answer(self(query, source).context)
