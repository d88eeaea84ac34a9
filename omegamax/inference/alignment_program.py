"""Dynamic time warping with unit steps, natively: the grid in strips of rows, an anti-diagonal of cells at a time.

    value      keeps every 32nd row (16th in float64); nothing else as large as the grid
    marginals  computes each strip again from the row above it: E is the one array as large as the scores
    tangent    the same with derivatives beside the values

The scale is applied as the scores are read: f(x) = DP(scale · x) / scale, so ∇f = E(scale · x) and ∇²f · v = the
derivative of E along scale · v. Equal to `LatticeProgram` on the lattice of `Alignment` or `BandedAlignment`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.inference.widened_program import largest_score, rounded, wide
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm

KINDS: dict[type[Regularizer], int] = {Hard: 0, Shannon: 1, SquaredNorm: 2}
_CACHE_BYTES = 1 << 22  # of one item's local weights
_LARGE = 2.0**20  # float32 values of this size are a tenth apart
_FEW = 1 << 14  # cells of all items that are looked at before a sweep; of more, only the value is looked at after it
_STRIP_BYTES = 128  # of a column of a strip, as in csrc/alignment_strip.hpp


@dataclass(frozen=True, eq=False)
class AlignmentProgram(Program):
    """Scores (batch, M, N), or (batch, M, W) of a band; `first` and `last` are its columns, (batch or 1, M) int32."""

    kind: int
    lengths: Tensor  # (batch, 2) int64, contiguous
    n_columns: int  # of the grid
    first: Tensor | None = None
    last: Tensor | None = None
    packed: bool = False  # scores[i, w] is cell (i, first_i + w)
    scale: float = 1.0

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """One sweep; the state is the value and a few rows of values."""
        if self._is_large(parts):
            return self.value(wide(parts))
        scores = _readable(parts[0])
        value, kept = _room(scores)
        routing.native.alignment_value(*self._grid(scores, kept), routing.address(value), *_launch(scores))
        if self._has_grown(scores, value):
            return self.value(wide(parts))
        return value, (value.clone(), kept)  # an output may not be part of the state

    def value_ahead(self, parts: Parts) -> tuple[Tensor, State]:
        """The marginals too, where the weights of a whole grid fit in a cache; then they are the end of the state."""
        scores = _readable(parts[0])
        if 3 * scores[0:1].numel() * scores.element_size() > _CACHE_BYTES or self.packed:
            return self.value(parts)
        if self._is_large(parts):
            return self.value_ahead(wide(parts))
        (value, kept), found = _room(scores), torch.empty(scores.shape, dtype=scores.dtype)
        grid = self._grid(scores, kept)
        routing.native.alignment_both(*grid, routing.address(value), routing.address(found), *_launch(scores))
        if self._has_grown(scores, value):
            return self.value_ahead(wide(parts))
        return value, (value.clone(), kept, found)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """A sweep up and one down, strip by strip from the last."""
        if len(state) == 3 and state[2].dtype == parts[0].dtype:
            return Swept((state[2],), (), ())
        if state[1].dtype != parts[0].dtype:
            return Swept(rounded(self.marginals(wide(parts), state).parts, parts), (), ())
        scores, (value, kept) = _readable(parts[0]), state
        found = torch.empty(scores.shape, dtype=scores.dtype)
        routing.native.alignment_marginals(
            *self._grid(scores, kept), routing.address(value), routing.address(found), *_launch(scores)
        )
        return Swept((found,), (), ())

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """Two sweeps up and one down."""
        if state[1].dtype != parts[0].dtype:
            return Swept(rounded(self.tangent(wide(parts), state, wide(direction)).parts, parts), (), ())
        scores, (value, kept, *_), along = _readable(parts[0]), state, direction[0].contiguous()
        found = torch.empty(scores.shape, dtype=scores.dtype)
        routing.native.alignment_tangent(
            *self._grid(scores, kept),
            routing.address(value),
            routing.address(along),
            routing.address(found),
            *_launch(scores),
        )
        return Swept((found,), (), ())

    def scaled(self, scale: float) -> AlignmentProgram:
        """Scales as it reads."""
        return replace(self, scale=self.scale * scale)

    def _is_large(self, parts: Parts) -> bool:
        """Whether float32 scores may add up to what float32 has no digits for; looked at where that is quick."""
        if parts[0].dtype is torch.float64 or parts[0].numel() > _FEW:
            return False
        n_cells = parts[0].shape[1] + self.n_columns
        return n_cells * abs(self.scale) * largest_score(parts) > _LARGE

    def _has_grown(self, scores: Tensor, value: Tensor) -> bool:
        """Whether they did. A state in float64 tells the sweeps that follow."""
        if scores.dtype is torch.float64 or value.numel() == 0:
            return False
        return bool(((value.abs() * abs(self.scale) > _LARGE) & value.isfinite()).any())

    def _grid(self, scores: Tensor, kept: Tensor) -> tuple[int | float, ...]:
        """The arguments that the three kernels share."""
        band_stride = 0 if self.first is None or self.first.shape[0] == 1 else self.first.shape[1]
        return (
            scores.element_size(),
            routing.address(scores),
            scores.stride(0),
            scores.stride(1),
            self.scale,
            routing.address(self.lengths),
            0 if self.first is None else routing.address(self.first),
            0 if self.last is None else routing.address(self.last),
            band_stride,
            int(self.packed),
            self.kind,
            scores.shape[1],
            scores.shape[2],
            self.n_columns,
            routing.address(kept),
        )


def _readable(scores: Tensor) -> Tensor:
    """Rows must be contiguous; items and rows may have any stride."""
    return scores if scores.stride(-1) == 1 or scores.shape[-1] == 1 else scores.contiguous()


def _room(scores: Tensor) -> tuple[Tensor, Tensor]:
    """For the values, and for the last row of every strip but the last, whose cells have up to two parts."""
    n_items, n_rows, width = scores.shape
    n_kept = (n_rows - 1) // (_STRIP_BYTES // scores.element_size())
    return scores.new_empty(n_items, dtype=torch.float64), scores.new_empty(n_items, n_kept, 2, width)


def _launch(scores: Tensor) -> tuple[int, int, int]:
    return scores.shape[0], scores.shape[1] * scores.shape[2], torch.get_num_threads()
