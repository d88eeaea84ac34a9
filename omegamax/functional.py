"""One function per operator, called like `torch.softmax`.

Every function takes `(scores, dim=-1, *, gamma=1.0, mask=None)`:

- `dim`: the axis that is normalised;
- `gamma`: temperature, a positive number or a tensor that broadcasts against scores with size 1 along `dim`;
- `mask`: boolean, broadcasts to scores, True marks the positions that may receive weight. A masked position acts as if
  it were not there; −inf scores mean the same. A row with nothing allowed gives zeros.

Weights have the shape and dtype of scores, and zeros are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax import checks
from omegamax.operator_table import ENTMAX15
from omegamax.operators import evaluation
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.hard import Hard
from omegamax.operators.norm_entropy import NormEntropy
from omegamax.operators.operator import Operator
from omegamax.operators.oscar import Oscar
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.standard_form import (
    argmax_along,
    checked_smooth,
    operator_argmax_along,
    operator_of,
    standard_form,
    with_dim_last,
)
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax

_HARD, _SHANNON, _SQUARED_NORM, _ENTMAX15 = Hard(), Shannon(), SquaredNorm(), Tsallis(ENTMAX15.fixed)


def hardmax(scores: Tensor, dim: int = -1, *, gamma: float | Tensor = 1.0, mask: Tensor | None = None) -> Tensor:
    """The corner of the simplex with the largest score.

        argmax_{p in simplex}  <p, scores>

    Ties go to the lowest index; gamma changes nothing. Its derivative is zero wherever it exists.

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature; without effect
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> hardmax(torch.tensor([1.0, 3.0, 3.0]))
    tensor([0., 1., 0.])
    """
    return operator_argmax_along("hardmax", _HARD, scores, dim, gamma, mask)


def softmax(scores: Tensor, dim: int = -1, *, gamma: float | Tensor = 1.0, mask: Tensor | None = None) -> Tensor:
    """The entropy-regularized argmax; `torch.softmax` with a mask, a temperature and defined empty rows.

        argmax_{p in simplex}  <p, scores> - gamma * sum p log p

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> softmax(torch.tensor([1.0, 1.0, 5.0]), mask=torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return operator_argmax_along("softmax", _SHANNON, scores, dim, gamma, mask)


def sparsemax(scores: Tensor, dim: int = -1, *, gamma: float | Tensor = 1.0, mask: Tensor | None = None) -> Tensor:
    """Euclidean projection of scores / gamma onto the simplex.

        argmax_{p in simplex}  <p, scores> - gamma / 2 * ||p||^2

    Many weights are exactly zero (Martins & Astudillo, 2016).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> sparsemax(torch.tensor([1.0, 0.9, -1.0]))
    tensor([0.5500, 0.4500, 0.0000])
    """
    return operator_argmax_along("sparsemax", _SQUARED_NORM, scores, dim, gamma, mask)


def entmax15(scores: Tensor, dim: int = -1, *, gamma: float | Tensor = 1.0, mask: Tensor | None = None) -> Tensor:
    """Entmax of order 1.5: halfway between softmax and sparsemax, smooth and sparse.

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> entmax15(torch.tensor([1.0, 0.5, -2.0]))
    tensor([0.6740, 0.3260, 0.0000])
    """
    return operator_argmax_along("entmax15", _ENTMAX15, scores, dim, gamma, mask)


def entmax(
    scores: Tensor,
    dim: int = -1,
    *,
    alpha: float | Tensor = 1.5,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """Tsallis-regularized argmax of order alpha >= 1: 1 is softmax, 2 is sparsemax.

        argmax_{p in simplex}  <p, scores> - gamma * (sum p^alpha - 1) / (alpha (alpha - 1))

    `alpha` may be a tensor that broadcasts against scores with size 1 along `dim`, one order per row or per head, and
    its gradient is exact, also at and near 1 (Peters et al., 2019; Correia et al., 2019).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        alpha: the order, from 1
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> entmax(torch.tensor([1.0, 0.5, -2.0]), alpha=2.0)
    tensor([0.7500, 0.2500, 0.0000])
    """
    tsallis = operator_of("entmax", Tsallis, alpha, scores, dim)
    return operator_argmax_along("entmax", tsallis, scores, dim, gamma, mask)


def sqpnormmax(
    scores: Tensor, dim: int = -1, *, p: float = 1.5, gamma: float | Tensor = 1.0, mask: Tensor | None = None
) -> Tensor:
    """The argmax regularized by a squared p-norm, 1 < p <= 2.

        argmax_{w in simplex}  <w, scores> - gamma / 2 * ||w||_p^2

    It is sparse like sparsemax (p = 2) but smoother where a weight leaves zero (Niculae & Blondel, 2017).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        p: of the norm, 1 < p ≤ 2
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> sqpnormmax(torch.tensor([1.0, 0.5, -2.0]))
    tensor([0.8474, 0.1526, 0.0000])
    """
    squared_pnorm = operator_of("sqpnormmax", SquaredPNorm, p, scores, dim)
    return operator_argmax_along("sqpnormmax", squared_pnorm, scores, dim, gamma, mask)


def normmax(
    scores: Tensor,
    dim: int = -1,
    *,
    alpha: float | Tensor = 2.0,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """The argmax regularized by the alpha-norm of the weights, alpha > 1.

        argmax_{p in simplex}  <p, scores> - gamma * ||p||_alpha

    It is sparse; the larger alpha is, the more equal are its weights above zero (Blondel, Martins & Niculae, 2020).
    `alpha` may be a tensor that broadcasts against scores with size 1 along `dim`, and its gradient is exact.

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        alpha: the order of the norm, above 1 and finite
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> normmax(torch.tensor([1.0, 0.5, -2.0]))
    tensor([0.6890, 0.3110, 0.0000])
    """
    norm_entropy = operator_of("normmax", NormEntropy, alpha, scores, dim)
    return operator_argmax_along("normmax", norm_entropy, scores, dim, gamma, mask)


def fusedmax(
    scores: Tensor,
    dim: int = -1,
    *,
    strength: float | Tensor = 0.1,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """Sparse weights that are equal on contiguous segments.

        argmax_{p in simplex}  <p, scores> - gamma * (1/2 ||p||^2 + strength * sum |p_{i+1} - p_i|)

    Masked positions are taken out: their neighbours become adjacent (Niculae & Blondel, 2017).

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        strength: of the penalty, non-negative; a number or a tensor, as `gamma`
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> fusedmax(torch.tensor([1.0, 0.9, -1.0]), strength=0.1)
    tensor([0.5000, 0.5000, 0.0000])
    """
    fused = operator_of("fusedmax", Fused, strength, scores, dim)
    return operator_argmax_along("fusedmax", fused, scores, dim, gamma, mask)


def oscarmax(
    scores: Tensor,
    dim: int = -1,
    *,
    strength: float | Tensor | None = None,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """Sparse weights that are equal within clusters of positions, wherever these are in the row.

        argmax_{p in simplex}  <p, scores> - gamma * (1/2 ||p||^2 + strength * sum_{i<j} max(p_i, p_j))

    It is exact for scores of any sign; the published composition is not (Niculae & Blondel, 2017). Without a strength
    each row of d positions that are not masked takes min(0.01, 1/d): the paper's 0.01 up to d = 100, and less beyond
    that, because all weights of long rows would be equal.

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        strength: of the penalty, non-negative; a number or a tensor, as `gamma`
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> oscarmax(torch.tensor([1.0, -1.0, 0.95]), strength=0.1)
    tensor([0.5000, 0.0000, 0.5000])
    """
    oscar = operator_of("oscarmax", Oscar, strength, scores, dim)
    return operator_argmax_along("oscarmax", oscar, scores, dim, gamma, mask)


def groupmax(
    scores: Tensor,
    dim: int = -1,
    *,
    groups: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    strength: float | Tensor = 0.1,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """Weights that select or drop whole groups of positions.

        argmax_{p in simplex}  <p, scores> - gamma * (1/2 ||p||^2 + strength * sum_g ||p_g||)

    `groups` gives the group number of each position, or the positions of each group.

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        dim: the axis of the rows
        groups: of the positions along `dim`
        strength: of the penalty, non-negative; a number or a tensor, as `gamma`
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores; a row with nothing allowed gives zeros.

    >>> groupmax(torch.tensor([1.0, 0.8, 0.5, -1.0]), groups=[0, 0, 1, 1], strength=0.5)
    tensor([0.5587, 0.4413, 0.0000, 0.0000])
    """
    group_lasso = GroupLasso.for_caller("groupmax", with_dim_last(strength, scores, dim), groups)
    return operator_argmax_along("groupmax", group_lasso, scores, dim, gamma, mask)


def smooth_max(
    scores: Tensor,
    regularizer: SmoothMax,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """max_Ω along `dim`: one number per row, whose gradient is `smooth_argmax`.

        max_{p in simplex}  <p, scores> - gamma * Ω(p)

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        regularizer: Ω, such as `SquaredNorm()`
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns one number per row, shaped as the scores without `dim`; a row with nothing allowed gives −inf.

    >>> smooth_max(torch.tensor([1.0, 0.9, -1.0]), SquaredNorm())
    tensor(1.2025)
    """
    smooth, scores = standard_form("smooth_max", checked_smooth("smooth_max", regularizer), scores, dim, gamma, mask)
    if isinstance(smooth, Operator):
        smooth.check_fit(scores)
        return evaluation.value_and_weights(smooth, scores).value
    return smooth.max(scores)


def smooth_argmax(
    scores: Tensor,
    regularizer: SmoothMax,
    dim: int = -1,
    *,
    gamma: float | Tensor = 1.0,
    mask: Tensor | None = None,
) -> Tensor:
    """argmax_Ω along `dim`, for any regularizer.

        argmax_{p in simplex}  <p, scores> - gamma * Ω(p)

    Arguments:
        scores: a floating tensor with any axes; −inf takes an entry out of its row
        regularizer: Ω, such as `SquaredNorm()`
        dim: the axis of the rows
        gamma: the temperature: a positive number, or a tensor with size 1 along `dim`, which may learn
        mask: boolean, broadcasts to the scores; True means "may receive weight"

    Returns weights shaped as the scores.

    >>> smooth_argmax(torch.tensor([1.0, 0.9, -1.0]), SquaredNorm())
    tensor([0.5500, 0.4500, 0.0000])
    """
    if isinstance(regularizer, Operator):
        return operator_argmax_along("smooth_argmax", regularizer, scores, dim, gamma, mask)
    return argmax_along("smooth_argmax", checked_smooth("smooth_argmax", regularizer), scores, dim, gamma, mask)


def gate(scores: Tensor, regularizer: SmoothMax, *, gamma: float | Tensor = 1.0) -> Tensor:
    """A map from a score to [0, 1]: argmax_Ω([t, 0])_1 for every entry t of scores.

    It is the sigmoid under Shannon; under a sparse Ω it is exactly 0 or 1 outside an interval, so what is gated off
    need not be computed. A tensor `gamma` broadcasts against scores: every entry may have its own.

    Arguments:
        scores: a floating tensor with any axes
        regularizer: Ω, such as `SquaredNorm()`
        gamma: the temperature

    Returns numbers in [0, 1] shaped as the scores.

    >>> gate(torch.tensor([-2.0, 0.0, 0.5, 2.0]), SquaredNorm())
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    checks.check_floating("gate", scores)
    pairs = torch.stack((scores, torch.zeros_like(scores)), -1)
    if isinstance(gamma, Tensor) and gamma.dim():
        gamma = gamma.unsqueeze(-1)
    return argmax_along("gate", checked_smooth("gate", regularizer), pairs, -1, gamma, None)[..., 0]
