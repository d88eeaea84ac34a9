"""The encoder–decoder with attention: reads a sequence, then writes another one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.models.readers import Reader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.models.sequence_model import DecoderStep, SequenceModel


class EncoderDecoder(SequenceModel):
    """A bidirectional GRU, a GRU, and a reader that connects them.

        h = encoder(x)                        one state for each source token
        s_t = GRU(s_{t-1}, y_{t-1})           s_0 from the encoder's last state
        c_t = reader(s_t, h)                  attention, or the last state again
        p(y_t) = softmax(V tanh(W [c_t; s_t]))

    The context enters after the recursion (Luong et al., EMNLP 2015, without input feeding): so under teacher forcing
    all states are one call, all contexts another, and what was read at one token does not change what is read later.
    Source tokens are (B, K) with lengths (B,); targets (B, T + 1) begin with a start token.

    Arguments:
        n_source: how many source tokens there are
        n_target: how many target tokens there are
        reader: what the decoder reads of the source: `SoftReader(...)`, `HardReader(...)` or `FixedReader()`
        embedding_size: features of a token
        hidden_size: features of a state
        dropout: the share of features that training drops

    >>> from omegamax.models import SoftReader
    >>> reader = SoftReader(Attention(Additive(6, 6), normalizer=SquaredNorm()))
    >>> model = EncoderDecoder(10, 8, reader=reader, hidden_size=6)
    >>> model(torch.randint(10, (2, 5)), torch.tensor([5, 3]), torch.randint(8, (2, 4))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_source: int,
        n_target: int,
        *,
        reader: Reader,
        embedding_size: int = 64,
        hidden_size: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(n_source, embedding_size)
        self.target_embedding = nn.Embedding(n_target, embedding_size)
        self.encoder = RecurrentEncoder(embedding_size, hidden_size)
        self.bridge = nn.Linear(hidden_size, hidden_size)
        self.decoder = nn.GRU(embedding_size, hidden_size, batch_first=True)
        self.reader = reader
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, n_target)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes log p(y_t | y_<t, x) of each target token after the first, (B, T), which is maximised."""
        encoded = self.encode(source, lengths)
        states = self._states(target[:, :-1], encoded)
        following = target[:, 1:].unsqueeze(-1)

        def log_prob(context: Tensor) -> Tensor:
            log_probs = self._log_probs(context, states)
            return log_probs.gather(-1, following.expand(*log_probs.shape[:-1], 1)).squeeze(-1)

        return self.reader.log_likelihood(states, encoded, log_prob)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes log p(y_t | y_<t, x), or the bound that hard attention maximises, (B, T)."""
        return self(source, lengths, target)

    def encode(self, source: Tensor, lengths: Tensor | None) -> SourceStates:
        """Encodes the source into states that the decoder reads; `lengths` is None if there is no padding."""
        return self.encoder(self.dropout(self.source_embedding(source)), lengths)

    def start(self, encoded: SourceStates) -> Tensor:
        """Computes the decoder's first state, (B, hidden); `encoded` is what `encode` returned."""
        return self.bridge(encoded.last).tanh()

    def step(self, token: Tensor, state: Tensor, encoded: SourceStates) -> DecoderStep:
        """Takes one token (B,) of each output and predicts the next, from `state` and what it reads of `encoded`."""
        embedded = self.dropout(self.target_embedding(token)).unsqueeze(1)
        states, last = self.decoder(embedded, state.unsqueeze(0))
        context, weights = self.reader(states, encoded)
        log_probs = self._log_probs(context, states).squeeze(1)
        return DecoderStep(log_probs, last.squeeze(0), None if weights is None else weights.squeeze(1))

    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        """Computes the weights (B, T, K) behind each target token after the first; None without attention."""
        encoded = self.encode(source, lengths)
        return self.reader(self._states(target[:, :-1], encoded), encoded).weights

    def _states(self, tokens: Tensor, encoded: SourceStates) -> Tensor:
        embedded = self.dropout(self.target_embedding(tokens))
        return self.decoder(embedded, self.start(encoded).unsqueeze(0))[0]

    def _log_probs(self, context: Tensor, states: Tensor) -> Tensor:
        both = torch.cat([context, states.expand(*context.shape[:-3], *states.shape)], -1)
        return self.out(self.dropout(self.combine(both).tanh())).log_softmax(-1)
