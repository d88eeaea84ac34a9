"""Exactly k of n entries: the vertices of the k-capped simplex {μ in [0, 1]^n, Σ μ = k}."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax import checks
from omegamax.structures.selection import Selection


@dataclass(frozen=True)
class Subset(Selection):
    """The subsets of exactly k of N entries, potentials (..., N); see `Budget` for between two numbers.

        max_Ω over subsets y with |y| = k of  Σ_{i in y} θ_i

    Under Shannon `argmax` gives the probabilities with which entries are in the random subset of p(y) ∝ exp Σ θ
    (conditional Poisson sampling). There are C(n, k) subsets; an item with fewer than k entries has none: its value is
    −inf and its marginals are zero.

    Arguments:
        k: how many entries are taken

    >>> Subset(2).map(torch.tensor([0.3, -1.0, 2.0]))
    tensor([1., 0., 1.])
    """

    k: int

    def __post_init__(self) -> None:
        checks.check_count("Subset", "k", self.k)

    @property
    def bounds(self) -> tuple[int, int]:
        return self.k, self.k
