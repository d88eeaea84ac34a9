"""The losses on rows as functions: `sparsemax_loss(scores, target)`, called like `torch.nn.functional.cross_entropy`.

Every function takes the keywords of `fenchel_young_loss`: reduction, dim, weight, ignore_index, label_smoothing, mask,
lengths; the default reduction is the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from omegamax.losses.evaluation import loss_of
from omegamax.operator_table import ENTMAX15
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.norm_entropy import NormEntropy
from omegamax.operators.oscar import Oscar
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.standard_form import with_dim_last
from omegamax.operators.tsallis import Tsallis


def softmax_loss(scores: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Cross-entropy, minus the entropy of a soft target.

    log sum exp(scores) + sum y log y - <scores, y>

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        options: `reduction`, `dim`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    return loss_of("softmax_loss", Shannon(), scores, target, **options)


def sparsemax_loss(scores: Tensor, target: Tensor, **options: Any) -> Tensor:
    """The loss whose gradient is sparsemax(scores) - y.

        max_{p in simplex} (<p, scores> - 1/2 ||p||^2) + 1/2 ||y||^2 - <scores, y>

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        options: `reduction`, `dim`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.

    >>> sparsemax_loss(torch.tensor([[0.5, 0.0, -1.0]]), torch.tensor([0]))
    tensor(0.0625)
    """
    return loss_of("sparsemax_loss", SquaredNorm(), scores, target, **options)


def entmax15_loss(scores: Tensor, target: Tensor, **options: Any) -> Tensor:
    """The loss whose gradient is entmax15(scores) - y.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        options: `reduction`, `dim`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    return loss_of("entmax15_loss", Tsallis(ENTMAX15.fixed), scores, target, **options)


def entmax_loss(
    scores: Tensor, target: Tensor, *, alpha: float | Tensor = 1.5, dim: int = -1, **options: Any
) -> Tensor:
    """The loss whose gradient is entmax(scores, alpha) - y; a tensor `alpha` gets its own gradient.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        alpha: the order, from 1: a number, or a tensor with size 1 along `dim`
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        options: `reduction`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    tsallis = Tsallis.for_caller("entmax_loss", with_dim_last(alpha, scores, dim))
    return loss_of("entmax_loss", tsallis, scores, target, dim=dim, **options)


def sqpnormmax_loss(scores: Tensor, target: Tensor, *, p: float = 1.5, **options: Any) -> Tensor:
    """The loss whose gradient is sqpnormmax(scores, p) - y.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        p: of the norm, 1 < p ≤ 2
        options: `reduction`, `dim`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    return loss_of("sqpnormmax_loss", SquaredPNorm.for_caller("sqpnormmax_loss", p), scores, target, **options)


def normmax_loss(
    scores: Tensor, target: Tensor, *, alpha: float | Tensor = 2.0, dim: int = -1, **options: Any
) -> Tensor:
    """The loss whose gradient is normmax(scores, alpha) - y; a tensor `alpha` gets its own gradient.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        alpha: the order of the norm, above 1: a number, or a tensor with size 1 along `dim`
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        options: `reduction`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    norm_entropy = NormEntropy.for_caller("normmax_loss", with_dim_last(alpha, scores, dim))
    return loss_of("normmax_loss", norm_entropy, scores, target, dim=dim, **options)


def fusedmax_loss(
    scores: Tensor, target: Tensor, *, strength: float | Tensor = 0.1, dim: int = -1, **options: Any
) -> Tensor:
    """The loss whose gradient is fusedmax(scores, strength) - y.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        strength: of the penalty on differences between neighbours
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        options: `reduction`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    fused = Fused.for_caller("fusedmax_loss", with_dim_last(strength, scores, dim))
    return loss_of("fusedmax_loss", fused, scores, target, dim=dim, **options)


def oscarmax_loss(
    scores: Tensor, target: Tensor, *, strength: float | Tensor | None = None, dim: int = -1, **options: Any
) -> Tensor:
    """The loss whose gradient is oscarmax(scores, strength) - y.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        strength: of the penalty on pairs; None is min(0.01, 1/d) for d classes
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        options: `reduction`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    oscar = Oscar.for_caller("oscarmax_loss", with_dim_last(strength, scores, dim))
    return loss_of("oscarmax_loss", oscar, scores, target, dim=dim, **options)


def groupmax_loss(
    scores: Tensor,
    target: Tensor,
    *,
    groups: Sequence[int] | Sequence[Sequence[int]] | Tensor,
    strength: float | Tensor = 0.1,
    dim: int = -1,
    **options: Any,
) -> Tensor:
    """The loss whose gradient is groupmax(scores, groups, strength) - y.

    Arguments:
        scores: scores (..., C) of the classes
        target: classes (...), integers, or distributions (..., C)
        groups: the group number of each class, or the classes of each group
        strength: of the penalty on groups
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        options: `reduction`, `weight`, `ignore_index`, `label_smoothing` and `mask`, as in `fenchel_young_loss`

    Returns one number, or (...) with `reduction="none"`.
    """
    group_lasso = GroupLasso.for_caller("groupmax_loss", with_dim_last(strength, scores, dim), groups)
    return loss_of("groupmax_loss", group_lasso, scores, target, dim=dim, **options)
