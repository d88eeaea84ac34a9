"""What attention by scores shares: a score function, a normalizer, and the weights that they give.

weights = argmax_Ω(score(query, key))
"""

from __future__ import annotations

from abc import ABC
from typing import NamedTuple

from torch import Tensor, nn

from omegamax.attention.masks import allowed_for
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.padding import only_asking, only_read
from omegamax.attention.scores import Score, score_of
from omegamax.module_repr import shown, unless


class Scored(NamedTuple):
    """Scores, what may be attended to, and the weights."""

    scores: Tensor  # (..., Q, K), before masks
    allowed: Tensor | None  # broadcasts to scores; None where everything is
    weights: Tensor  # (..., Q, K)


class ScoredAttention(nn.Module, ABC):
    """A score function, by default the scaled dot product, a normalizer, and dropout of weights.

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
        self.score = score_of(who, score)
        self.normalizer = normalizer
        self.dropout = dropout

    def weigh(
        self, query: Tensor, key: Tensor, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
    ) -> Scored:
        """Scores of queries (..., Q, dq) and keys (..., K, dk), masked and normalized."""
        allowed = allowed_for(type(self).__name__, query, key, mask=mask, lengths=lengths, causal=causal)
        key = only_read(key, allowed, query.shape[-2])
        scores = self.score(only_asking(query, allowed, key.shape[-2]), key)
        return Scored(scores, allowed, normalize(self.normalizer, scores, allowed))

    def extra_repr(self) -> str:
        """The normalizer, where it is not a module, and the dropout, where there is any."""
        return shown(normalizer=self.normalizer, dropout=unless(self.dropout, 0))
