"""Soft-DTW: the smoothed cost of warping one sequence of features onto another.

    soft_dtw(x, y) = −γ DP_Ω(−C / γ),   C[i, j] = distance(x_i, y_j)

With Shannon's Ω this is soft-DTW (Cuturi & Blondel, ICML 2017), with the squared norm its sparse form (Mensch &
Blondel, ICML 2018), with Hard it is DTW. Its gradient in C is the expected alignment, which differentiates once more.
A native program reads the costs as they are, no copy negated or scaled; a band without lengths is stored as a band.
Features under the squared distance need no matrix of costs, in a band or not: the sweeps compute costs as they go, and
the gradients too, and their memory grows with M + N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.compiled_omega import compiled_omega
from omegamax.inference.differentiation import marginals_of, value_of
from omegamax.inference.program import Program
from omegamax.kernels.pairwise import pairwise_squared
from omegamax.kernels.soft_dtw import soft_dtw_of_points
from omegamax.kernels.structures import alignments
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.alignment import Alignment, check_band
from omegamax.structures.banded_alignment import BandedAlignment
from omegamax.structures.bands import Band
from omegamax.structures.problem import Problem, is_mild
from omegamax.structures.smoothing import Smoothing, smoothing_of

Distance = Callable[[Tensor, Tensor], Tensor]
_SHANNON = Shannon()
_FEW_FEATURES = 32  # with more, products of matrices are faster than distances computed in the sweeps


def squared_euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Computes Σ (x − y)² over the last axis; the other axes broadcast.

    Arguments:
        x: (..., D)
        y: (..., D)
    """
    return (x - y).square().sum(-1)


@routing.in_float32
def soft_dtw(
    x: Tensor,
    y: Tensor,
    gamma: float | Tensor = 1.0,
    *,
    distance: Distance = squared_euclidean,
    lengths: Any = None,
    regularizer: SmoothMax = _SHANNON,
    band: Band | None = None,
) -> Tensor:
    """Computes the smoothed cost of aligning x (..., M, D) with y (..., N, D), one per item; twice differentiable.

    `distance` sums over the last axis and broadcasts over the others: it sees (..., M, 1, D) and (..., 1, N, D).
    `lengths` is a pair of integer tensors (...). It is computed in the wider type of x and y; under `torch.autocast` in
    float32.

    Arguments:
        x: series (..., M, D)
        y: series (..., N, D)
        gamma: the temperature
        distance: costs of cells
        lengths: a pair of integer tensors (...)
        regularizer: Ω of the recursion
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> soft_dtw(x, x[[0, 0, 1, 2]], regularizer=Hard())
    tensor(0.)
    """
    smoothing = smoothing_of("soft_dtw", Scaled(regularizer, gamma))
    x, y = _of_one_type("soft_dtw", x, y)
    if distance is squared_euclidean:
        direct = _of_points(x, y, smoothing, lengths, band)
        if direct is not None:
            return direct
    structure, costs = _costs("soft_dtw", x, y, distance, lengths, band)
    return _value(structure, costs, smoothing, lengths)


@routing.in_float32
def soft_dtw_from_costs(
    costs: Tensor,
    gamma: float | Tensor = 1.0,
    *,
    lengths: Any = None,
    regularizer: SmoothMax = _SHANNON,
    band: Band | None = None,
) -> Tensor:
    """`soft_dtw` for costs (..., M, N) of the cells; its gradient is the expected alignment.

    Arguments:
        costs: (..., M, N)
        gamma: the temperature
        lengths: a pair of integer tensors (...)
        regularizer: Ω of the recursion
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    Returns one number per item, (...).
    """
    return _value(Alignment(band=band), costs, smoothing_of("soft_dtw_from_costs", Scaled(regularizer, gamma)), lengths)


def soft_dtw_alignment(
    x: Tensor,
    y: Tensor,
    gamma: float | Tensor = 1.0,
    *,
    distance: Distance = squared_euclidean,
    lengths: Any = None,
    regularizer: SmoothMax = _SHANNON,
    band: Band | None = None,
) -> Tensor:
    """Computes the expected alignment (..., M, N) of `soft_dtw`: how likely each cell is visited; differentiable.

    Arguments:
        x: series (..., M, D)
        y: series (..., N, D)
        gamma: the temperature
        distance: costs of cells
        lengths: a pair of integer tensors (...)
        regularizer: Ω of the recursion
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> soft_dtw_alignment(x, x[[0, 0, 1, 2]], regularizer=Hard())
    tensor([[1., 1., 0., 0.],
            [0., 0., 1., 0.],
            [0., 0., 0., 1.]])
    """
    structure, costs = _costs("soft_dtw_alignment", x, y, distance, lengths, band)
    smoothing = smoothing_of("soft_dtw_alignment", Scaled(regularizer, gamma))
    found = _native(structure, costs, smoothing, lengths)
    if found is None:
        weights = structure.argmax(-costs, Scaled(smoothing.regularizer, smoothing.gamma), lengths=lengths)
    else:
        problem, program = found
        weights = problem.in_user_shape(marginals_of(program, problem.parts))
    return structure.unpack(weights) if isinstance(structure, BandedAlignment) else weights


