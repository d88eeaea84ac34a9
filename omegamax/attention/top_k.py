"""Softmax on the k best scores of a row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import checks
from omegamax.operators.operator import masked
from omegamax.smoothmax import SmoothMax, ValueAndWeights


@dataclass(frozen=True)
class TopK(SmoothMax):
    """Softmax on the k largest scores; all other weights are zero. Of equal scores the first are taken.

        max over p in the simplex with at most k weights that are not zero of  <p, θ> − Σ p log p

    Arguments:
        k: how many scores may have weight

    >>> om.attention.TopK(2).argmax(torch.tensor([1.0, 0.0, 1.0, -1.0]))
    tensor([0.5000, 0.0000, 0.5000, 0.0000])
    """

    k: int

    sums_to_one = True
    rows_sum_to_one = True
    zero_at_corners = True

    def __post_init__(self) -> None:
        checks.check_count("TopK", "k", self.k)

    def omega(self, weights: Tensor) -> Tensor:
        """Σ p log p, and inf where more than k weights are not zero."""
        positive = weights > 0
        entropy = (weights * torch.where(positive, weights, 1).log()).sum(-1)
        return torch.where(positive.sum(-1) > self.k, torch.inf, entropy)

    def max(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Computes the log-sum-exp of the k largest."""
        return self.max_and_argmax(scores, mask=mask, lengths=lengths).value

    def argmax(self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Softmax on the k largest, zeros elsewhere."""
        return self.max_and_argmax(scores, mask=mask, lengths=lengths).weights

    def max_and_argmax(
        self, scores: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> ValueAndWeights:
        scores = masked("TopK", 1, scores, mask, lengths)
        best = self.keep_best(scores)
        out = best == -torch.inf
        empty = out.all(-1, keepdim=True)
        shown = torch.where(empty, 0, best)  # a row with nothing allowed: its softmax would be NaN
        weights = torch.where(out, 0, shown.softmax(-1))
        value = torch.where(empty.squeeze(-1), -torch.inf, shown.logsumexp(-1))
        return ValueAndWeights(value, weights)

    def keep_best(self, scores: Tensor) -> Tensor:
        """Replaces all scores but the k largest by −inf."""
        if self.k >= scores.shape[-1]:
            return scores
        order = scores.detach().sort(dim=-1, descending=True, stable=True).indices[..., : self.k]
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, order, True)
        bad = scores.detach().isnan().any(-1, keepdim=True)
        return torch.where(kept | bad, scores, -torch.inf)

    # The methods of an operator that attention over several processes calls; see `omegamax.operators.operator`.

    def solve_certificate(self, scores: Tensor) -> tuple[Tensor, ...]:
        """Returns the weights, which are all that the derivative needs."""
        return (self.argmax(scores),)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """J v = p (v − <p, v>) for a `direction` v and the weights p of the `certificate`."""
        (weights,) = certificate
        return weights * (direction - (weights * direction).sum(-1, keepdim=True))
