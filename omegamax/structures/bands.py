"""Bands: which cells of an alignment grid may be visited, adapted to the size of each item.

A band is an interval of columns in every row. Every band contains the staircase next to the straight line from (0, 0)
to (m − 1, n − 1), whatever the sizes, so there is always a path of unit steps inside.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """The columns first ≤ j ≤ last of every row, each (batch, M); empty (first > last) beyond an item's rows."""

    first: Tensor
    last: Tensor


class Band(abc.ABC):
    """A region around the diagonal of an (m, n) grid."""

    @abc.abstractmethod
    def interval(self, i: Tensor, m: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the first and last column of row i < m, not yet clipped to 0 .. n − 1; integers that broadcast."""

    def rows(self, n_rows: int, m: Tensor, n: Tensor) -> Rows:
        """Returns the band of items of m (batch,) rows and n (batch,) columns, in a grid of `n_rows` rows."""
        m, n = m.unsqueeze(1), n.unsqueeze(1)
        i = torch.arange(n_rows, device=m.device).expand(m.shape[0], -1)
        first, last = self.interval(torch.minimum(i, m - 1), m, n)
        zero = torch.zeros_like(i)
        last = torch.where(i < m, torch.minimum(last, n - 1), zero - 1)
        return Rows(torch.where(i < m, torch.maximum(first, zero), zero), last)


@dataclass(frozen=True)
class SakoeChiba(Band):
    """Cells at most `width` away from the straight line between the corners, measured on the shorter side.

        2 |i (n − 1) − j (m − 1)|  ≤  max(2 width, 1) · max(m − 1, n − 1)

    For m = n that is |i − j| ≤ width. Sakoe & Chiba, IEEE Transactions on Acoustics, Speech and Signal Processing 1978.

    >>> Alignment(band=SakoeChiba(0)).map(torch.zeros(3, 5))
    tensor([[1., 1., 0., 0., 0.],
            [0., 0., 1., 1., 0.],
            [0., 0., 0., 0., 1.]])
    """

    width: int

    def __post_init__(self) -> None:
        if isinstance(self.width, bool) or not isinstance(self.width, int):
            raise TypeError(f"SakoeChiba: width must be an int, got {type(self.width).__name__}; count in steps")
        if self.width < 0:
            raise ValueError(f"SakoeChiba: width must be at least 0, got {self.width}; 0 follows the diagonal")

    def interval(self, i: Tensor, m: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        """Solves the inequality for j, in integers."""
        reach = max(2 * self.width, 1) * torch.maximum(m - 1, n - 1)
        step = 2 * (m - 1)
        safe = step.clamp(min=1)
        first = -torch.div(reach - 2 * i * (n - 1), safe, rounding_mode="floor")
        last = torch.div(reach + 2 * i * (n - 1), safe, rounding_mode="floor")
        return torch.where(step == 0, 0, first), torch.where(step == 0, n - 1, last)


@dataclass(frozen=True)
class Itakura(Band):
    """Cells that a path reaches and leaves with an average slope between 1/`slope` and `slope`.

    The slope is relative to that of the straight line between the corners; the band is the parallelogram with these
    corners, together with the staircase `SakoeChiba(0)`. Itakura, IEEE Transactions on Acoustics, Speech and Signal
    Processing 1975.
    """

    slope: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.slope, (int, float)) or isinstance(self.slope, bool):
            raise TypeError(f"Itakura: slope must be a number, got {type(self.slope).__name__}; use for example 2.0")
        if not 1 <= self.slope < float("inf"):
            raise ValueError(f"Itakura: slope must be finite and at least 1, got {self.slope}; 1 follows the diagonal")

    def interval(self, i: Tensor, m: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        """Computes in coordinates x = i / (m − 1), y = j / (n − 1) of the unit square."""
        x = i.double() / (m - 1).clamp(min=1)
        low = torch.maximum(x / self.slope, 1 - self.slope * (1 - x)) * (n - 1)
        high = torch.minimum(self.slope * x, 1 - (1 - x) / self.slope) * (n - 1)
        slack = 1e-9 * n  # a cell on the border is inside
        first, last = SakoeChiba(0).interval(i, m, n)
        return torch.minimum(first, (low - slack).ceil().long()), torch.maximum(last, (high + slack).floor().long())
