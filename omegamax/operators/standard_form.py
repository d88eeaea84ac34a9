"""The standard form of a call: the axis `dim` moved last, the mask in the scores, the temperature in the regularizer.

The functions of `functional.py`, layers, losses and samplers take any axis, a mask and a temperature; operators act on
rows along the last axis.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.operators import evaluation
from omegamax.operators.operator import Operator
from omegamax.operators.regularizer import KernelRegularizer
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of


def argmax_along(
    who: str, smooth: SmoothMax, scores: Tensor, dim: int, gamma: float | Tensor, mask: Tensor | None
) -> Tensor:
    """Moves `dim` last, applies mask and temperature, solves, and moves the weights back."""
    if dim == -1 and mask is None and type(gamma) is float and gamma == 1 and isinstance(smooth, Operator):
        return evaluation.weights(smooth, scores, who)
    smooth, scores = standard_form(who, smooth, scores, dim, gamma, mask)
    weights = smooth.argmax(scores)
    return weights if dim == -1 else weights.movedim(-1, dim)


def operator_argmax_along(
    who: str, operator: Operator, scores: Tensor, dim: int, gamma: float | Tensor, mask: Tensor | None
) -> Tensor:
    """Does the same as `argmax_along` for a known operator, quickly in the usual case."""
    if dim == -1 and mask is None and type(gamma) is float and gamma == 1:
        return evaluation.weights(operator, scores, who)
    return argmax_along(who, operator, scores, dim, gamma, mask)


def standard_form(
    who: str, smooth: SmoothMax, scores: Tensor, dim: int, gamma: float | Tensor, mask: Tensor | None
) -> tuple[SmoothMax, Tensor]:
    """Returns the problem with `dim` last, and with mask and temperature applied."""
    checks.check_scores(who, scores)
    if mask is not None:
        checks.check_mask(who, scores, mask)
        scores = torch.where(mask, scores, -torch.inf)
    if dim != -1:
        checks.check_dim(who, scores, dim)
        gamma = with_dim_last(gamma, scores, dim)
        scores = scores.movedim(dim, -1)
    if type(gamma) is not float or gamma != 1:
        checks.check_gamma(who, gamma)
        smooth = smooth if not isinstance(gamma, Tensor) and gamma == 1 else Scaled(smooth, gamma)
    return smooth, scores


def operator_of(
    who: str, regularizer: type[KernelRegularizer], parameter: Any, scores: Tensor, dim: int
) -> KernelRegularizer:
    """Makes the regularizer with this parameter, which is checked; for a number or None it is made once and kept."""
    if (type(parameter) is float or parameter is None) and not routing.is_compiling():
        return _kept(who, regularizer, parameter)
    return regularizer.for_caller(who, with_dim_last(parameter, scores, dim))


@lru_cache(maxsize=128)
def _kept(who: str, regularizer: type[KernelRegularizer], number: float | None) -> KernelRegularizer:
    return regularizer.for_caller(who, number)


def with_dim_last(parameter: Any, scores: Tensor, dim: int) -> Any:
    """Moves the axes of a parameter that broadcasts against scores as theirs are moved when `dim` becomes the last."""
    if not isinstance(parameter, Tensor):
        return checks.plain(parameter)
    if dim == -1 or parameter.dim() == 0 or not isinstance(scores, Tensor):
        return parameter
    if parameter.dim() > scores.dim() or not -scores.dim() <= dim < scores.dim():
        return parameter  # a later check raises
    return parameter.reshape((1,) * (scores.dim() - parameter.dim()) + tuple(parameter.shape)).movedim(dim, -1)


def checked_smooth(who: str, regularizer: SmoothMax) -> SmoothMax:
    """Returns the regularizer, and raises if it is none."""
    if not isinstance(regularizer, SmoothMax):
        raise TypeError(
            f"{who}: regularizer must be a SmoothMax such as SquaredNorm(), got {kind_of(regularizer)}; "
            f"{instead_of(regularizer, 'Differentiable(fn) around a function of the weights')}"
        )
    return regularizer
