"""The squared norm with the OSCAR penalty: oscarmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels.oscarmax import oscarmax, oscarmax_alone, oscarmax_product
from omegamax.operators.regularizer import Regularizer, Slope, Solution, Weighed, total


@dataclass(frozen=True, eq=False)
class Oscar(Regularizer):
    """Ω(p) = ½(‖p‖² − 1) + strength · Σ_{i<j} max(p_i, p_j). Its argmax, oscarmax, gives equal weight to clusters.

    Exact for this problem on the simplex, for scores of any sign: sort, subtract strength·(d − rank), pool adjacent
    violators, project. The composition in the paper (Niculae & Blondel, NIPS 2017, Proposition 2) ranks by |θ| and
    clips at zero before it projects, which is not optimal in general, e.g. for [0.5, −0.5, 0]. `strength` may be a
    tensor, one per row.
    """

    strength: float | Tensor = 0.01

    learnable: ClassVar[str | None] = "strength"
    constants: ClassVar[torch.dtype | None] = torch.int32

    def __post_init__(self) -> None:
        checks.check_strength("Oscar", self.strength)
        object.__setattr__(self, "strength", checks.plain(self.strength))

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1) + strength · Σ (d − rank) p, rank 1 the largest."""
        columns = weights.shape[-1]
        ordered = weights.sort(dim=-1, descending=True).values
        pairs = torch.arange(columns - 1, -1, -1, dtype=weights.dtype, device=weights.device)
        return (0.5 * (total(weights.square()) - 1) + self.strength * total(pairs * ordered)).squeeze(-1)

    def omega_without(self, weights: Tensor, removed: Tensor) -> Tensor:
        """A removed position is in no pair."""
        pairs = total(removed.to(weights.dtype)) * total(weights)
        return self.omega(weights) - (self.strength * pairs).squeeze(-1)

    def solve(self, scores: Tensor) -> Solution:
        """Isotonic regression of the sorted, tilted scores, then projection onto the simplex."""
        weights, value, labels = oscarmax(scores, self.strength)
        return Solution(weights, value, (weights, labels))

    def answer(self, scores: Tensor) -> Weighed:
        """The same without clusters, which only a derivative needs."""
        return Weighed(*oscarmax_alone(scores, self.strength))

    def bare_weights(self, scores: Tensor) -> Tensor:
        """The weights alone, without clusters."""
        if type(self.strength) is not float:
            return super().bare_weights(scores)
        return oscarmax.weights(scores, self.strength)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Averages the direction over each cluster of the support, then centres it on the support."""
        weights, labels = certificate
        return oscarmax_product(weights, labels, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """(d − rank), d the number of positions that are not masked (label −2)."""
        weights, labels = certificate
        rank = 1 + weights.argsort(dim=-1, descending=True).argsort(dim=-1)
        pairs = (total((labels != -2).to(weights.dtype)) - rank).to(weights.dtype)
        return (Slope(total(pairs * weights), pairs),)

    def solve_for_onnx(self, scores: Tensor) -> Solution:
        """The PyTorch twin, with isotonic regression by its min-max formula."""
        weights, value, labels = oscarmax.reference(scores, self.strength)
        return Solution(weights, value, (weights, labels))
