"""Fusedmax: attention whose weights are equal on contiguous segments."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.candidates import unrolled
from omegamax.kernels.gpu import Twin
from omegamax.kernels.kernel import kernel, launch, solver
from omegamax.kernels.per_row import as_tensor
from omegamax.kernels.precision import widen
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.tv1d import above, split


@solver(constants=torch.bool)
def fusedmax(rows: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes sparse weights that are equal on contiguous segments.

        argmax_{p >= 0, sum p = 1}  <p, x> - 1/2 (||p||^2 - 1) - strength * sum_i |p_{i+1} - p_i|

    It is the projection onto the simplex of the row denoised by total variation (Niculae & Blondel, 2017). Entries of
    -inf are removed: their neighbours become adjacent. Returns the weights, the value of the maximum (one per row), and
    `joined`, shaped as rows: joined[i] says that i is supported and in the segment of the supported entry before it.
    """
    if rows.shape[-1] == 0:
        return torch.empty_like(rows), rows.new_full(rows.shape[:-1], -torch.inf), rows.bool()
    wide = widen(rows)
    strength = as_tensor(strength, wide)
    top = wide.amax(-1, keepdim=True)
    valid_strength = (strength >= 0) & strength.isfinite()
    valid = top.isfinite() & valid_strength
    kept = (wide > -torch.inf) & valid
    shifted = torch.where(kept, wide - top, -torch.inf)
    spread = torch.where(kept, -shifted, 0).amax(-1, keepdim=True)
    bound = torch.where(valid_strength, strength, 0).minimum(1 + rows.shape[-1] * spread).clamp(max=_MAX_STRENGTH)
    candidate = shifted > -1 - 4 * bound

    if unrolled(rows):
        count = rows.shape[-1]
    else:
        count = max(1, int(candidate.sum(-1).max())) if rows.numel() else 1  # how many columns are left
    place = (candidate.cumsum(-1) - 1).clamp_(min=0)
    row = _Row.among(shifted, candidate, kept, place, count)
    weights, value, joined = _solve(row, bound.expand_as(top).reshape(-1))
    weights = torch.where(candidate, weights.reshape(*top.shape[:-1], count).gather(-1, place), 0)
    joined = joined.reshape(*top.shape[:-1], count).gather(-1, place) & candidate

    value = torch.where(top == -torch.inf, -torch.inf, top + value.reshape(top.shape))
    bad = ~valid & (top != -torch.inf) | ~valid_strength
    weights = torch.where(bad, torch.nan, weights).to(rows.dtype)
    value = torch.where(bad, torch.nan, value).squeeze(-1).to(rows.dtype)
    return weights, value, (joined & (weights > 0)) | (rows == -torch.inf)


_MAX_STRENGTH = 1e30  # in float32 and float64 its products are finite
_STEPS = 3


class _Row(NamedTuple):
    """The candidates of every row, in columns: the only positions that can have weight. All (count, rows).

    A kept position that is no candidate is below the threshold whatever its neighbours are (they add at most twice the
    strength), so it cuts the row and draws its neighbours down.
    """

    x: Tensor
    real: Tensor  # False behind the last candidate of a row
    joined: Tensor  # whether nothing but removed entries lies between this candidate and the one before
    pull: Tensor  # -1 for each neighbour that is kept and no candidate

    @classmethod
    def among(cls, shifted: Tensor, candidate: Tensor, kept: Tensor, place: Tensor, count: int) -> _Row:
        n = shifted.shape[-1]
        flat = candidate.reshape(-1, n)
        slot = torch.where(flat, place.reshape(-1, n), count)  # the others go to a last column, which is dropped
        low = (kept & ~candidate).reshape(-1, n).cumsum(-1)  # how many kept positions so far are no candidates
        x = shifted.new_zeros(len(flat), count + 1).scatter(-1, slot, torch.where(flat, shifted.reshape(-1, n), 0))
        low_before = low.new_zeros(len(flat), count + 1).scatter(-1, slot, low)[:, :count].mT.contiguous()
        real = torch.arange(count, device=x.device)[:, None] < flat.sum(-1)
        last = torch.where(torch.cat([real[1:], torch.zeros_like(real[:1])]), low_before.roll(-1, 0), low[:, -1])
        first = torch.cat([torch.zeros_like(low_before[:1]), low_before[:-1]])
        gap_before, gap_after = low_before > first, last > low_before
        joined = real & ~gap_before
        joined[0] = False
        pull = -(gap_before.to(x.dtype) + gap_after.to(x.dtype))
        return cls(x[:, :count].mT.contiguous(), real, joined, torch.where(real, pull, 0))


