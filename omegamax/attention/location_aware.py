"""Location-aware attention: a convolution of the last weights tells every key where attention stood.

    f_t = F * weights_{t−1},      score_tj = w₂ᵀ tanh(W_q q_t + W_k k_j + U f_tj + b)

Chorowski, Bahdanau, Serdyuk, Cho & Bengio, "Attention-based models for speech recognition", NIPS 2015.
"""

from __future__ import annotations

from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.recalling import RecallingAttention
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class LocationAware(RecallingAttention):
    """Content and place: the additive score with `n_filters` features of the last weights, each from `width` keys.

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
        """Every filter's answer at every key."""
        if state.numel() == 0:
            return state.new_zeros(*state.shape, self.filters.out_channels)
        answers = self.filters(state.reshape(-1, 1, state.shape[-1]))  # (batch, filters, K)
        return answers.transpose(-1, -2).reshape(*state.shape, -1)

    def advance(self, state: Tensor, weights: Tensor, key: Tensor) -> Tensor:
        """The weights."""
        return weights
