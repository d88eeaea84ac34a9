"""Attention whose scores depend on its past weights: queries come one after another, and carry a state.

    score_tj = w₂ᵀ tanh(W_q q_t + W_k k_j + W_f f_j(state_t) + b),     weights_t = argmax_Ω(score_t)

`HistoryAttention` is the base; a subclass says what the state is and which features f it has. `LocationAware` convolves
the last weights, f_t = F * weights_{t−1}; `CoverageAttention` (coverage.py) sums all weights so far.

Chorowski, Bahdanau, Serdyuk, Cho & Bengio, "Attention-based models for speech recognition", NIPS 2015.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from omegamax.attention.attention import StatefulAttentionOutput
from omegamax.attention.masking import allowed_pairs, average, batch_shape, values_or_keys, zero_idle, zero_unread
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.scores import Additive
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class HistoryAttention(nn.Module, ABC):
    """Additive attention that also sees features of a state (..., K). The state is zero before the first query.

    Arguments:
        query_size: features of a query
        key_size: features of a key
        hidden_size: of the additive score; None takes `query_size`
        n_features: how many features the state has for each key
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
    """

    def __init__(
        self, query_size: int, key_size: int, hidden_size: int | None, n_features: int, normalizer: Normalizer
    ) -> None:
        super().__init__()
        check_normalizer(type(self).__name__, normalizer)
        if normalizer.event_ndim != 1:
            raise ValueError(
                f"{type(self).__name__}: normalizer must act on rows, got {type(normalizer).__name__} over the matrix "
                "of queries and keys; queries come one at a time, use for example om.SquaredNorm()"
            )
        self.score = Additive(query_size, key_size, hidden_size)
        self.of_feature = nn.Linear(n_features, self.score.out.in_features, bias=False)
        self.normalizer = normalizer

    def extra_repr(self) -> str:
        return shown(max_fertility=getattr(self, "max_fertility", None), normalizer=self.normalizer)

    @abstractmethod
    def features(self, state: Tensor) -> Tensor:
        """Computes features (..., K, n_features) of a state (..., K)."""

    @abstractmethod
    def advance(self, state: Tensor, weights: Tensor, key: Tensor) -> Tensor:
        """Computes the state after weights (..., K) on keys (..., K, key_size)."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> StatefulAttentionOutput:
        """Averages the values, by default the keys; returns the weights and the state after the last query too.

        Queries (..., Q, query_size) are taken in turn. `mask` is boolean and broadcasts to (..., Q, K): True means "may
        attend"; `lengths` counts the keys of an item.

        Arguments:
            query: (..., Q, query_size)
            key: (..., K, key_size)
            value: (..., K, features); None takes the keys
            state: (..., K) to go on from; None begins at zero
            mask: as above
            lengths: how many keys each item has
        """
        value = values_or_keys(type(self).__name__, key, value)
        allowed = allowed_pairs(type(self).__name__, query, key, mask=mask, lengths=lengths)
        key = zero_unread(key, allowed, query.shape[-2])
        query = zero_idle(query, allowed, key.shape[-2])
        of_query, of_key = self.score.of_query(query), self.score.of_key(key)  # (..., Q, hidden), (..., K, hidden)
        if state is None:
            state = query.new_zeros(*batch_shape(query, key), key.shape[-2])
        rows = [of_query.new_zeros(*batch_shape(query, key), 0, key.shape[-2])]
        for t in range(query.shape[-2]):
            hidden = of_query[..., t, None, :] + of_key + self.of_feature(self.features(state))
            scores = self.score.out(hidden.tanh()).transpose(-1, -2)  # (..., 1, K)
            row = None if allowed is None else allowed[..., t if allowed.shape[-2] > 1 else 0, None, :]
            rows.append(normalize(self.normalizer, scores, row))
            state = self.advance(state, rows[-1].squeeze(-2), key)
        weights = torch.cat(rows, -2).to(value.dtype)
        return StatefulAttentionOutput(average(weights, value, allowed), weights, state)


class LocationAware(HistoryAttention):
    """Additive attention that also sees `n_filters` features of the last weights, each a convolution over `width` keys.

    Queries (..., Q, query_size) and keys (..., K, key_size). `state` are the last weights, (..., K). Before the first
    query they are zeros: the first weights are those of `Additive` alone. Similar keys far apart, which content cannot
    tell from each other, are told apart by where attention was.

    Arguments:
        query_size: features of a query
        key_size: features of a key
        hidden_size: of the additive score; None takes `query_size`
        n_filters: how many features the last weights give
        width: how many keys a filter sees, odd
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`

    >>> attention = LocationAware(3, 5, normalizer=SquaredNorm())
    >>> attention(torch.randn(4, 3), torch.randn(7, 5)).weights.shape
    torch.Size([4, 7])
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        hidden_size: int | None = None,
        *,
        n_filters: int = 10,
        width: int = 31,
        normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__(query_size, key_size, hidden_size, n_filters, normalizer)
        if width < 1 or width % 2 == 0:
            raise ValueError(
                f"LocationAware: width must be odd, got {width}; a filter is centred on its key, take {width + 1}"
            )
        self.filters = nn.Conv1d(1, n_filters, width, padding=width // 2, bias=False)

    def features(self, state: Tensor) -> Tensor:
        """Convolves the last weights with every filter."""
        if state.numel() == 0:
            return state.new_zeros(*state.shape, self.filters.out_channels)
        filtered = self.filters(state.reshape(-1, 1, state.shape[-1]))  # (batch, filters, K)
        return filtered.transpose(-1, -2).reshape(*state.shape, -1)

    def advance(self, state: Tensor, weights: Tensor, key: Tensor) -> Tensor:
        return weights
