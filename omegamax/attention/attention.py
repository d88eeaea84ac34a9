"""Attention: score, normalize, average.

weights = argmax_Ω(score(query, key))          each row on the simplex, or the whole matrix in a structure's polytope
output  = weights · value
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from omegamax.attention.averages import average, values_of
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scored import ScoredAttention
from omegamax.attention.scores import Score
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class Attended(NamedTuple):
    """What attention returns."""

    output: Tensor  # (..., Q, features)
    weights: Tensor | None  # (..., Q, K); None where they were not wanted


class Attention(ScoredAttention):
    """Attention with any score function and any normalizer.

    Queries (..., Q, dq), keys (..., K, dk) and values (..., K, features) share their batch axes, or broadcast. The
    normalizer is a regularizer (each row of scores on its own), a layer that learns its temperature or order, or a
    structured smoothed maximum that sees the whole matrix.

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...; None is the scaled dot product
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`
        dropout: the share of weights that training drops

    >>> attention = Attention(DotProduct(), normalizer=SquaredNorm())
    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> attention(query, key, torch.eye(3)).weights
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    def __init__(self, score: Score | None = None, *, normalizer: Normalizer = _SHANNON, dropout: float = 0.0) -> None:
        super().__init__(score, normalizer, dropout=dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = True,
    ) -> Attended:
        """Averages of the values, by default of the keys.

        `mask` is boolean and broadcasts to (..., Q, K): True means "may attend"; `lengths` counts the keys of an item;
        `causal` lets query i see keys up to i (from the end, where there are fewer queries than keys). A value that no
        query may attend to may be anything, NaN too. A query that may attend to nothing gets zeros.
        """
        value = values_of("Attention", key, value)
        _, allowed, weights = self.weigh(query, key, mask=mask, lengths=lengths, causal=causal)
        dropped = nn.functional.dropout(weights, self.dropout, self.training)
        return Attended(average(dropped, value, allowed), weights if need_weights else None)
