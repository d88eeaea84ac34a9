"""How a decoder reads what was encoded: by soft attention, by hard attention, or from one fixed vector.

A reader gives a context for each of the decoder's states. It also says what is maximised: a reader that chooses places
by chance needs the likelihood of the target under each of its choices.
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
    """Contexts for the states of a decoder, and the weights they were read with."""

    context: Tensor  # (B, Q, features)
    weights: Tensor | None  # (B, Q, K); None for a reader without attention


class Reader(nn.Module, ABC):
    """Maps decoder states `query` (B, Q, features) and encoder states `source` to contexts."""

    @abstractmethod
    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """Reads contexts for prediction, without randomness."""

    @abstractmethod
    def log_likelihood(self, query: Tensor, source: SourceStates, log_prob: Callable[[Tensor], Tensor]) -> Tensor:
        """Computes log p(y | x) for each query (B, Q), or a bound of it, for training.

        `log_prob` maps contexts (..., B, Q, features) to log p(y | context) (..., B, Q).
        """


class SoftReader(Reader):
    """Reads an average over all places, with any score and any normalizer.

    Arguments:
        attention: averages over the places
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        return ReaderOutput(*self.attention(query, source.states, lengths=source.lengths))

    def log_likelihood(self, query: Tensor, source: SourceStates, log_prob: Callable[[Tensor], Tensor]) -> Tensor:
        return log_prob(self(query, source).context)


class HardReader(Reader):
    """Reads one place for each state: sampled, or summed over, in training; the best one in prediction.

    Arguments:
        attention: chooses a place, and estimates the gradient of the choice
    """

    def __init__(self, attention: HardAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        """Reads the state with the highest score."""
        best = Attention(self.attention.score, normalizer=Hard())  # not stored: its score would be registered twice
        return ReaderOutput(*best(query, source.states, lengths=source.lengths))

    def log_likelihood(self, query: Tensor, source: SourceStates, log_prob: Callable[[Tensor], Tensor]) -> Tensor:
        """Computes the estimator's objective, a lower bound of log p(y)."""
        glimpses = self.attention(query, source.states, lengths=source.lengths)
        return self.attention.objective(log_prob(glimpses.output), glimpses)


class FixedReader(Reader):
    """Always reads the encoder's last state: the encoder–decoder before attention (Sutskever et al., NeurIPS 2014)."""

    def forward(self, query: Tensor, source: SourceStates) -> ReaderOutput:
        return ReaderOutput(source.last.unsqueeze(1).expand(-1, query.shape[1], -1), None)

    def log_likelihood(self, query: Tensor, source: SourceStates, log_prob: Callable[[Tensor], Tensor]) -> Tensor:
        return log_prob(self(query, source).context)
