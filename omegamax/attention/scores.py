"""Score functions: they measure how well a key matches a query.

    DotProduct        q · k
    ScaledDotProduct  q · k / √d           the spread of scores does not grow with d
    Bilinear          qᵀ W k
    Additive          w₂ᵀ tanh(W₁ [q; k])   the multi-layer perceptron of Bahdanau et al., ICLR 2015
    Cosine            q · k / (‖q‖ ‖k‖), times a sharpness

Queries (..., Q, dq) and keys (..., K, dk) give scores (..., Q, K); batch axes broadcast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks


class Score(nn.Module, ABC):
    """Maps a `query` (..., Q, dq) and a `key` (..., K, dk) tensor to scores (..., Q, K)."""

    @abstractmethod
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores how well each key matches each query."""


class DotProduct(Score):
    """q · k: for queries and keys of the same size, without parameters (Luong et al., EMNLP 2015)."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        _check_sizes(self, query, key)
        return query @ key.transpose(-1, -2)


class ScaledDotProduct(Score):
    """q · k / √d (Vaswani et al., NeurIPS 2017), or with another scale.

    Arguments:
        scale: what the product is multiplied by; None is 1/√d
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        if scale is not None and not isinstance(scale, Tensor):
            checks.check_finite("ScaledDotProduct", "scale", scale, "leave it out for 1 / √d")
        self.scale = scale

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scales queries and not scores, which are more numbers."""
        _check_sizes(self, query, key)
        scale = 1 / math.sqrt(max(1, query.shape[-1])) if self.scale is None else self.scale
        return (query * scale) @ key.transpose(-1, -2)

    def extra_repr(self) -> str:
        return "" if self.scale is None else f"scale={self.scale}"


class Bilinear(Score):
    """qᵀ W k: a learned product, also between sizes that differ (Luong's "general").

    Arguments:
        query_size: features of a query
        key_size: features of a key
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_size, key_size))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return (query @ self.weight) @ key.transpose(-1, -2)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class Additive(Score):
    """w₂ᵀ tanh(W₁ [q; k] + b): a hidden layer that sees both. W₁ is kept in two halves, so [q; k] is never built.

    Arguments:
        query_size: features of a query
        key_size: features of a key
        hidden_size: of the hidden layer; None takes `query_size`
        bias: whether b is there
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int | None = None, *, bias: bool = True) -> None:
        super().__init__()
        hidden_size = query_size if hidden_size is None else hidden_size
        self.of_query = nn.Linear(query_size, hidden_size, bias=bias)
        self.of_key = nn.Linear(key_size, hidden_size, bias=False)
        self.out = nn.Linear(hidden_size, 1, bias=False)  # a constant would move every score alike

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = self.of_query(query).unsqueeze(-2) + self.of_key(key).unsqueeze(-3)  # (..., Q, K, hidden)
        return self.out(hidden.tanh()).squeeze(-1)


class Cosine(Score):
    """The cosine of the angle between q and k, times a sharpness (the β of the neural Turing machine).

    Arguments:
        sharpness: what the cosine is multiplied by
    """

    def __init__(self, sharpness: float = 1.0) -> None:
        super().__init__()
        self.sharpness = sharpness

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Computes the scores; a vector of zeros has cosine 0 with everything, and no gradient."""
        _check_sizes(self, query, key)
        query, key = (_direction(x) for x in (query, key))
        return self.sharpness * (query @ key.transpose(-1, -2))

    def extra_repr(self) -> str:
        return f"sharpness={self.sharpness}"


class DotProductFactors(NamedTuple):
    """Scores as scale · query keyᵀ."""

    query: Tensor  # (..., Q, size)
    key: Tensor  # (..., K, size)
    scale: float | None  # None is 1/√size


def dot_product_factors(score: nn.Module, query: Tensor, key: Tensor) -> DotProductFactors | None:
    """Returns what a score function multiplies, or None where its scores are no product of two vectors."""
    if type(score) not in (DotProduct, ScaledDotProduct, Bilinear, Cosine):  # a subclass may compute something else
        return None
    if isinstance(score, Bilinear):
        return DotProductFactors(query @ score.weight, key, 1.0)
    if isinstance(score, Score):
        _check_sizes(score, query, key)
    if isinstance(score, Cosine):
        return DotProductFactors(_direction(query), _direction(key), score.sharpness)
    if isinstance(score, ScaledDotProduct) and isinstance(score.scale, Tensor):
        return DotProductFactors(query * score.scale, key, 1.0)
    if isinstance(score, ScaledDotProduct):
        return DotProductFactors(query, key, score.scale)
    return DotProductFactors(query, key, 1.0)


def _direction(x: Tensor) -> Tensor:
    """Scales vectors to length 1 and leaves zeros; computes lengths in float32 at least, half types overflow early."""
    wide = x.double() if x.dtype is torch.float64 else x.float()
    squared = wide.square().sum(-1, keepdim=True)
    somewhere = squared > 0
    return torch.where(somewhere, wide * torch.where(somewhere, squared, 1).rsqrt(), 0).to(x.dtype)


def score_or_default(who: str, score: Score | None) -> Score:
    """Checks the score function; None becomes the scaled dot product."""
    if score is None:
        return ScaledDotProduct()
    if not isinstance(score, nn.Module):
        kind = f"the class {score.__name__}" if isinstance(score, type) else type(score).__name__
        raise TypeError(
            f"{who}: score must be a score function such as om.DotProduct(), got {kind}; make an instance of it, or "
            "give a regularizer as normalizer="
        )
    return score


def _check_sizes(score: Score, query: Tensor, key: Tensor) -> None:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{type(score).__name__}: query and key must have features of one size, got {query.shape[-1]} and "
            f"{key.shape[-1]}; project one of them, or use Bilinear or Additive"
        )
