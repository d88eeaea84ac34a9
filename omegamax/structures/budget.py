"""Between lo and hi of n entries: the vertices of {μ in [0, 1]^n, lo ≤ Σ μ ≤ hi}."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.structures.selection import Selection


@dataclass(frozen=True)
class Budget(Selection):
    """The subsets of at least lo and at most hi of N entries, potentials (..., N); an entry not taken scores 0.

        max_Ω over subsets y with lo ≤ |y| ≤ hi of  Σ_{i in y} θ_i

    There are Σ_c C(n, c) of them, c from lo to min(hi, n); an item with fewer than lo entries has none: its value is
    −inf and its marginals are zero. `Budget(0, 1)` is at most one, `Budget(1, n)` is a logical or.

    Arguments:
        lo: the least number of entries
        hi: the largest number of entries

    >>> Budget(0, 2).map(torch.tensor([0.3, -1.0, 2.0, 0.7]))
    tensor([0., 0., 1., 1.])
    """

    lo: int
    hi: int

    def __post_init__(self) -> None:
        for name, number in (("lo", self.lo), ("hi", self.hi)):
            if not isinstance(number, int) or isinstance(number, bool):
                raise TypeError(f"Budget: {name} must be an int, got {type(number).__name__}; count entries")
        if not 0 <= self.lo <= self.hi or self.hi == 0:
            raise ValueError(
                f"Budget: bounds must satisfy 0 ≤ lo ≤ hi and 1 ≤ hi, got lo={self.lo}, hi={self.hi}; "
                "give the least and the most entries"
            )

    @property
    def has_empty(self) -> bool:  # type: ignore[override]
        """Whether taking nothing is allowed."""
        return self.lo == 0

    @property
    def bounds(self) -> tuple[int, int]:
        return self.lo, self.hi
