"""One-dimensional total variation denoising, its segments, and the mean over segments."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import routing
from omegamax.kernels.kernel import kernel, launch
from omegamax.kernels.per_row import as_tensor, native_parameter
from omegamax.kernels.precision import widen
from omegamax.kernels.tv1d_messages import cuts


@kernel
def prox_tv1d(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """Denoises each row by total variation.

        argmin_y  1/2 ||y - x||^2 + strength * sum_i |y_{i+1} - y_i|

    Returns the solution and `joined`, both shaped as rows: joined[i] says that i lies in the same segment as i - 1, as
    the solver found it (at strength 0 nothing is joined, not even equal neighbours). Values are equal to the bit within
    a segment. A row with a non-finite entry or an invalid strength gives NaN.
    """
    if rows.shape[-1] == 0:
        return rows.clone(), rows.bool()
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    finite = (wide.isfinite().all(-1, keepdim=True) & (strength >= 0) & strength.isfinite()).expand_as(rows[..., :1])
    # Sums of the largest numbers would overflow; a power of two changes no digit of a large number.
    large = wide.abs().amax(-1, keepdim=True) > 2.0**-64 * torch.finfo(wide.dtype).max
    unit = torch.where(large, 2.0**-64, 1.0).to(wide.dtype)
    x = torch.where(finite, unit * wide, 0)
    # A strength that makes the row constant need not be larger, and its products would overflow too.
    enough = 1 + rows.shape[-1] * (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True))
    solution, joined = denoise(x, torch.where(finite, (unit * strength).minimum(enough), 0))
    return torch.where(finite, solution / unit, torch.nan).to(rows.dtype), joined & finite


@prox_tv1d.twin
def _(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.contiguous()
    solution, joined = torch.empty_like(rows), torch.empty_like(rows, dtype=torch.bool)
    launch("prox_tv1d", rows, rows, *native_parameter(strength, rows), solution, joined)
    return solution, joined


def denoise(rows: Tensor, strength: Tensor) -> tuple[Tensor, Tensor]:
    """Denoises finite rows (..., n) by total variation, with a strength (..., 1) for each row. See `split`."""
    n = rows.shape[-1]
    if n <= 1 or rows.numel() == 0:
        return rows.clone(), torch.zeros_like(rows, dtype=torch.bool)
    x, bound = rows.reshape(-1, n).mT.contiguous(), strength.expand(*rows.shape[:-1], 1).reshape(-1)
    joined = torch.ones_like(x, dtype=torch.bool) & (bound > 0)
    joined[0] = False
    segments = split(x, bound, joined, torch.zeros_like(x))
    solution = segments.mean + bound * segments.pull
    return solution.mT.reshape(rows.shape), segments.joined.mT.reshape(rows.shape)


class Segments(NamedTuple):
    """The solution on each segment is mean + strength * pull; all (n, rows), equal to the bit within a segment."""

    mean: Tensor  # of x
    pull: Tensor  # the steps to the two neighbouring segments, up +1 and down -1 each, over the length
    joined: Tensor  # whether an entry is in the segment of the one before


def split(x: Tensor, strength: Tensor, joined: Tensor, pull: Tensor) -> Segments:
    """Cuts blocks of columns of x (n, rows) until total variation denoising is constant on each, all rows at once.

    `joined` gives the blocks to begin with, `pull` how their ends are drawn by what lies outside, in units of
    `strength`. The best constant t of a block is its mean, including these pulls. If the block is not constant in the
    solution, then some entries are above t and some are not; `above` says which: the block is cut where
    this changes, and the new ends draw each other. (Divide and conquer over levels; Chambolle & Darbon, 2009.)
    On a device all cuts are found at once, in a number of steps that does not depend on the data.
    """
    if not routing.on_host(x):
        return _split_at_once(x, strength, joined, pull)
    todo: Tensor | None = None  # the rows that may still be cut; None means all
    mean, drawn = torch.empty_like(x), torch.empty_like(x)
    final, joined, pull = torch.empty_like(joined), joined.clone(), pull.clone()
    rest, bound = x, strength
    while True:
        block = joined.logical_not().cumsum(0).sub_(1)
        mean_, drawn_ = _block_means(block, rest, pull)
        tied = torch.cat([joined[1:] & (rest[1:] == rest[:-1]), torch.zeros_like(joined[:1])])
        is_above = above((rest - mean_) + bound * (pull - drawn_), torch.where(joined[1:], bound, 0), tied)
        cut = joined[1:] & (is_above[1:] != is_above[:-1])
        going = cut.any(0).nonzero().squeeze(-1)
        if todo is None:
            mean, drawn, final = mean_, drawn_, joined
        else:
            mean[:, todo], drawn[:, todo], final[:, todo] = mean_, drawn_, joined
        if not len(going):
            return Segments(mean, drawn, final)
        if len(going) < 0.8 * rest.shape[1]:  # the others are done
            todo = going if todo is None else todo[going]
            rest, bound, cut, is_above, joined, pull = (
                t[..., going] for t in (rest, bound, cut, is_above, joined, pull)
            )
        step = torch.where(cut, torch.where(is_above[1:], 1.0, -1.0).to(x.dtype), 0)  # of the second over the first
        joined = torch.cat([joined[:1], joined[1:] & ~cut])
        pull = pull + torch.cat([step, torch.zeros_like(step[:1])]) - torch.cat([torch.zeros_like(step[:1]), step])


def _split_at_once(x: Tensor, strength: Tensor, joined: Tensor, pull: Tensor) -> Segments:
    step = cuts(x + strength * pull, torch.where(joined[1:], strength, 0))
    step = torch.where(x[1:] == x[:-1], 0, step) if len(x) > 1 else step  # denoising leaves equal neighbours equal
    edge = torch.zeros_like(x[:1])
    joined = joined & torch.cat([joined[:1], step == 0])
    pull = pull + torch.cat([step, edge]) - torch.cat([edge, step])
    mean, drawn = _block_means(joined.logical_not().cumsum(0).sub_(1), x, pull)
    return Segments(mean, drawn, joined)


def _block_means(block: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
    zeros = torch.zeros_like(columns[0])
    size = zeros.scatter_add(0, block, torch.ones_like(zeros)).clamp_(min=1)
    return tuple((zeros.scatter_add(0, block, c) / size).gather(0, block) for c in columns)


def above(x: Tensor, strength: Tensor, tied: Tensor | bool = False) -> Tensor:
    """Says which entries of the denoised columns are positive: the best set of positions, all rows at once.

        argmax_z  sum_i z_i x_i - sum_i strength_i |z_{i+1} - z_i|        z in {0, 1}^n

    for x (n, rows) and a strength per edge (n - 1, rows). Forwards, the gain of z_i = 1 over z_i = 0 follows from that
    of i - 1, which counts for no more than the strength between them. Backwards, a gain beyond the strength of the
    edge decides; where it is less, z_i is z_{i+1}. The same holds where `tied` (n, rows) says that scores are equal:
    denoising leaves equal neighbours equal, and a gain at its bound, or beyond by rounding, must not separate them.
    """
    n = len(x)
    gain = torch.empty_like(x)
    gain[0] = x[0]
    gains = gain.unbind(0)
    for before, here, bound, least, score in zip(gains, gains[1:], strength.unbind(0), (-strength).unbind(0), x[1:]):
        torch.add(torch.clamp(before, least, bound), score, out=here)
    bound = torch.cat([strength, torch.zeros_like(x[:1])])
    yes, no = gain >= bound, gain <= -bound
    place = torch.arange(n, device=x.device).unsqueeze(1)
    deciding = (
        torch.where((yes | no) & ~torch.as_tensor(tied, device=x.device), place, n - 1).flip(0).cummin(0).values.flip(0)
    )
    return yes.gather(0, deciding)


@kernel
def segment_mean(joined: Tensor, direction: Tensor) -> Tensor:
    """Replaces each entry by the mean over its segment; joined[i] says that i is in the segment of i - 1.

    This is the Jacobian of total variation denoising and of isotonic regression, times the direction.
    """
    label = (~joined).cumsum(-1) - (~joined[..., :1]).to(torch.int64)  # 0, 1, ... along the row
    label = label.expand_as(direction)
    zeros = torch.zeros_like(direction)
    total = zeros.scatter_add(-1, label, direction)
    size = zeros.scatter_add(-1, label, torch.ones_like(direction))
    return (total / size.clamp(min=1)).gather(-1, label)


@segment_mean.twin
def _(joined: Tensor, direction: Tensor) -> Tensor:
    joined, direction = joined.expand_as(direction).contiguous(), direction.contiguous()
    mean = torch.empty_like(direction)
    launch("segment_mean", direction, joined, direction, mean)
    return mean
