"""Soft sorting and ranking: projections onto the permutahedron, exact in O(n log n), and twice differentiable.

    P(w) = the convex hull of all permutations of w                       the permutahedron
    soft_rank(x)  = the point of P(1, ..., n) that is closest to x / γ
    soft_sort(x)  = the point of P(x) that is closest to (1, ..., n) / γ
    soft_topk_mask(x, k) = the point of P(1, ..., 1, 0, ..., 0), k ones, that is closest to x / γ

As γ goes to 0 these are ranks, the sorted row and the mask of the k largest; as γ grows all entries become equal. With
`SquaredNorm()` "closest" is meant in Euclidean distance, with `Shannon()` in relative entropy (for `soft_sort` between
exponentials). Sorting, then pooling adjacent violators, solves both; the pools are the certificate from which
derivatives are computed, so no iteration is unrolled. Blondel, Teboul, Berthet & Djolonga, "Fast differentiable sorting
and ranking", ICML 2020.

−inf and masked entries are taken out of their row. A row with NaN or +inf gives NaN. Equal entries get equal ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.kernels.isotonic import isotonic, pool_by_formula
from omegamax.kernels.isotonic_entropic import isotonic_entropic, segment_logsumexp, traced
from omegamax.kernels.tv1d import segment_mean
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.standard_form import with_dim_last
from omegamax.wrong_kinds import instead_of, kind_of

_SQUARED_NORM = SquaredNorm()


def soft_rank(
    x: Tensor,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    regularizer: Regularizer = _SQUARED_NORM,
    descending: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Ranks the entries of each row from 1, the smallest, to n, smoothly.

        argmin_{r in P(1, ..., n)}  ||r - x / gamma||^2

    Under `Shannon()` it is the r in P(1, ..., n) of least relative entropy Σ r log(r / exp(x / γ)) − r.

    Arguments:
        x: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        regularizer: `SquaredNorm()` or `Shannon()`
        descending: whether rank 1 is that of the largest entry
        mask: boolean, broadcasts to x; True marks the entries that are ranked

    Returns ranks shaped as x, which sum to n (n + 1) / 2; entries that are out have rank 0.

    >>> soft_rank(torch.tensor([2.0, 0.5, 1.0]), gamma=0.1)
    tensor([3., 1., 2.])
    >>> soft_rank(torch.tensor([2.0, 0.5, 1.0]), gamma=1.0)
    tensor([2.8333, 1.3333, 1.8333])
    """
    rows = _read("soft_rank", x, dim, gamma, regularizer, mask)
    weights = rows.counting()
    if isinstance(regularizer, Shannon):
        weights = torch.where(rows.sorted_allowed, weights, 1).log()
    found = _project(rows, rows.values if not descending else -rows.values, weights, regularizer)
    found = found.exp() if isinstance(regularizer, Shannon) else found
    return rows.finished(torch.where(rows.allowed, found, 0))


def soft_topk_mask(
    x: Tensor,
    k: int,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    regularizer: Regularizer = _SQUARED_NORM,
    mask: Tensor | None = None,
) -> Tensor:
    """Marks the k largest entries of each row smoothly: weights between 0 and 1 that sum to k.

        argmin_{0 <= m <= 1, sum m = k}  ||m - x / gamma||^2

    Under `Shannon()` it minimises Σ m log(m / exp(x / γ)) instead, and no weight is zero.

    Arguments:
        x: a floating tensor with any axes; −inf takes an entry out of its row
        k: how many entries are marked, from 1; a row of fewer is marked whole
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        regularizer: `SquaredNorm()` or `Shannon()`
        mask: boolean, broadcasts to x; True marks the entries that may be chosen

    Returns weights shaped as x.

    >>> soft_topk_mask(torch.tensor([3.0, 0.5, 1.0, -1.0]), 2)
    tensor([1.0000, 0.2500, 0.7500, 0.0000])
    """
    checks.check_count("soft_topk_mask", "k", k)
    rows = _read("soft_topk_mask", x, dim, gamma, regularizer, mask)
    first = torch.arange(rows.values.shape[-1], device=x.device) < k
    if isinstance(regularizer, Shannon):
        found = _project(rows, rows.values, torch.where(first, 0.0, -torch.inf).to(rows.values), regularizer).exp()
    else:
        found = _project(rows, rows.values, first.to(rows.values.dtype), regularizer)
    return rows.finished(torch.where(rows.allowed, found.clamp(0, 1), 0))


