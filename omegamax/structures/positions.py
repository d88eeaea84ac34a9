"""Positions of a sequence that are left out, so that their neighbours become adjacent: later pieces of a word, padding.

Compiled sweeps read the positions that are kept where they lie in memory. Everything else works on parts in which they
have been moved to the front, as if the sequence were shorter, and moves its results back.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from omegamax.inference.reordered_program import reordered
from omegamax.kernels.structures.positions import kept_order


@dataclass(frozen=True, eq=False)
class KeptPositions:
    """Which of N positions are kept, for every item of a batch; all tensors are on the CPU."""

    mask: Tensor  # (batch, N) bool
    order: Tensor  # (batch, N) int32: the positions that are kept, then the others
    lengths: Tensor  # (batch,) int64: how many are kept

    @staticmethod
    def of(who: str, mask: Tensor) -> KeptPositions:
        """Finds the order of positions that a boolean `mask` (batch, N) keeps, and checks that there are some."""
        found = KeptPositions(mask, *kept_order(mask))
        if len(mask) and int(found.lengths.min()) < 1:
            raise ValueError(
                f"{who}: positions must keep at least one position of each item, got none in item "
                f"{int(found.lengths.argmin())}; drop empty items"
            )
        return found

    def in_front(self, part: Tensor, items: Tensor | None = None) -> Tensor:
        """Moves positions that are kept to the front of a part (number, N, ...).

        `items` says which item of the batch each of its rows belongs to; without it there is one row per item.
        """
        return reordered(part, self.order if items is None else self.order[items])

    def put_back(self, part: Tensor, items: Tensor | None = None) -> Tensor:
        """Moves the positions of a part that `in_front` has moved back to where they were; arguments as there."""
        order = self.order if items is None else self.order[items]
        return reordered(part, order.argsort(1))
