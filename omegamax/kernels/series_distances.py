"""Distances between all series of two lists: smoothed dynamic time warping of points under squared distances.

The native form runs one pair per vector lane: a series of the first list against as many of the second as there are
lanes. No pair is copied, and nothing as large as a grid is stored.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.hardmax import hardmax
from omegamax.kernels.kernel import kernel
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch

_LOCAL = (hardmax, softmax, sparsemax)  # by the number of Ω


class BandKind(enum.IntEnum):
    """Which cells a path may visit; the numbers are those of the native kernels."""

    NONE = 0
    SAKOE_CHIBA = 1
    ITAKURA = 2


class PlainBand(NamedTuple):
    """A band as two numbers: its kind, and its width in steps or its slope."""

    kind: BandKind = BandKind.NONE
    reach: float = 0.0


@kernel
def series_distances(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    gamma: float,
    omega: Omega,
    band: PlainBand,
    triangle: bool,
) -> Tensor:
    """Computes −γ DP_Ω(−|x_i − y_j|² / γ), (n, p), of all pairs of x (n, M, D) and y (p, N, D).

    `x_lengths` (n,) and `y_lengths` (p,) are integers from 1 up; what is beyond them is not read. `omega` is Hard,
    Shannon or SquaredNorm. `band` is placed in the grid of each pair, as `omegamax.structures.bands` does. With
    `triangle` the pairs j < i are left out: zero. A series with a number that is not finite has distances NaN.
    """
    (n, m, _), (p, columns, _) = x.shape, y.shape
    out = x.new_zeros(n, p)
    i, j = torch.triu_indices(n, p) if triangle else torch.cartesian_prod(torch.arange(n), torch.arange(p)).T
    per_block = max(1, (1 << 22) // max(1, m * columns))
    for begin in range(0, i.numel(), per_block):
        rows, others = i[begin : begin + per_block], j[begin : begin + per_block]
        lengths = torch.stack([x_lengths[rows], y_lengths[others]])
        out[rows, others] = _of_pairs(x[rows].double(), y[others].double(), lengths, gamma, omega, band).to(x.dtype)
    return out


@series_distances.twin
def _(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    gamma: float,
    omega: Omega,
    band: PlainBand,
    triangle: bool,
) -> Tensor:
    if bool((y_lengths != y_lengths[:1]).any()):
        return _by_length(x, y, x_lengths, y_lengths, gamma, omega, band, triangle)
    return _native(x, y, x_lengths, y_lengths, gamma, omega, band, triangle)


def _by_length(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    gamma: float,
    omega: Omega,
    band: PlainBand,
    triangle: bool,
) -> Tensor:
    """Sorts the series by their lengths, so that those which are swept together have the same one where possible."""
    order = y_lengths.argsort(stable=True)
    back = order.argsort()
    y, y_lengths = y[order], y_lengths[order]
    if not triangle:
        return _native(x, y, x_lengths, y_lengths, gamma, omega, band, False)[:, back]
    found = _native(x[order], y, x_lengths[order], y_lengths, gamma, omega, band, True)
    return (found + found.triu(1).mT)[back][:, back].triu()


def _native(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    gamma: float,
    omega: Omega,
    band: PlainBand,
    triangle: bool,
) -> Tensor:
    (n, m, d), (p, columns, _) = x.shape, y.shape
    found = x.new_empty(n, p)
    if found.numel():
        arguments = native_pairs(x, y, x_lengths, y_lengths, band)
        launch(
            "series_distances", *arguments, -1 / gamma, omega, int(triangle), found,
            itemsize=x.itemsize, n_items=n, cost=p * m * columns * d,
        )  # fmt: skip
    return found


def native_pairs(x: Tensor, y: Tensor, x_lengths: Tensor, y_lengths: Tensor, band: PlainBand) -> list[Any]:
    """Returns two lists of series and a band as native entries take them."""
    (_, m, d), (p, columns, _) = x.shape, y.shape
    tensors = [each.contiguous() for each in (x, y, x_lengths, y_lengths)]
    return [*tensors, p, m, columns, d, int(band.kind), float(band.reach)]


def _of_pairs(x: Tensor, y: Tensor, lengths: Tensor, gamma: float, omega: Omega, band: PlainBand) -> Tensor:
    """Computes one distance for each pair of x (pairs, M, D) and y (pairs, N, D); lengths (2, pairs)."""
    known = [torch.arange(each.shape[1]) < length.unsqueeze(1) for each, length in zip((x, y), lengths)]
    wrong = [(k.unsqueeze(-1) & ~each.isfinite()).any(-1).any(-1) for k, each in zip(known, (x, y))]
    x, y = (torch.where(k.unsqueeze(-1), each, 0).nan_to_num(0, 0, 0) for k, each in zip(known, (x, y)))
    costs = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(-1)
    costs = torch.where(inside_band(band, *costs.shape[1:], *lengths), costs, torch.inf)
    found = accumulated(costs, gamma, omega)[torch.arange(len(x)), lengths[0] - 1, lengths[1] - 1]
    return torch.where(wrong[0] | wrong[1], torch.nan, found)


def accumulated(costs: Tensor, gamma: float, omega: Omega) -> Tensor:
    """Computes −γ DP_Ω of all paths from (0, 0) to each cell, (pairs, M, N), of costs of that shape."""
    pairs, m, n = costs.shape
    values = costs.new_full((pairs, m + 1, n + 1), -torch.inf)
    values[:, 0, 0] = 0
    scores = costs * (-1 / gamma)
    for t in range(m + n - 1):
        i = torch.arange(max(0, t - n + 1), min(m, t + 1))
        j = t - i
        tails = torch.stack([values[:, i, j], values[:, i, j + 1], values[:, i + 1, j]], -1)
        values[:, i + 1, j + 1] = scores[:, i, j] + _LOCAL[omega].reference(tails)[1]
    return values[:, 1:, 1:] * -gamma + 0.0


def inside_band(band: PlainBand, n_rows: int, n_columns: int, m: Tensor, n: Tensor) -> Tensor:
    """Says which cells of a grid are in the band, (pairs, n_rows, n_columns), for sizes m and n (pairs,)."""
    m, n = (size.reshape(-1, 1, 1) for size in (m, n))
    i, j = torch.arange(n_rows).reshape(1, -1, 1), torch.arange(n_columns)
    inside = (i < m) & (j < n)
    if band.kind == BandKind.NONE:
        return inside
    apart, longest = 2 * (i * (n - 1) - j * (m - 1)).abs(), torch.maximum(m - 1, n - 1)
    width = int(band.reach) if band.kind == BandKind.SAKOE_CHIBA else 0
    near = apart <= max(2 * width, 1) * longest
    near = near | (m == 1) | (n == 1)
    if band.kind == BandKind.ITAKURA:
        x, y = i.double() / (m - 1).clamp(min=1), j.double()
        low = torch.maximum(x / band.reach, 1 - band.reach * (1 - x)) * (n - 1)
        high = torch.minimum(band.reach * x, 1 - (1 - x) / band.reach) * (n - 1)
        near = near | ((y >= low - 1e-9 * n) & (y <= high + 1e-9 * n))
    return inside & near
