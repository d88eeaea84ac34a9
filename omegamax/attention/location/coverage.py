"""Coverage: attention whose scores depend on how much weight each key has already received.

    c_tj = Σ_{s<t} weights_sj / Φ_j,      score_tj = w₂ᵀ tanh(W_q q_t + W_k k_j + w_c c_tj + b)

with Φ = 1 (See, Liu & Manning, "Get to the point", ACL 2017) or a learned fertility Φ_j = N σ(u · k_j), the weight that
key j has to give (Tu, Lu, Liu, Liu & Li, "Modeling coverage for neural machine translation", ACL 2016).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.attention.location.location_aware import HistoryAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class CoverageAttention(HistoryAttention):
    """Additive attention that also sees the coverage of each key; `max_fertility` is Tu's N, None is See's plain sum.

    Queries (..., Q, query_size) and keys (..., K, key_size). `state` is the coverage, (..., K), zeros at first. Train
    it with `coverage_loss`, without which it learns little (See et al., section 2.3).

    Arguments:
        query_size: features of a query
        key_size: features of a key
        hidden_size: of the additive score; None takes `query_size`
        max_fertility: the largest weight in all that one key can give; None counts weights as they are
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`

    >>> attention = CoverageAttention(3, 5)
    >>> output, weights, coverage = attention(torch.randn(4, 3), torch.randn(7, 5))
    >>> torch.allclose(coverage, weights.sum(-2))
    True
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        hidden_size: int | None = None,
        *,
        max_fertility: float | None = None,
        normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__(query_size, key_size, hidden_size, 1, normalizer)
        if max_fertility is not None and not max_fertility > 0:
            raise ValueError(
                f"CoverageAttention: max_fertility must be positive, got {max_fertility}; it is the largest weight in "
                "all that one key can give, None counts weights as they are"
            )
        self.max_fertility = max_fertility
        self.of_fertility = None if max_fertility is None else nn.Linear(key_size, 1, bias=False)

    def features(self, state: Tensor) -> Tensor:
        return state.unsqueeze(-1)

    def advance(self, state: Tensor, weights: Tensor, key: Tensor) -> Tensor:
        """Adds the weights, divided by each key's fertility, to the coverage."""
        fertility = self.fertility(key)
        return state + (weights if fertility is None else weights / fertility)

    def fertility(self, key: Tensor) -> Tensor | None:
        """Computes Φ (..., K) of keys (..., K, key_size); None means that Φ = 1."""
        if self.of_fertility is None or self.max_fertility is None:
            return None
        return self.max_fertility * self.of_fertility(key).squeeze(-1).sigmoid()


def coverage_loss(weights: Tensor, *, coverage: Tensor | None = None) -> Tensor:
    """Computes, for each query, the weight on keys that are already covered.

        loss_t = Σ_j min(weights_tj, c_tj),      c_t = coverage + Σ_{s<t} weights_s

    Weights (..., Q, K) give (..., Q). It is zero if and only if no key gets weight twice. `coverage` (..., K) is what
    came before, zeros by default. See, Liu & Manning, ACL 2017, equation 12.

    Arguments:
        weights: (..., Q, K), one row after the other
        coverage: (..., K), what the keys got before

    >>> coverage_loss(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]]))
    tensor([0.0000, 0.2000])
    """
    before = nn.functional.pad(weights, (0, 0, 1, 0))[..., :-1, :].cumsum(-2)  # of the queries before
    before = before if coverage is None else before + coverage.unsqueeze(-2)
    return torch.minimum(weights, before).sum(-1)
