"""A recurrent translator: an LSTM with attention and input feeding that writes tokens of a vocabulary.

scores of y_t = V a_t + b,      p(y_t) = argmax_Ω(scores)           a_t as in feeding_lstm.py
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from omegamax.models.feeding_lstm import FeedingLSTM, LSTMMemory, LSTMState
from omegamax.models.sequence_model import DecoderStep
from omegamax.models.token_distribution import TokenDistribution, of_written

_SOFTMAX = TokenDistribution()


class LSTMEncoderDecoder(FeedingLSTM):
    """A bidirectional LSTM, an LSTM with input feeding, and attention with any normalizer of rows.

    The options and their defaults are normalizer=Shannon() (of the attention; None reads the encoder's last state in
    place of attention), embedding_size=256, hidden_size=256 (each direction of the encoder has half), n_layers=1,
    dropout=0.0, scaled=True (scores are divided by the root of hidden_size), padding=0 (the target token beyond the end
    of a text, which costs nothing).

    Arguments:
        n_source: how many source tokens there are
        n_target: how many target tokens there are
        distribution: of the next token, and its loss
        options: those above, by name

    >>> model = LSTMEncoderDecoder(10, 8, normalizer=SquaredNorm(), embedding_size=4, hidden_size=6)
    >>> model(torch.randint(10, (2, 5)), torch.tensor([5, 3]), torch.randint(8, (2, 4))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, n_source: int, n_target: int, *, distribution: TokenDistribution = _SOFTMAX, **options: Any
    ) -> None:
        super().__init__(n_source, n_target, **options)
        self.distribution = distribution
        self.out = nn.Linear(self.combine.out_features, n_target)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes minus the loss of each target token after the first; padding costs nothing."""
        fed = self._decode(target[:, :-1], self.encode(source, lengths)).fed
        written = target[:, 1:] != self.padding
        return of_written(-self.distribution.loss(self.out(fed[written]), target[:, 1:][written]), written)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        fed = self._decode(target[:, :-1], self.encode(source, lengths)).fed
        return self.distribution.log_likelihood(self.out(fed), target[:, 1:])

    def step(self, token: Tensor, state: LSTMState, encoded: LSTMMemory) -> DecoderStep:
        of_token = self.of_token(self.dropout(self.target_embedding(token)))
        state, weights = self._advance(of_token, state, encoded)
        return DecoderStep(self.distribution.log_probs(self.out(state.fed)), state, weights)
