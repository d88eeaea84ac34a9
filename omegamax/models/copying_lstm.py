"""A recurrent model that writes tokens of its vocabulary or copies them from the source: for summaries.

    p(w) = g p_vocabulary(w) + (1 − g) Σ_{k: x_k = w} p_tk                g from a_t, the context and the last token
    loss = −log p(y_t) + λ Σ_k min(p_tk, Σ_{t' < t} p_t'k)                 the second part costs looking twice

See, Liu & Manning, "Get to the point: summarization with pointer-generator networks", ACL 2017. Their coverage is also
an input of the attention; here it is in the loss only, since what was attended to is fed back anyway.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.attention.pointer import CopyHead
from omegamax.models.feeding_lstm import DecodedTarget, FeedingLSTM, LSTMMemory, LSTMState
from omegamax.models.sequence_model import DecoderStep


class CopyingLSTM(FeedingLSTM):
    """An LSTM with attention and input feeding that generates or copies; both sides have the same tokens.

    The options are those of `LSTMEncoderDecoder`, but there must be a normalizer: weights are what is copied by.

    Arguments:
        n_tokens: how many tokens there are
        label_smoothing: the share of the target that training spreads over all tokens
        coverage_loss: λ
        options: `normalizer`, `embedding_size`, `hidden_size`, `n_layers`, `dropout`, `scaled` and `padding`

    >>> model = CopyingLSTM(10, normalizer=SquaredNorm(), embedding_size=4, hidden_size=6)
    >>> model(torch.randint(10, (2, 5)), torch.tensor([5, 3]), torch.randint(10, (2, 4))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, n_tokens: int, *, label_smoothing: float = 0.0, coverage_loss: float = 0.0, **options: Any
    ) -> None:
        super().__init__(n_tokens, n_tokens, **options)
        if self.normalizer is None:
            raise ValueError("CopyingLSTM: normalizer must be one, got None; without attention nothing can be copied")
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"CopyingLSTM: label_smoothing must lie in [0, 1), got {label_smoothing}; 0 has none")
        self.label_smoothing, self.coverage_loss = label_smoothing, coverage_loss
        size = self.combine.out_features
        self.head = CopyHead(size, size, self.target_embedding.embedding_dim, n_tokens)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes minus the loss of each target token after the first; padding costs nothing."""
        encoded = self.encode(source, lengths)
        decoded = self._decode(target[:, :-1], encoded)
        log_probs = self._log_probs(decoded, encoded)
        objective = log_probs.gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)
        if self.label_smoothing:
            objective = torch.lerp(objective, log_probs.mean(-1), self.label_smoothing)
        if self.coverage_loss:
            assert decoded.weights is not None
            covered = decoded.weights.cumsum(1) - decoded.weights
            objective = objective - self.coverage_loss * torch.minimum(decoded.weights, covered).sum(-1)
        return torch.where(target[:, 1:] != self.padding, objective, 0)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        encoded = self.encode(source, lengths)
        log_probs = self._log_probs(self._decode(target[:, :-1], encoded), encoded)
        return log_probs.gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)

    def step(self, token: Tensor, state: LSTMState, encoded: LSTMMemory) -> DecoderStep:
        embedded = self.dropout(self.target_embedding(token))
        state, weights = self._advance(self.of_token(embedded), state, encoded)
        assert weights is not None
        decoded = DecodedTarget(state.fed.unsqueeze(1), weights.unsqueeze(1), embedded.unsqueeze(1))
        return DecoderStep(self._log_probs(decoded, encoded).squeeze(1), state, weights)

    def _log_probs(self, decoded: DecodedTarget, encoded: LSTMMemory) -> Tensor:
        fed, weights, embedded = decoded
        assert weights is not None
        context = torch.bmm(weights, encoded.states)
        probabilities = self.head(fed, context, embedded, weights, encoded.source).probabilities
        return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
