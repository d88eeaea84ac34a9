"""Attention: score, normalize, average.

weights = argmax_Ω(score(query, key))          each row on the simplex, or the whole matrix in a structure's polytope
output  = weights · value
"""

from __future__ import annotations

from abc import ABC
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import routing
from omegamax.attention.masking import (
    Visibility,
    average,
    batch_shape,
    values_or_keys,
    visible_keys,
    zero_idle,
    zero_unread,
)
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.scores import (
    DotProduct,
    ScaledDotProduct,
    Score,
    dot_product_factors,
    score_or_default,
)
from omegamax.attention.sparse_layers import sparse_output
from omegamax.module_repr import shown, unless
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class AttentionOutput(NamedTuple):
    """Averages of the values, and the weights they were taken with."""

    output: Tensor  # (..., Q, features)
    weights: Tensor | None  # (..., Q, K); None if need_weights=False


class StatefulAttentionOutput(NamedTuple):
    """The output of attention that depends on where it looked before; pass `state` to the next call to go on."""

    output: Tensor  # (..., Q, features)
    weights: Tensor  # (..., Q, K)
    state: Tensor  # after the last query; each layer says what it holds


class ScoresAndWeights(NamedTuple):
    """Scores of all pairs of a query and a key, and their weights."""

    scores: Tensor  # (..., Q, K), before masks
    weights: Tensor  # (..., Q, K)


class ScoredAttention(nn.Module, ABC):
    """The base of layers with a score function (by default the scaled dot product), a normalizer and dropout.

    Common arguments: `query` (..., Q, dq), `key` (..., K, dk), `value` (..., K, features), by default the keys; `mask`
    (boolean, broadcasts to (..., Q, K), True means "may attend"); `lengths` (the number of keys of each item); `causal`
    (whether query i sees only keys up to i); `need_weights` (whether weights are returned); `generator` (the source of
    random numbers).
    """

    def __init__(self, score: Score | None, normalizer: Normalizer, *, dropout: float = 0.0) -> None:
        super().__init__()
        who = type(self).__name__
        check_normalizer(who, normalizer)
        if not 0 <= dropout < 1:
            raise ValueError(f"{who}: dropout must lie in [0, 1), got {dropout}; 0 switches it off")
        self.score = score_or_default(who, score)
        self.normalizer = normalizer
        self.dropout = dropout

    def scores_and_weights(self, query: Tensor, key: Tensor, allowed: Tensor | None) -> ScoresAndWeights:
        """Scores queries (..., Q, dq) against keys (..., K, dk), and normalizes what is `allowed`."""
        if allowed is not None:
            query, key = zero_idle(query, allowed, key.shape[-2]), zero_unread(key, allowed, query.shape[-2])
        scores = self.score(query, key)
        return ScoresAndWeights(scores, normalize(self.normalizer, scores, allowed))

    def extra_repr(self) -> str:
        return shown(normalizer=self.normalizer, dropout=unless(self.dropout, 0))


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
    ) -> AttentionOutput:
        """Averages the values, by default the keys.

        `mask` is boolean and broadcasts to (..., Q, K): True means "may attend"; `lengths` counts the keys of an item;
        `causal` lets query i see keys up to i (from the end, where there are fewer queries than keys). A value that no
        query may attend to may be anything, NaN too. A query that may attend to nothing gets zeros.

        With `need_weights=False`, long sequences take `sparse_attention` where the score is a product and the
        normalizer is sparse: faster, without a (Q, K) tensor, differentiable once. Ask for the weights to differentiate
        twice.
        """
        value = values_or_keys("Attention", key, value)
        seen = visible_keys("Attention", query, key, mask=mask, lengths=lengths, causal=causal)
        output = None if need_weights else self._attend_sparsely(query, key, value, seen)
        if output is not None:
            return AttentionOutput(output, None)
        allowed = seen.mask(query.shape[-2], key.shape[-2], device=query.device)
        output, weights = self._attend(query, key, value, allowed)
        return AttentionOutput(output, weights if need_weights else None)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Turns scores into weights and weights into averages of the values, by dense scores."""
        weights = self.scores_and_weights(query, key, allowed).weights
        dropped = nn.functional.dropout(weights, self.dropout, self.training)
        return average(dropped, value, allowed), weights

    def _attend_sparsely(self, query: Tensor, key: Tensor, value: Tensor, seen: Visibility) -> Tensor | None:
        """The averages without dense scores; None where that does not exist or does not pay."""
        batch = batch_shape(query, key)
        if torch.broadcast_shapes(batch, value.shape[:-2]) != batch or routing.has_hooks(self.score):
            return None
        if not isinstance(self.score, (DotProduct, ScaledDotProduct)):  # gradients of its weights see the padding
            query = zero_idle(query, seen.allowed, key.shape[-2], causal=seen.causal)
            key = zero_unread(key, seen.allowed, query.shape[-2])
        factors = dot_product_factors(self.score, query, key)
        if factors is None:
            return None
        return sparse_output(
            factors.query.expand(*batch, -1, -1),
            factors.key.expand(*batch, -1, -1),
            value.expand(*batch, -1, -1),
            self.normalizer,
            mask=seen.allowed,
            causal=seen.causal,
            scale=factors.scale,
            dropout=self.dropout if self.training else 0.0,
        )