def soft_sort(
    x: Tensor,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    regularizer: Regularizer = _SQUARED_NORM,
    descending: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Sorts each row smoothly: every entry of the result depends on several entries of the row.

        argmin_{y in P(x)}  ||y - (1, ..., n) / gamma||^2

    Under `Shannon()` exp(y) is the point of P(exp(x)) of least relative entropy to exp((1, ..., n) / γ).

    Arguments:
        x: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        regularizer: `SquaredNorm()` or `Shannon()`
        descending: whether the largest comes first
        mask: boolean, broadcasts to x; True marks the entries that are sorted

    Returns the sorted rows, shaped as x; as in `torch.sort`, entries that are out are −inf and stand where the smallest
    do.

    >>> soft_sort(torch.tensor([2.0, 0.5, 1.0]), gamma=0.1)
    tensor([0.5000, 1.0000, 2.0000])
    >>> soft_sort(torch.tensor([2.0, 0.5, 1.0]), gamma=2.0)
    tensor([0.6667, 1.1667, 1.6667])
    """
    rows = _read("soft_sort", x, dim, gamma, regularizer, mask, divide=False)
    falling = _sorted_softly(rows, gamma, dim, regularizer)
    return rows.finished(falling if descending else falling.flip(-1))


def soft_quantile(
    x: Tensor,
    q: float | Tensor,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    regularizer: Regularizer = _SQUARED_NORM,
    mask: Tensor | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Computes quantiles of each row from `soft_sort`, with linear interpolation between its entries.

    Arguments:
        x: a floating tensor with any axes; −inf takes an entry out of its row
        q: a number between 0 and 1, or a tensor of them with one axis
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        regularizer: `SquaredNorm()` or `Shannon()`
        mask: boolean, broadcasts to x; True marks the entries that count
        keepdim: whether the axis of the rows stays, with size 1

    Returns the quantiles, shaped as `torch.quantile` shapes them; NaN for a row of nothing.

    >>> soft_quantile(torch.tensor([3.0, 0.5, 1.0, -1.0]), 0.5, gamma=0.1)
    tensor(0.7500)
    """
    rows = _read("soft_quantile", x, dim, gamma, regularizer, mask, divide=False)
    given = torch.as_tensor(q, dtype=rows.values.dtype, device=x.device)
    read = q if isinstance(q, Tensor) else torch.as_tensor(q)
    if read.dim() > 1 or (checks.is_readable(read) and bool(((read < 0) | (read > 1) | read.isnan()).any())):
        raise ValueError(
            f"soft_quantile: q must be between 0 and 1, a number or a tensor with one axis, got {q}; 0.5 is the median"
        )
    falling = _sorted_softly(rows, gamma, dim, regularizer)
    if falling.shape[-1] == 0:
        falling = falling.new_full((*falling.shape[:-1], 1), torch.nan)
    place = (1 - given.reshape(-1)) * (rows.n_allowed - 1).clamp(min=0)  # (..., q), counted from the largest
    low = place.floor()
    share = place - low
    ends = [falling.gather(-1, at.long().clamp(max=falling.shape[-1] - 1)) for at in (low, low + 1)]
    # Where an end has no share it is not read: it may be −inf.
    found = torch.where(share > 0, ends[0] + share * (torch.where(share > 0, ends[1], 0) - ends[0]), ends[0])
    found = torch.where(rows.wrong | (rows.n_allowed == 0), torch.nan, found).to(x.dtype)
    found = found.movedim(-1, 0)  # (q, ...)
    found = found.unsqueeze(dim if dim < 0 else dim + 1) if keepdim else found
    return found if given.dim() else found[0]


class _Rows(NamedTuple):
    """Rows with the axis last, and what is known of their entries."""

    values: Tensor  # (..., n), divided by γ where that is wanted; 0 where an entry is out
    allowed: Tensor  # (..., n)
    n_allowed: Tensor  # (..., 1)
    wrong: Tensor  # (..., 1): rows with NaN or +inf
    dim: int
    dtype: torch.dtype

    @property
    def sorted_allowed(self) -> Tensor:
        """Which places exist once the entries that are out have been moved to the end."""
        return torch.arange(self.values.shape[-1], device=self.values.device) < self.n_allowed

    def counting(self) -> Tensor:
        """Returns n, n − 1, ..., 1 for n entries that are allowed, then 0 and below where there is no entry."""
        return (self.n_allowed - torch.arange(self.values.shape[-1], device=self.values.device)).to(self.values.dtype)

    def finished(self, found: Tensor) -> Tensor:
        """Returns results of the rows in the user's type and with the user's axes."""
        return torch.where(self.wrong, torch.nan, found).to(self.dtype).movedim(-1, self.dim)


def _read(
    who: str, x: Tensor, dim: int, gamma: Any, regularizer: Any, mask: Tensor | None, *, divide: bool = True
) -> _Rows:
    checks.check_scores(who, x, name="x")
    checks.check_dim(who, x, dim)
    checks.check_gamma(who, gamma)
    if not isinstance(regularizer, Regularizer):
        raise TypeError(
            f"{who}: regularizer must be SquaredNorm() or Shannon(), got {kind_of(regularizer)}; "
            f"{instead_of(regularizer, 'om.SquaredNorm()')}"
        )
    if not isinstance(regularizer, (SquaredNorm, Shannon)):
        kind = type(regularizer).__name__
        raise ValueError(f"{who}: regularizer must be SquaredNorm() or Shannon(), got {kind}; use one of them")
    if mask is not None:
        checks.check_mask(who, x, mask, onto="x")
    rows = (x if mask is None else torch.where(mask, x, -torch.inf)).movedim(dim, -1)
    rows = rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
    wrong = (rows.isnan() | (rows == torch.inf)).any(-1, keepdim=True)
    allowed = (rows > -torch.inf) & ~wrong
    values = torch.where(allowed, rows, 0)
    if divide:
        checks.check_row_parameter(who, "gamma", with_dim_last(gamma, x, dim), rows, onto="x")
        values = values / _row_parameter(gamma, x, dim, rows)
    return _Rows(values, allowed, allowed.sum(-1, keepdim=True), wrong, dim, x.dtype)


def _row_parameter(gamma: Any, x: Tensor, dim: int, rows: Tensor) -> Any:
    given = with_dim_last(gamma, x, dim)
    return given.to(rows.dtype) if isinstance(given, Tensor) else given


def _sorted_softly(rows: _Rows, gamma: Any, dim: int, regularizer: Regularizer) -> Tensor:
    """Returns the rows sorted downwards; −inf where there is no entry."""
    there = rows.sorted_allowed
    lowest = torch.where(rows.allowed, rows.values, -torch.inf)
    ordered = torch.where(there, lowest.sort(dim=-1, descending=True).values, 0)
    scale = with_dim_last(gamma, rows.values.movedim(-1, dim), dim)
    anchors = rows.counting() / (scale.to(rows.values.dtype) if isinstance(scale, Tensor) else scale)
    found = _closest(anchors, ordered, there, regularizer)
    return torch.where(there, found, -torch.inf)


def _project(rows: _Rows, values: Tensor, weights: Tensor, regularizer: Regularizer) -> Tensor:
    """Projects each row onto the permutahedron of the weights, which fall: sorts, solves, and undoes the order."""
    key = torch.where(rows.allowed, values.detach(), -torch.inf)
    order = key.argsort(dim=-1, descending=True, stable=True)
    found = _closest(values.gather(-1, order), weights.expand_as(values), rows.sorted_allowed, regularizer)
    return torch.zeros_like(found).scatter(-1, order, found)


def _closest(falling: Tensor, weights: Tensor, there: Tensor, regularizer: Regularizer) -> Tensor:
    """Solves for rows that fall already. On each pool the weights are averaged, and the rows keep their differences.

    Written as (row − its mean) + the weights' mean, so that a pool of one entry is exactly its weight.
    """
    s, w = torch.broadcast_tensors(falling, weights)
    if isinstance(regularizer, Shannon):
        joined = _entropic_pools(s.detach(), w.detach(), there)
        return (s - segment_logsumexp(joined, s)) + segment_logsumexp(joined, torch.where(there, w, 0))
    joined = _pools((s - w).detach(), there)
    return (s - _SegmentMean.apply(joined, s)) + _SegmentMean.apply(joined, w)


def _pools(gaps: Tensor, there: Tensor) -> Tensor:
    """Pools for the squared norm; entries that are out come last, below all others, and are not pooled with them."""
    lowest = torch.where(there, gaps, torch.inf).amin(-1, keepdim=True) if gaps.shape[-1] else gaps
    rising = -torch.where(there, gaps, torch.where(lowest < torch.inf, lowest, 0) - 1)
    return pool_by_formula(rising)[1] if traced() else isotonic(rising)[1]


def _entropic_pools(s: Tensor, w: Tensor, there: Tensor) -> Tensor:
    gaps = torch.where(there & (w > -torch.inf), s - w, torch.inf)
    lowest = gaps.amin(-1, keepdim=True) if gaps.shape[-1] else gaps
    outside = torch.where(lowest < torch.inf, lowest, 0) - 1
    return isotonic_entropic(torch.where(there, s, outside), torch.where(there, w, 0))[1]


class _SegmentMean(torch.autograd.Function):
    """The mean over each segment: symmetric and linear, so its derivative of any order is itself."""

    @staticmethod
    def forward(joined: Tensor, rows: Tensor) -> Tensor:
        return segment_mean(joined, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _SegmentMean.apply(ctx.saved_tensors[0], grad)

    @staticmethod
    def jvp(ctx: Any, _: Any, tangent: Tensor) -> Tensor:
        return _SegmentMean.apply(ctx.saved_tensors[0], tangent)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], joined: Tensor, rows: Tensor) -> tuple[Tensor, int]:
        if in_dims[0] is not None:
            joined = joined.movedim(in_dims[0], 0)
        if in_dims[1] is not None:
            rows = rows.movedim(in_dims[1], 0)
        joined, rows = torch.broadcast_tensors(joined, rows)
        return _SegmentMean.apply(joined, rows), 0
