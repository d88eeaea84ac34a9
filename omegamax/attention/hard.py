"""Hard attention: it reads one place instead of averaging over all.

    s ~ Multinoulli(argmax_Ω(score(query, key))),      output = value[s]

A choice has no derivative; an `Estimator` supplies one (see `omegamax.attention.estimators`).
Xu et al., "Show, attend and tell", ICML 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.attention.attention import ScoredAttention
from omegamax.attention.estimators import Choices, Estimator, Marginalize, Reinforce, row_entropy
from omegamax.attention.masking import allowed_pairs, average, values_or_keys
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scores import Score
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class HardAttentionOutput(NamedTuple):
    """The values that n choices for every query picked, and what an estimator needs to learn from them."""

    output: Tensor  # (n, ..., Q, features)
    weights: Tensor  # (..., Q, K), the probabilities of the choices
    chosen: Choices  # choices (n, ..., Q, K), their log-probabilities and shares
    entropy: Tensor  # (..., Q), of the weights

    @staticmethod
    def join(steps: Sequence[HardAttentionOutput]) -> HardAttentionOutput:
        """Joins the outputs of a sequence of steps along the queries."""
        chosen = Choices(
            torch.cat([step.chosen.choices for step in steps], -2),
            torch.cat([step.chosen.log_prob for step in steps], -1),
            torch.cat([step.chosen.share for step in steps], -1),
        )
        output, weights = (torch.cat(parts, -2) for parts in zip(*(step[:2] for step in steps)))
        return HardAttentionOutput(output, weights, chosen, torch.cat([step.entropy for step in steps], -1))


class HardAttention(ScoredAttention):
    """Attention that chooses one key for each query, and an estimator that learns to choose.

    Queries (..., Q, dq), keys (..., K, dk), values (..., K, features). The normalizer must make every row a
    distribution.

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...; None is the scaled dot product
        normalizer: a regularizer or layer that makes a distribution of every row
        estimator: how choosing is learned; None is `Reinforce()`

    Compute log p(y | s) from `output`, then maximise `objective(log_likelihood, glimpses)`:

    >>> attention = HardAttention(DotProduct(), normalizer=SquaredNorm(), estimator=Marginalize())
    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> glimpses = attention(query, key, torch.tensor([[-1.0], [-2.0], [-8.0]]))
    >>> glimpses.chosen.share.squeeze(-1)
    tensor([0.7500, 0.2500])
    >>> attention.objective(glimpses.output.squeeze(-1), glimpses)     # pretend that values are log-likelihoods
    tensor([-1.2500])
    """

    def __init__(
        self,
        score: Score | None = None,
        *,
        normalizer: Normalizer = _SHANNON,
        estimator: Estimator | None = None,
    ) -> None:
        super().__init__(score, normalizer)
        if not normalizer.rows_sum_to_one:
            raise TypeError(
                "HardAttention: normalizer must make every row a distribution, got the structured "
                f"{type(normalizer).__name__}; use a regularizer such as om.SquaredNorm()"
            )
        self.estimator = Reinforce() if estimator is None else estimator

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = False,
        generator: torch.Generator | None = None,
    ) -> HardAttentionOutput:
        """Picks values, by default keys; masks as in `Attention`. A query that may attend to nothing picks nothing."""
        value = values_or_keys("HardAttention", key, value)
        allowed = allowed_pairs("HardAttention", query, key, mask=mask, lengths=lengths, causal=causal)
        weights = self.scores_and_weights(query, key, allowed).weights
        chosen = self.estimator.choose(weights, generator)
        return HardAttentionOutput(average(chosen.choices, value, allowed), weights, chosen, row_entropy(weights))

    def objective(self, log_likelihood: Tensor, glimpses: HardAttentionOutput) -> Tensor:
        """Computes L_s ≤ log p(y), to be maximised, from log p(y | s) (n, ..., Q) or (n, ...); the axis n is summed."""
        return self.estimator.objective(log_likelihood, glimpses.chosen, glimpses.entropy)

    def log_marginal(self, log_likelihood: Tensor, glimpses: HardAttentionOutput) -> Tensor:
        """Computes log p(y) itself; the estimator must be `Marginalize`."""
        if not isinstance(self.estimator, Marginalize):
            raise TypeError(
                "HardAttention: log_marginal needs every choice in the support, got the estimator "
                f"{type(self.estimator).__name__}; use estimator=om.attention.Marginalize()"
            )
        return self.estimator.log_marginal(log_likelihood, glimpses.chosen)
