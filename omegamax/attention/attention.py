"""Attention: score, normalize, average.

weights = argmax_Ω(score(query, key))          each row on the simplex, or the whole matrix in a structure's polytope
output  = weights · value
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.masks import attention_mask
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.scores import ScaledDotProduct, Score
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class Attended(NamedTuple):
    """What attention returns."""

    output: Tensor  # (..., Q, features)
    weights: Tensor | None  # (..., Q, K); None where they were not wanted


class Attention(nn.Module):
    """Attention with any score function and any normalizer.

    Queries (..., Q, dq), keys (..., K, dk) and values (..., K, features) share their batch axes, or broadcast. The
    normalizer is a regularizer (each row of scores on its own), a layer that learns its temperature or order, or a
    structured smoothed maximum that sees the whole matrix.

    >>> attention = Attention(DotProduct(), normalizer=SquaredNorm())
    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> attention(query, key, torch.eye(3)).weights
    tensor([[0.7500, 0.2500, 0.0000]])
    """

    def __init__(
        self,
        score: Score | None = None,
        *,
        normalizer: Normalizer = _SHANNON,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_normalizer("Attention", normalizer)
        if not 0 <= dropout < 1:
            raise ValueError(f"Attention: dropout must lie in [0, 1), got {dropout}; 0 switches it off")
        self.score = ScaledDotProduct() if score is None else score
        self.normalizer = normalizer
        self.dropout = dropout

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
        `causal` lets query i see keys up to i (from the end, where there are fewer queries than keys). A masked value
        may be anything, NaN too. A query that may attend to nothing gets zeros.
        """
        value = key if value is None else value
        if value.shape[-2] != key.shape[-2]:
            raise ValueError(
                f"Attention: there must be one value per key, got {value.shape[-2]} values and {key.shape[-2]} keys; "
                "both have them on their last axis but one"
            )
        scores = self.score(query, key)
        allowed = attention_mask(scores, mask=mask, lengths=lengths, causal=causal)
        weights = normalize(self.normalizer, scores, allowed)
        dropped = nn.functional.dropout(weights, self.dropout, self.training)
        return Attended(_average(dropped, value, allowed), weights if need_weights else None)

    def extra_repr(self) -> str:
        """The normalizer, where it is not a module."""
        shown = [] if isinstance(self.normalizer, nn.Module) else [f"normalizer={self.normalizer}"]
        return ", ".join([*shown, *([f"dropout={self.dropout}"] if self.dropout else [])])


def _average(weights: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
    """Weights · value; a value that no query may attend to is never read, whatever it holds."""
    if allowed is not None:
        unread = ~allowed.expand(*allowed.shape[:-2], weights.shape[-2], weights.shape[-1]).any(-2)
        value = torch.where(unread.unsqueeze(-1), 0, value)
    return weights @ value
