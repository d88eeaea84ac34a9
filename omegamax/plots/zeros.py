"""Tells exact zeros from weights that were rounded to zero.

A weight of softmax is never zero, but e^(−110) is stored as 0 in float32, and e^(−750) in float64. So a stored zero is
an exact zero only if the operator can give one; a figure must not draw or count the others as sparsity.

A caller that knows the operator says which zeros are exact. Otherwise the name decides, if it is an operator's. And
otherwise the weights decide: if some are positive but nearly too small for their type (below 1e-30 in float32, 1e-250
in float64), others were very likely rounded to zero. A sparse operator gives no weights that small, because it takes
differences of scores, and a difference is rounded where the scores are, near 1e-7 or 1e-16.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from omegamax.plots.style import COLOURS, operator_of

ExactZeros: TypeAlias = bool | Tensor | None  # all zeros, none, those where the tensor is true; None: not known
_NEVER_ZERO = "softmax"
_EITHER = "entmax"  # with α near 1 its small weights are rounded to zero, too


def rounded_to_zero(weights: Tensor, exact: ExactZeros = None, *, name: str = "") -> Tensor:
    """Marks each zero of `weights` (..., K) that stands for a weight too small to be stored.

    A row without any weight has no position that is allowed, so its zeros are exact.

    >>> rounded_to_zero(torch.tensor([[1.0, 0.0]]), name="softmax")
    tensor([[False,  True]])
    >>> rounded_to_zero(torch.tensor([[1.0, 0.0]]), name="sparsemax")
    tensor([[False, False]])
    """
    operator = operator_of(name)
    if exact is None and operator in COLOURS and operator != _EITHER:
        exact = operator != _NEVER_ZERO
    if exact is None:
        exact = not _has_tiny(weights)
    in_use = (weights != 0).any(-1, keepdim=True)
    return (weights == 0) & in_use & ~torch.as_tensor(exact)


def rounding_bound(weights: Tensor) -> float:
    """Returns a power of ten that is above every weight that was rounded to zero.

    The type is the smallest one that holds these numbers, because figures are often given copies in a wider one.
    """
    for dtype, bound in ((torch.float16, 1e-6), (torch.float32, 1e-30)):
        if weights.dtype == dtype or torch.equal(weights.to(dtype).to(weights.dtype), weights):
            return bound
    return 1e-250


def share_of_zeros(weights: Tensor, rounded: Tensor) -> str:
    """Says how many weights are zero, or are only too small to be stored.

    >>> share_of_zeros(torch.tensor([0.7, 0.3, 0.0, 0.0]), torch.tensor(4 * [False]))
    '50% zeros'
    >>> share_of_zeros(torch.tensor([0.7, 0.3, 0.0, 0.0]), torch.tensor([False, False, True, True]))
    '50% below 1e-30'
    """
    bound = rounding_bound(weights)
    few, said = (weights < bound, f"below {bound:.0e}") if bool(rounded.any()) else (weights == 0, "zeros")
    return f"{100 * float(few.double().mean()):.0f}% {said}"


def part_count(weights: Tensor, part: str) -> str:
    """Says how many parts of a structure have weight.

    >>> part_count(torch.tensor([0.5, 0.5, 0.0]), "arc")
    '2 arcs'
    >>> part_count(torch.tensor([1.0, 1e-300, 0.0], dtype=torch.float64), "arc")
    '1 arc above 1e-250'
    """
    tiny, bound = _has_tiny(weights), rounding_bound(weights)
    count = int((weights >= bound).sum() if tiny else (weights > 0).sum())
    return f"{count} {part}{'s' * (count != 1)}" + f" above {bound:.0e}" * tiny


def _has_tiny(weights: Tensor) -> bool:
    return bool(((weights > 0) & (weights < rounding_bound(weights))).any())
