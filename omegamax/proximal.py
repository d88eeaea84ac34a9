"""The proximal operators behind the structured attentions, public and differentiable twice.

Each solves argmin_y ½‖y − x‖² + f(y) along `dim` exactly. A row with a NaN or an infinity comes out NaN
(`project_simplex` leaves −inf out, as sparsemax does).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from omegamax import checks
from omegamax.groups import check_group_count, check_groups
from omegamax.operators.proximal import GroupNorm, Monotone, OrderedL1, OscarNorm, TotalVariation
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.standard_form import argmax_along, with_dim_last


def project_simplex(x: Tensor, dim: int = -1) -> Tensor:
    """Euclidean projection onto the probability simplex; another name for `sparsemax`.

        argmin_{y >= 0, sum y = 1}  1/2 ||y - x||^2

    Arguments:
        x: a floating tensor with any axes
        dim: the axis of the rows

    Returns y, shaped as x.

    >>> project_simplex(torch.tensor([1.0, 0.9, -1.0]))
    tensor([0.5500, 0.4500, 0.0000])
    """
    return _solved("project_simplex", SquaredNorm(), x, dim)


def prox_tv1d(x: Tensor, strength: float | Tensor, dim: int = -1) -> Tensor:
    """Total-variation denoising: piecewise constant y, in linear time on any input (Johnson, 2013).

        argmin_y  1/2 ||y - x||^2 + strength * sum |y_{i+1} - y_i|

    Arguments:
        x: a floating tensor with any axes
        strength: of the penalty, a number or a tensor with size 1 along `dim`
        dim: the axis of the sequences

    Returns y, shaped as x.

    >>> prox_tv1d(torch.tensor([0.0, 0.2, 3.0, 3.2]), 0.5)
    tensor([0.3500, 0.3500, 2.8500, 2.8500])
    """
    checks.check_strength("prox_tv1d", strength)
    return _solved("prox_tv1d", TotalVariation(with_dim_last(strength, x, dim)), x, dim)


def prox_oscar(x: Tensor, strength: float | Tensor, dim: int = -1) -> Tensor:
    """Prox of the OSCAR norm: entries of similar size are pooled, wherever they stand.

        argmin_y  1/2 ||y - x||^2 + strength * sum_{i<j} max(|y_i|, |y_j|)

    Arguments:
        x: a floating tensor with any axes
        strength: of the penalty, a number or a tensor with size 1 along `dim`
        dim: the axis of the rows

    Returns y, shaped as x.

    >>> prox_oscar(torch.tensor([2.0, -1.9, 0.3]), 0.1)
    tensor([ 1.8000, -1.8000,  0.3000])
    """
    checks.check_strength("prox_oscar", strength)
    return _solved("prox_oscar", OscarNorm(with_dim_last(strength, x, dim)), x, dim)


def prox_owl(x: Tensor, weights: Tensor, dim: int = -1) -> Tensor:
    """Prox of the ordered weighted l1 norm, with weights that are non-negative and do not increase.

        argmin_y  1/2 ||y - x||^2 + sum_i weights_i |y|_(i)        |y|_(1) >= |y|_(2) >= ...

    Equal weights are soft thresholding; one weight followed by zeros is the prox of the largest magnitude.

    Arguments:
        x: a floating tensor with any axes
        weights: (n,), non-negative and not increasing
        dim: the axis of the rows

    Returns y, shaped as x.

    >>> prox_owl(torch.tensor([2.0, -1.0, 0.3]), torch.tensor([0.5, 0.5, 0.5]))
    tensor([ 1.5000, -0.5000,  0.0000])
    """
    checks.check_owl_weights("prox_owl", weights, x, dim)
    return _solved("prox_owl", OrderedL1(weights), x, dim)


def prox_group(
    x: Tensor, groups: Sequence[int] | Sequence[Sequence[int]] | Tensor, strength: float | Tensor, dim: int = -1
) -> Tensor:
    """Prox of the group lasso: shrinks each group, and drops those whose norm is at most `strength`.

        argmin_y  1/2 ||y - x||^2 + strength * sum_g ||y_g||

    Arguments:
        x: a floating tensor with any axes
        groups: the group number of each position, or the positions of each group
        strength: of the penalty, a number or a tensor with size 1 along `dim`
        dim: the axis of the rows

    Returns y, shaped as x.

    >>> prox_group(torch.tensor([3.0, 4.0, 0.1, 0.1]), [0, 0, 1, 1], 1.0)
    tensor([2.4000, 3.2000, 0.0000, 0.0000])
    """
    checks.check_strength("prox_group", strength)
    checks.check_scores("prox_group", x, name="x")
    checks.check_dim("prox_group", x, dim)
    labels = check_groups("prox_group", groups)
    check_group_count("prox_group", labels, x.shape[dim])
    return _solved("prox_group", GroupNorm(labels, with_dim_last(strength, x, dim)), x, dim)


def isotonic_regression(x: Tensor, dim: int = -1, *, increasing: bool = True) -> Tensor:
    """The closest monotone sequence, by pooling adjacent violators.

        argmin_{y_1 <= y_2 <= ...}  1/2 ||y - x||^2

    Arguments:
        x: a floating tensor with any axes
        dim: the axis of the sequences
        increasing: whether y rises; else it falls

    Returns y, shaped as x.

    >>> isotonic_regression(torch.tensor([1.0, 3.0, 2.0, 4.0]))
    tensor([1.0000, 2.5000, 2.5000, 4.0000])
    """
    checks.check_scores("isotonic_regression", x, name="x")
    solution = _solved("isotonic_regression", Monotone(), x if increasing else 0 - x, dim)
    return solution if increasing else 0 - solution  # 0 − 0 is 0, not −0


def _solved(who: str, prox: Any, x: Tensor, dim: int) -> Tensor:
    checks.check_scores(who, x, name="x")
    checks.check_dim(who, x, dim)
    if prox.learnable == "strength":
        checks.check_row_parameter(who, "strength", prox.strength, x.movedim(dim, -1), onto="x")
    return argmax_along(who, prox, x, dim, 1.0, None)