@routing.in_float32
def soft_dtw_divergence(
    x: Tensor,
    y: Tensor,
    gamma: float | Tensor = 1.0,
    *,
    distance: Distance = squared_euclidean,
    lengths: Any = None,
    regularizer: SmoothMax = _SHANNON,
    band: Band | None = None,
) -> Tensor:
    """soft_dtw(x, y) − ½ soft_dtw(x, x) − ½ soft_dtw(y, y): exactly zero when x equals y.

    Shannon's Ω only: under the squared norm it can be negative. With Shannon it is non-negative where exp(−distance/γ)
    / (1 + exp(−distance/γ)) is a positive definite kernel of features; for the squared Euclidean distance that is not
    proved. Blondel, Mensch & Vert, "Differentiable divergences between time series", AISTATS 2021.

    Arguments:
        x: series (..., M, D)
        y: series (..., N, D)
        gamma: the temperature
        distance: costs of cells
        lengths: a pair of integer tensors (...)
        regularizer: `Shannon()`
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    Returns one number per item, (...).
    """
    smoothing = smoothing_of("soft_dtw_divergence", regularizer)
    if not isinstance(smoothing.regularizer, Shannon):
        raise ValueError(
            f"soft_dtw_divergence: regularizer must be Shannon, got {type(smoothing.regularizer).__name__}, under "
            "which the divergence can be negative; use soft_dtw"
        )
    m, n = (None, None) if lengths is None else lengths
    if lengths is not None:  # each item has its own, so each has its own copy of x and y
        _check_points("soft_dtw_divergence", x, y)
        batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:])
    options: dict[str, Any] = {"distance": distance, "regularizer": regularizer, "band": band}
    own_x = soft_dtw(x, x, gamma, lengths=None if m is None else (m, m), **options)
    own_y = soft_dtw(y, y, gamma, lengths=None if n is None else (n, n), **options)
    return soft_dtw(x, y, gamma, lengths=lengths, **options) - (own_x + own_y) / 2


def _of_points(x: Tensor, y: Tensor, smoothing: Smoothing, lengths: Any, band: Band | None) -> Tensor | None:
    """Computes soft-DTW without a matrix of costs; returns None for inputs that the kernel does not take."""
    omega, gamma = compiled_omega(smoothing.regularizer), smoothing.gamma
    if (
        omega is None
        or omega not in alignments.OMEGAS
        or isinstance(gamma, Tensor)
        or not is_mild(gamma)
        or routing.dual_level_active()
    ):
        return None
    if x.shape[-1] > _FEW_FEATURES or not routing.in_native_memory(x, y):
        return None
    batch, n_rows, n_columns = x.shape[:-2], x.shape[-2], y.shape[-2]
    if y.shape[:-2] != batch:
        batch = torch.broadcast_shapes(batch, y.shape[:-2])
        x, y = x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:])
    if lengths is not None:
        given = checks.check_structure_lengths("soft_dtw", batch, lengths, (n_rows, n_columns))
        lengths = torch.stack(given, 1).contiguous()
    if len(batch) != 1:
        x, y = x.reshape(-1, *x.shape[-2:]), y.reshape(-1, *y.shape[-2:])
    check_band("soft_dtw", band)
    if routing.needs_grad(x, y):
        value = _OfPoints.apply(x, y, lengths, gamma, smoothing.regularizer, band)
    else:
        rows = _band_rows(band, x, y, lengths)
        value = soft_dtw_of_points(x, y, lengths, gamma, omega, False, False, rows)[0]
    return value if len(batch) == 1 else value.reshape(batch)