def _solve(row: _Row, strength: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes weights and segments of the candidates, (rows, count), and the value above the largest score."""
    x, real, joined, pull = row
    joined = joined & (strength > 0)
    inside = real
    if not unrolled(x):  # fewer columns are left to cut; on a device all are cut at once
        inside, joined, pull = _surely_inside(row._replace(joined=joined), strength)
    segments = split(torch.where(inside, x, 0), strength, joined, pull)

    # Scores are taken relative to the largest, which most often has the same pull: the large part drops out exactly.
    y = torch.where(inside, segments.mean + strength * segments.pull, -torch.inf)
    best = y.argmax(0, keepdim=True)
    relative = segments.mean - segments.mean.gather(0, best)
    drawn = segments.pull - segments.pull.gather(0, best)
    denoised = torch.where(inside, relative + strength * drawn, -torch.inf)
    weights, value = sparsemax.without_native(denoised.mT.contiguous())
    # x - y is a subgradient at p of the penalty, which is homogeneous, so <x - y, p> is the penalty and the
    # value for the denoised row is already the value sought.
    value = value + y.gather(0, best).squeeze(0)
    return weights, value, segments.joined.mT & (weights > 0)


def _surely_inside(row: _Row, strength: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Finds a set of candidates that contains the support, and the joints and pulls inside it; all (count, rows)."""
    x, real, joined, pull = row
    edges = torch.where(joined[1:], strength, 0)
    tied = torch.cat([joined[1:] & (x[1:] == x[:-1]), torch.zeros_like(joined[:1])])
    # F(t), the sum of what the denoised row has above t, is convex, and known from the set of positions above t. From
    # the left Newton's method reaches F(t) = 1 without passing it, so that set contains the support.
    t = -1 - 2 * strength
    for _ in range(_STEPS):
        inside = above(x - t + strength * pull, edges, tied) & real
        step = joined[1:] & (inside[1:] != inside[:-1])
        ends = torch.where(inside, pull, 0).sum(0) - step.sum(0)
        size = inside.sum(0).clamp(min=1)
        slack = 8 * torch.finfo(x.dtype).eps * (1 + strength)
        t = t.maximum((torch.where(inside, x, 0).sum(0) + strength * ends - 1) / size - slack)
    # Positions outside of that set only draw down the ends of the runs inside it.
    down = torch.where(step, -1.0, 0.0).to(x.dtype)
    edge = torch.zeros_like(x[:1])
    pull = torch.where(inside, pull + torch.cat([edge, down]) + torch.cat([down, edge]), 0)
    return inside, joined & inside & torch.cat([torch.zeros_like(inside[:1]), inside[:-1]]), pull


@kernel
def fusedmax_product(weights: Tensor, joined: Tensor, direction: Tensor) -> Tensor:
    """Multiplies a direction by the Jacobian of fusedmax: its mean over each segment minus that over the support.

    Zero off the support (Niculae & Blondel, 2017, Proposition 2 and the Jacobian of the projection).
    """
    support = weights != 0  # NaN rows stay NaN
    inside = torch.where(support, direction, 0)
    label = (support & ~joined).cumsum(-1).sub(1).clamp(min=0).expand_as(direction)
    zeros = torch.zeros_like(inside)
    total = zeros.scatter_add(-1, label, inside)
    size = zeros.scatter_add(-1, label, support.to(direction.dtype).expand_as(direction))
    mean = (total / size.clamp(min=1)).gather(-1, label)
    centre = inside.sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(support, mean - centre, 0) + 0 * weights


@fusedmax_product.twin
def _(weights: Tensor, joined: Tensor, direction: Tensor) -> Tensor:
    weights, joined, direction = weights.contiguous(), joined.contiguous(), direction.contiguous()
    product = torch.empty_like(direction)
    launch("fusedmax_product", direction, weights, joined, direction, product)
    return product


fusedmax_product.on_gpu = Twin("row_products", "fusedmax_product")
