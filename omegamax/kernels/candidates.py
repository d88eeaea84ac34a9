"""The few scores of each row that can have weight: solvers on the simplex need no others."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.precision import widen

_WORTH = 2  # half of a row, taken out of it, costs less than the whole


class Places(NamedTuple):
    """Where the candidates of all rows are, one entry for each candidate, in the order of the rows."""

    row: Tensor
    column: Tensor  # in the row
    slot: Tensor  # among the candidates of the row

    def take(self, rows: Tensor, count: int, fill: float) -> Tensor:
        """Returns the candidates of rows (m, n) as (m, count); places behind the last hold `fill`."""
        taken = rows.new_full((len(rows), count), fill)
        taken[self.row, self.slot] = rows[self.row, self.column]
        return taken


class Candidates(NamedTuple):
    """How far the candidates of each row are below its largest score, in double precision."""

    gap: Tensor  # (..., k), 0 for the largest; inf for -inf and behind the last candidate
    places: Places | None  # None means that the candidates are the rows as they are
    top: Tensor  # (..., 1), the largest score, NaN if any score is NaN

    def put(self, numbers: Tensor, into: Tensor) -> Tensor:
        """Puts numbers (..., k) of the candidates at their places in the rows; elsewhere the entries of `into` stay."""
        if self.places is None:
            return numbers
        row, column, slot = self.places
        placed = into.reshape(-1, into.shape[-1]).clone()
        placed[row, column] = numbers.reshape(-1, numbers.shape[-1])[row, slot]
        return placed.reshape(into.shape)


def candidates(rows: Tensor, window: float | Tensor) -> Candidates:
    """Finds the scores of rows (..., n), n > 0, that are less than `window` below the largest.

    Returns all scores if most are, and where a shape cannot depend on the data: see `unrolled`.
    """
    top = rows.amax(-1, keepdim=True)
    if not unrolled(rows) and rows.numel():
        near = within(rows, top, window)
        count = max(1, int(near.sum(-1).max()))
        if count * _WORTH <= rows.shape[-1]:
            places = _places(near)
            taken = places.take(rows.reshape(-1, rows.shape[-1]), count, -torch.inf).reshape(*top.shape[:-1], count)
            return Candidates(_gap(taken, top), places, widen(top))
    return Candidates(_gap(rows, top), None, widen(top))


def narrowed(found: Candidates, window: Tensor) -> Candidates:
    """Returns the candidates whose gap is below a smaller `window`, or all of them as before if most are."""
    if unrolled(found.gap) or not found.gap.numel():
        return found
    near = found.gap < window
    count = max(1, int(near.sum(-1).max()))
    if count * _WORTH > found.gap.shape[-1]:
        return found
    inner = _places(near)
    gap = inner.take(found.gap.reshape(-1, found.gap.shape[-1]), count, torch.inf).reshape(*found.top.shape[:-1], count)
    if found.places is None:
        return Candidates(gap, inner, found.top)
    column = inner.column.new_zeros(found.gap.reshape(-1, found.gap.shape[-1]).shape)
    column[found.places.row, found.places.slot] = found.places.column
    return Candidates(gap, Places(inner.row, column[inner.row, inner.column], inner.slot), found.top)


def within(rows: Tensor, top: Tensor, window: float | Tensor) -> Tensor:
    """Says which scores are less than `window` below the largest; rounding errors drop none of them."""
    least = top - window
    return rows > least - 4 * torch.finfo(rows.dtype).eps * (top.abs() + least.abs())


def _gap(rows: Tensor, top: Tensor) -> Tensor:
    gap = widen(top) - widen(rows)
    return torch.where(top == -torch.inf, torch.inf, gap)  # inf - inf is NaN


def _places(near: Tensor) -> Places:
    flat = near.reshape(-1, near.shape[-1])
    row, column = flat.nonzero(as_tuple=True)
    size = flat.sum(-1)
    return Places(row, column, torch.arange(len(row), device=row.device) - (size.cumsum(0) - size)[row])


def at_their_places(weights: Tensor, found: Candidates, rows: Tensor) -> Tensor:
    """Puts weights (..., k) of the candidates into rows, zero elsewhere; undefined rows become NaN."""
    empty = torch.where(found.top < torch.inf, 0, torch.nan).to(rows.dtype)
    if found.places is None:
        return torch.where(found.top.isfinite(), weights.to(rows.dtype), empty)
    return found.put(weights.to(rows.dtype), empty.expand(rows.shape))


def value_above(above: Tensor, found: Candidates, rows: Tensor) -> Tensor:
    """Returns the value of each row, given how far (..., 1) it is above the largest score."""
    value = torch.where(found.top.isfinite(), found.top + above, found.top)
    return torch.where(found.top == torch.inf, torch.nan, value).squeeze(-1).to(rows.dtype)


def row_sum(rows: Tensor) -> Tensor:
    """Sums each row, (..., 1), one entry after the other: zeros between them do not change its last bit.

    So a row's result does not depend on how many candidates its neighbours have.
    """
    return rows.sum(-1, keepdim=True) if unrolled(rows) or not rows.shape[-1] else rows.cumsum(-1)[..., -1:]


def recorded() -> bool:
    """Says whether a program is being recorded, which can neither read the data nor stop early."""
    return routing.is_compiling() or routing.exporting_to_onnx() or routing.is_tracing()


def unrolled(rows: Tensor) -> bool:
    """Says whether loops take a fixed number of steps: in a recorded program, and where the data are on a device.

    There a program that reads a number waits until the device has done all its work.
    """
    return recorded() or not routing.on_host(rows)


def may_stop(settled: Tensor) -> bool:
    """Says whether an iteration can end because all rows are settled. Until then the settled ones must not change."""
    return not unrolled(settled) and bool(settled.all())
