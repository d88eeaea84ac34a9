"""The nearest series of each query under dynamic time warping: lower bounds, then as few recursions as they leave.

    LB_Kim     |x_1 − y_1|² + |x_m − y_n|²: every path meets both ends
    LB_Keogh   Σ_j (distance of y_j to the numbers of x that its column can meet)²: every path meets every column

Kim, Park & Chu, ICDE 2001; Keogh & Ratanamahatana, Knowledge and Information Systems 2005;
Rakthanmanon et al., KDD 2012.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.kernel import kernel
from omegamax.kernels.series_distances import PlainBand, inside_band, native_pairs, series_distances
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.structure_kernel import launch


class SearchResult(NamedTuple):
    """What a search found for each query."""

    nearest: Tensor  # (queries, k), nearest first; infinite where there are fewer
    numbers: Tensor  # (queries, k); −1 where there are fewer
    distances: Tensor | None  # (queries, others); infinite where a pair was ruled out
    counts: Tensor  # (queries, 4): pairs ruled out by LB_Kim, by LB_Keogh, abandoned, computed


@kernel
def series_bounds(x: Tensor, y: Tensor, x_lengths: Tensor, y_lengths: Tensor, band: PlainBand) -> tuple[Tensor, Tensor]:
    """Computes LB_Kim and LB_Keogh, (n, p) each, of all pairs of x (n, M, D) and y (p, N, D).

    Where the series of y have several lengths the envelope of LB_Keogh is that of the whole series of x. Both are
    bounds but for rounding.
    """
    (n, m, _), p = x.shape, y.shape[0]
    last_x = x[torch.arange(n), x_lengths - 1]
    last_y = y[torch.arange(p), y_lengths - 1]
    ends = (last_x.unsqueeze(1) - last_y).square().sum(-1)
    one_cell = (x_lengths.unsqueeze(1) == 1) & (y_lengths == 1)
    kim = (x[:, :1] - y[:, 0]).square().sum(-1) + torch.where(one_cell, 0, ends)
    if bool((y_lengths != y_lengths[:1]).any()):
        band = PlainBand()
    columns = y_lengths[:1].expand(n)
    inside = inside_band(band, m, int(y_lengths.max()), x_lengths, columns if band.kind else y_lengths.max().expand(n))
    inside = inside.unsqueeze(-1)  # (n, M, N, 1)
    low = torch.where(inside, x.unsqueeze(2), torch.inf).amin(1)
    high = torch.where(inside, x.unsqueeze(2), -torch.inf).amax(1)
    known = (torch.arange(low.shape[1]) < y_lengths.unsqueeze(1)).unsqueeze(-1)
    others = torch.where(known, y[:, : low.shape[1]], 0)
    keogh = [
        torch.where(known, torch.maximum(a - others, others - b).clamp(min=0).square(), 0).sum((1, 2))
        for a, b in zip(low, high)
    ]
    return kim, torch.stack(keogh)


@series_bounds.twin
def _(x: Tensor, y: Tensor, x_lengths: Tensor, y_lengths: Tensor, band: PlainBand) -> tuple[Tensor, Tensor]:
    kim, keogh = x.new_empty(len(x), len(y)), x.new_empty(len(x), len(y))
    arguments = native_pairs(x, y, x_lengths, y_lengths, band)
    cost = len(y) * y.shape[1] * y.shape[2]
    launch("series_bounds", *arguments, kim, keogh, itemsize=x.itemsize, n_items=len(x), cost=cost)
    return kim, keogh


@kernel
def series_search(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    band: PlainBand,
    order: Tensor,
    kim: Tensor,
    bound: Tensor,
    n_neighbors: int,
    radius: float,
    keep_distances: bool,
) -> SearchResult:
    """Finds the `n_neighbors` series of y (p, N, D) nearest to each x (n, M, D) within `radius`, and all distances.

    `kim` and `bound` (n, p) are lower bounds, kim the smaller one, and `order` (n, p) sorts `bound`. Of equally near
    series the lower number comes first. The distances are those of `series_distances`, to the last bit.
    """
    (n, p), k = bound.shape, n_neighbors
    found = series_distances.reference(x, y, x_lengths, y_lengths, 1.0, Omega.HARD, band, False)
    found = torch.where(found <= radius, found, torch.inf)
    nearest, numbers = found.sort(dim=1, stable=True)
    nearest, numbers = nearest[:, :k], torch.where(nearest < torch.inf, numbers, -1)[:, :k]
    counts = torch.zeros(n, 4, dtype=torch.long)
    counts[:, 3] = p
    return SearchResult(nearest, numbers, found if keep_distances else None, counts)


@series_search.twin
def _(
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor,
    y_lengths: Tensor,
    band: PlainBand,
    order: Tensor,
    kim: Tensor,
    bound: Tensor,
    n_neighbors: int,
    radius: float,
    keep_distances: bool,
) -> SearchResult:
    n, p = bound.shape
    nearest = x.new_empty(n, n_neighbors)
    numbers = torch.empty(n, n_neighbors, dtype=torch.long)
    distances = torch.empty_like(bound) if keep_distances else None
    counts = torch.empty(n, 4, dtype=torch.long)
    arguments = native_pairs(x, y, x_lengths, y_lengths, band)
    launch(
        "series_search", *arguments, order.contiguous(), kim.contiguous(), bound.contiguous(),
        n_neighbors, float(radius), nearest, numbers, distances, counts,
        itemsize=x.itemsize, n_items=n, cost=p * x.shape[1] * x.shape[2],
    )  # fmt: skip
    return SearchResult(nearest, numbers, distances, counts)
