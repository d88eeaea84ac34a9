"""Modern Hopfield networks: an associative memory whose update is attention, for any Ω or structure.

    E(q) = ½ ‖q‖² − γ max_Ω(X q / γ) − γ Ω(u) + ½ max_i ‖x_i‖²          the energy; u has equal weights
    q ← Xᵀ argmax_Ω(X q / γ)                                            an update, which never raises it

Under Shannon's Ω these are the energy and the update of Ramsauer et al., "Hopfield networks is all you need", ICLR
2021; under Tsallis' Ω those of Hu et al., "On sparse modern Hopfield model", NeurIPS 2023; for any Ω, and for
structures through SparseMAP, those of Santos, Niculae, McNamee & Martins, "Hopfield–Fenchel–Young networks", 2024. A
sparse Ω with a margin retrieves a stored pattern exactly, in one step, from every query that prefers it by that margin.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.masking import average, values_or_keys, visible_keys, zero_idle, zero_unread
from omegamax.attention.normalizers import check_normalizer
from omegamax.module_repr import shown, unless
from omegamax.operators.hard import Hard
from omegamax.operators.norm_entropy import NormEntropy
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax
from omegamax.structures.sparsemap import SparseMAP
from omegamax.structures.subset import Subset

_SHANNON = Shannon()


class HopfieldOutput(NamedTuple):
    """What was retrieved, and the weights of the last step."""

    output: Tensor  # (..., Q, features)
    weights: Tensor  # (..., Q, K)


class HopfieldMemory(nn.Module):
    """Completes queries (..., Q, size) to stored patterns (..., K, size), in one or more steps.

    It has no parameters: patterns are given with each call, so that they may be learned, computed or data.

    Arguments:
        normalizer: Ω on the patterns of each query: a regularizer such as `Shannon()` or `Tsallis(1.5)`, or
            `SparseMAP(Subset(k))`, which retrieves the sum of k patterns
        gamma: the temperature γ, the inverse of Ramsauer's β
        n_steps: how many updates a call makes

    >>> memory = HopfieldMemory(normalizer=SquaredNorm(), gamma=0.1)
    >>> patterns = torch.tensor([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
    >>> memory(torch.tensor([[0.6, 0.9, -0.5]]), patterns).output
    tensor([[ 1.,  1., -1.]])
    """

    def __init__(self, *, normalizer: SmoothMax = _SHANNON, gamma: float | Tensor = 1.0, n_steps: int = 1) -> None:
        super().__init__()
        check_normalizer("HopfieldMemory", normalizer)
        if not isinstance(normalizer, SmoothMax) or normalizer.event_ndim != 1:
            raise ValueError(
                "HopfieldMemory: normalizer must be a SmoothMax on the patterns of one query, because the energy is "
                f"that of one query, got {type(normalizer).__name__}; use a regularizer or SparseMAP(Subset(k))"
            )
        checks.check_gamma("HopfieldMemory", gamma)
        checks.check_count("HopfieldMemory", "n_steps", n_steps)
        self.normalizer, self.gamma, self.n_steps = normalizer, gamma, n_steps

    def extra_repr(self) -> str:
        return shown(normalizer=self.normalizer, gamma=unless(self.gamma, 1), n_steps=unless(self.n_steps, 1))

    def forward(
        self,
        query: Tensor,
        patterns: Tensor,
        values: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> HopfieldOutput:
        """Updates the queries `n_steps` times; the last step reads the values, if they are given, with its weights.

        Arguments:
            query: (..., Q, size), where the retrieval begins
            patterns: (..., K, size), what is stored
            values: (..., K, features), read in place of the patterns at the end
            mask: boolean, broadcasts to (..., Q, K); True means "may be retrieved"
            lengths: how many patterns each item has
        """
        read = values_or_keys("HopfieldMemory", patterns, values)
        allowed = self._allowed(query, patterns, mask, lengths)
        for step in range(self.n_steps):
            weights = self._smooth.argmax(self._scores(query, patterns, allowed), mask=allowed)
            query = average(weights, patterns if step + 1 < self.n_steps else read, allowed)
        return HopfieldOutput(query, weights)

    def energy(
        self, query: Tensor, patterns: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Computes the energy (..., Q) of queries, which no update raises; +inf where nothing is stored.

        Its gradient in the query is the query minus its update. For Ω on the simplex the energy is at least 0. For a
        structure the constants are left out.

        Arguments:
            query: (..., Q, size)
            patterns: (..., K, size)
            mask: boolean, broadcasts to (..., Q, K); True means "may be retrieved"
            lengths: how many patterns each item has
        """
        allowed = self._allowed(query, patterns, mask, lengths)
        scores = self._scores(query, patterns, allowed)
        least = query.square().sum(-1) / 2 - self._smooth.max(scores, mask=allowed)
        if not self.normalizer.sums_to_one:
            return least
        there = torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed.expand_as(scores)
        count = there.sum(-1, keepdim=True)
        omega = self._smooth.omega(there.to(scores.dtype) / count.clamp(min=1))
        norms = zero_unread(patterns, allowed, query.shape[-2]).square().sum(-1).unsqueeze(-2)
        largest = torch.where(there, norms, 0).amax(-1) if scores.shape[-1] else torch.zeros_like(least)
        return least - omega + largest / 2

    def margin(self) -> float:
        """Returns by how much a query must prefer a pattern for its exact retrieval, in scores <q, x>.

        It is γ / (α − 1) for `Tsallis(alpha)`, γ for the other regularizers with a margin and for
        `SparseMAP(Subset(k))`, 0 for `Hard()`, and inf under Shannon, whose weights are never 0. Raises for other Ω.
        """
        if isinstance(self.gamma, Tensor):
            raise ValueError("HopfieldMemory.margin: gamma must be a number, got a Tensor; set gamma to its value")
        return self.gamma * _margin(self.normalizer)

    def retrieves_exactly(
        self, query: Tensor, patterns: Tensor, *, mask: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Says for which queries, (..., Q), one update gives a stored pattern (or k of them) exactly.

        That is so if the best score <q, x> exceeds all others by `margin`; with `Subset(k)` the k-th best counts.

        Arguments:
            query: (..., Q, size)
            patterns: (..., K, size)
            mask: boolean, broadcasts to (..., Q, K); True means "may be retrieved"
            lengths: how many patterns each item has
        """
        allowed = self._allowed(query, patterns, mask, lengths)
        scores = self._scores(query, patterns, allowed)
        scores = scores if allowed is None else torch.where(allowed, scores, -torch.inf)
        inner = self.normalizer
        k = inner.structure.k if isinstance(inner, SparseMAP) and isinstance(inner.structure, Subset) else 1
        best = scores.topk(min(k + 1, scores.shape[-1]), -1).values
        if best.shape[-1] < k:
            return torch.zeros_like(scores[..., 0], dtype=torch.bool)
        if best.shape[-1] == k:
            return best[..., -1] > -torch.inf
        return (best[..., k - 1] - best[..., k] >= self.margin()) & (best[..., k - 1] > -torch.inf)

    @property
    def _smooth(self) -> SmoothMax:
        plain = isinstance(self.gamma, (int, float)) and self.gamma == 1
        return self.normalizer if plain else Scaled(self.normalizer, self.gamma)

    @staticmethod
    def _allowed(query: Tensor, patterns: Tensor, mask: Any, lengths: Any) -> Tensor | None:
        seen = visible_keys("HopfieldMemory", query, patterns, mask=mask, lengths=lengths)
        return seen.mask(query.shape[-2], patterns.shape[-2], device=query.device)

    @staticmethod
    def _scores(query: Tensor, patterns: Tensor, allowed: Tensor | None) -> Tensor:
        query = zero_idle(query, allowed, patterns.shape[-2])
        return query @ zero_unread(patterns, allowed, query.shape[-2]).mT


def _margin(smooth: SmoothMax) -> float:
    if isinstance(smooth, Scaled) and not isinstance(smooth.gamma, Tensor):
        return smooth.gamma * _margin(smooth.inner)
    if isinstance(smooth, Tsallis) and not isinstance(smooth.alpha, Tensor):
        return 1 / (smooth.alpha - 1) if smooth.alpha > 1 else math.inf
    if isinstance(smooth, Shannon):
        return math.inf
    if isinstance(smooth, Hard):
        return 0.0
    if isinstance(smooth, (SquaredNorm, SquaredPNorm, NormEntropy)):
        return 1.0
    if isinstance(smooth, SparseMAP) and isinstance(smooth.structure, Subset):
        return 1.0
    raise ValueError(
        f"HopfieldMemory.margin: normalizer must be one whose margin is known, got {type(smooth).__name__}; use "
        "SquaredNorm(), Tsallis(alpha) or SparseMAP(Subset(k))"
    )