def _band_rows(band: Band | None, x: Tensor, y: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Returns the first and the last column of each row of every item, for the kernel."""
    if band is None:
        return None
    sizes = torch.tensor([x.shape[1], y.shape[1]]).expand(x.shape[0], 2) if lengths is None else lengths
    first, last = band.rows(x.shape[1], *sizes.unbind(1))
    return first.int().contiguous(), last.int().contiguous()


class _OfPoints(torch.autograd.Function):
    """Computes the gradients together with the value. Second derivatives are computed from a matrix of costs."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        lengths: Tensor | None,
        gamma: float,
        regularizer: Regularizer,
        band: Band | None,
    ) -> Any:
        wanted, rows = ctx.needs_input_grad, _band_rows(band, x, y, lengths)
        found = soft_dtw_of_points(x, y, lengths, gamma, compiled_omega(regularizer), *wanted[:2], rows)
        ctx.lengths, ctx.smoothing, ctx.band = lengths, Smoothing(regularizer, gamma), band
        ctx.save_for_backward(x, y, *found[1:])
        return found[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, *gradients = ctx.saved_tensors
        if torch.is_grad_enabled():
            x, y = x.view_as(x), y.view_as(y)  # two tensors even where x is y
            lengths = None if ctx.lengths is None else ctx.lengths.unbind(1)
            value = _value(*_costs("soft_dtw", x, y, squared_euclidean, lengths, ctx.band), ctx.smoothing, lengths)
            wanted = [points for points, gradient in zip((x, y), gradients) if gradient is not None]
            again = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
            return (*(None if gradient is None else next(again) for gradient in gradients), None, None, None, None)
        factor = grad.reshape(-1, 1, 1)
        return (*(None if gradient is None else factor * gradient for gradient in gradients), None, None, None, None)


def _value(structure: Alignment | BandedAlignment, costs: Tensor, smoothing: Smoothing, lengths: Any) -> Tensor:
    found = _native(structure, costs, smoothing, lengths)
    if found is None:
        return 0 - structure.max(-costs, Scaled(smoothing.regularizer, smoothing.gamma), lengths=lengths)
    problem, program = found
    return problem.per_item(value_of(program, problem.parts))


def _native(
    structure: Alignment | BandedAlignment, costs: Tensor, smoothing: Smoothing, lengths: Any
) -> tuple[Problem, Program] | None:
    """Returns the program of f(C) = DP(s C) / s with s = −1/γ, where there is one: it reads the costs as they are."""
    if isinstance(smoothing.gamma, Tensor) or not is_mild(smoothing.gamma):
        return None
    unmasked = replace(structure, band=None) if isinstance(structure, Alignment) else structure
    problem = unmasked.bind(costs, lengths)
    program = structure.compiled_program(problem, smoothing.regularizer)
    scaled = None if program is None else program.scaled(-1 / smoothing.gamma)
    return None if scaled is None else (problem, scaled)


def _costs(
    who: str, x: Tensor, y: Tensor, distance: Distance, lengths: Any, band: Band | None
) -> tuple[Alignment | BandedAlignment, Tensor]:
    """Returns the structure and the costs, as a band where that is smaller."""
    x, y = _of_one_type(who, x, y)
    if band is not None and lengths is None:
        banded = BandedAlignment(band, y.shape[-2])
        columns, _ = banded.columns(x.shape[-2])
        return banded, distance(x.unsqueeze(-2), y[..., columns.to(y.device), :])
    if distance is squared_euclidean and lengths is not None:
        x, y = _within(who, x, y, lengths)
    if distance is squared_euclidean and not (routing.transforms_active() or routing.dual_level_active()):
        return Alignment(band=band), _PairwiseSquared.apply(x, y)
    return Alignment(band=band), distance(x.unsqueeze(-2), y.unsqueeze(-3))


def _within(who: str, x: Tensor, y: Tensor, lengths: Any) -> tuple[Tensor, ...]:
    """Writes zeros beyond the lengths: whatever is there, times a weight of zero, must not reach a gradient."""
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    ends = checks.check_structure_lengths(who, batch, lengths, (x.shape[-2], y.shape[-2]))
    return tuple(
        torch.where(
            (torch.arange(points.shape[-2]) < end.reshape(*batch, 1)).unsqueeze(-1).to(points.device), points, 0
        )
        for points, end in zip((x, y), ends)
    )


def _of_one_type(who: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Checks points and converts them to the wider of their types."""
    _check_points(who, x, y)
    wide = torch.promote_types(x.dtype, y.dtype)
    return x.to(wide), y.to(wide)


def _check_points(who: str, x: Tensor, y: Tensor) -> None:
    checks.check_event(who, "x", x, (None, None), "(..., M, D)")
    checks.check_event(who, "y", y, (None, x.shape[-1]), f"(..., N, {x.shape[-1]})")


class _PairwiseSquared(torch.autograd.Function):
    """Computes |x_i − y_j|² (..., M, N) without the (..., M, N, D) differences; zero exactly where x_i = y_j."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        wide = torch.promote_types(x.dtype, torch.float32)
        batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        first, second = (
            each.to(wide).expand(*batch, *each.shape[-2:]).reshape(-1, *each.shape[-2:]) for each in (x, y)
        )
        found = pairwise_squared(first, second).to(x.dtype)
        return found.reshape(*batch, x.shape[-2], y.shape[-2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        centre = x.detach().mean(-2, keepdim=True)  # a shift of both changes nothing but the rounding
        x, y = (x - centre).to(grad.dtype), (y - centre).to(grad.dtype)  # they may differ in type
        to_x = to_y = None
        if ctx.needs_input_grad[0]:
            to_x = 2 * (grad.sum(-1, keepdim=True) * x - _weighted_sum(grad, y))
            to_x = to_x.sum_to_size(ctx.saved_tensors[0].shape)
        if ctx.needs_input_grad[1]:
            to_y = 2 * (grad.sum(-2).unsqueeze(-1) * y - _weighted_sum(grad.mT, x))
            to_y = to_y.sum_to_size(ctx.saved_tensors[1].shape)
        return to_x, to_y


def _weighted_sum(weights: Tensor, points: Tensor) -> Tensor:
    """Computes weights @ points, which is several times faster transposed, with the few coordinates first."""
    return (points.mT @ weights.mT).mT
