"""The loss where the gold answer is known in part: some tags are unknown, or one of several is right.

    L(θ; A) = max_Ω(θ) − max_Ω(θ restricted to A)  ≥ 0          ∇L = argmax_Ω(θ) − argmax_Ω(θ restricted to A)

A is the set of answers that the annotation allows, and everything else scores −inf in the second term. Under Shannon's
Ω it is −log of the probability of A: the marginal likelihood of a CRF (Tsuboi et al., COLING 2008); under Hard the
latent perceptron.

Restricted to A, the maximum is taken over a face of the same polytope. So the loss is never negative wherever Ω is the
same on the face: where leaving out entries of zero weight does not change it. That holds for Hard, Shannon,
SquaredNorm, Tsallis, SquaredPNorm and NormEntropy, on rows and inside a recursion, and for SparseMAP. It does not hold
for Oscar, Fused and GroupLasso, whose penalty counts or orders the entries: they raise. If A has a single answer, the
loss is the Fenchel–Young loss; it is convex in θ then, and a difference of convex functions otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.losses.evaluation import widened
from omegamax.losses.reduction import check_reduction, reduced
from omegamax.losses.row_evaluation import non_negative
from omegamax.losses.structure_evaluation import is_labels, structure_of, value_of_problem
from omegamax.losses.targets import read_index
from omegamax.module_repr import shown, unless
from omegamax.operator_table import regularizers
from omegamax.operators.scaled import Scaled
from omegamax.smoothmax import SmoothMax
from omegamax.structures.labels import checked_labels
from omegamax.structures.problem import Problem
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.sparsemap import SparseMAP
from omegamax.wrong_kinds import instead_of, kind_of

UNKNOWN = -100  # the label that allows everything


class PartialLoss(nn.Module):
    """The loss max_Ω(θ) − max_Ω(θ restricted) of gold answers that are known in part; see above for the Ω it takes.

    It is called with `scores` and `allowed`: a boolean tensor, True for what may be right, or integer labels, −100
    where nothing is known. `mask`, `lengths` and `positions` are those of other losses.

    | scores | `allowed`, boolean | `allowed`, integers |
    |---|---|---|
    | rows (..., C) | (..., C): classes | (...): classes |
    | a chain of N positions and C tags | (..., N, C): tags | (..., N): tags |
    | dependency trees (..., N + 1, N + 1) | the shape of the scores: arcs | (..., N): heads |
    | any other structure | broadcasts to the (first) scores: parts | – |

    The gradient moves weight from all answers to those that are allowed, shared among them as the scores say.

    Arguments:
        smooth: a regularizer, `Smoothed(structure, Ω)` or `SparseMAP(structure)`
        reduction: "mean" over rows or items, "sum" or "none"
        check: whether an item without an allowed answer raises; without, it costs +inf

    >>> loss = PartialLoss(Smoothed(Chain(), Shannon()))
    >>> loss(torch.zeros(1, 3, 2, 2), torch.tensor([[0, -100, 1]]))  # two of eight sequences: log 4
    tensor(1.3863)
    """

    def __init__(self, smooth: SmoothMax, reduction: str = "mean", *, check: bool = True) -> None:
        super().__init__()
        check_reduction("PartialLoss", reduction)
        check_faces("PartialLoss", smooth)
        self.smooth, self.reduction, self.check = smooth, reduction, check

    def forward(
        self, scores: Any, allowed: Tensor, *, mask: Any = None, lengths: Any = None, positions: Any = None
    ) -> Tensor:
        """Computes the loss of scores where these answers are allowed."""
        options = {"mask": mask, "lengths": lengths, "positions": positions}
        losses = partial_losses("PartialLoss", self.smooth, scores, allowed, check=self.check, **options)
        return reduced(losses, self.reduction)

    def extra_repr(self) -> str:
        return shown(smooth=self.smooth, reduction=self.reduction, check=unless(self.check, True))


def check_faces(who: str, smooth: Any) -> None:
    """Raises unless Ω is the same on every face: unless it does not change when entries of zero weight are left out."""
    if not isinstance(smooth, SmoothMax) or (structure_of(smooth) and not isinstance(smooth, (Smoothed, SparseMAP))):
        raise TypeError(
            f"{who}: smooth must be a regularizer, a Smoothed or a SparseMAP, got {kind_of(smooth)}; "
            f"{instead_of(smooth, 'SquaredNorm() or Smoothed(Chain(), Shannon())')}"
        )
    inner: Any = smooth.regularizer if isinstance(smooth, Smoothed) else smooth
    while isinstance(inner, Scaled):
        inner = inner.inner
    if not isinstance(smooth, SparseMAP) and not inner.zero_at_corners:
        raise ValueError(
            f"{who}: Ω must not change when entries of zero weight are left out, got {type(inner).__name__}, with "
            f"which the loss could be negative; use {' or '.join(regularizers(zero_at_corners=True))}"
        )


@routing.in_float32
def partial_losses(
    who: str,
    smooth: Any,
    scores: Any,
    allowed: Any,
    *,
    mask: Any = None,
    lengths: Any = None,
    positions: Any = None,
    check: bool = True,
) -> Tensor:
    """Computes one loss per row or item; errors name `who`."""
    wide, dtype = widened(scores)
    structure = structure_of(smooth)
    if structure is None:
        if positions is not None:
            raise ValueError(f"{who}: positions are for chains, got them with rows of scores; leave the rows out")
        whole, part = _values_of_rows(who, smooth, wide, allowed, mask, lengths)
        losses = _difference(who, whole, part, check)
    else:
        problem = structure.bind(wide, lengths, mask, positions)
        gold = _allowed_parts(who, problem, wide, allowed)
        limited = replace(problem, parts=(torch.where(gold, problem.parts[0], -torch.inf), *problem.parts[1:]))
        whole, part = (value_of_problem(smooth, each, wide, lengths, mask) for each in (problem, limited))
        losses = problem.per_item(_difference(who, whole, part, check))
    return losses if dtype is None else losses.to(dtype)


def _difference(who: str, whole: Tensor, limited: Tensor, check: bool) -> Tensor:
    """Computes the first value minus the second, infinite where the second is −inf."""
    nothing = limited == -torch.inf
    if check and bool(nothing.any()):
        raise ValueError(
            f"{who}: some answer must be allowed, got none with a score above -inf in item "
            f"{int(nothing.flatten().nonzero()[0])}; allow more there, or leave it out"
        )
    found = torch.where(nothing, 0, whole) - torch.where(nothing, 0, limited)
    return torch.where(nothing, torch.inf, non_negative(found))


def _allowed_parts(who: str, problem: Problem, scores: Any, allowed: Any) -> Tensor:
    """Returns which entries (batch, *event) of the first component are allowed."""
    if is_labels(scores, allowed):
        return problem.structure.allowed_by_labels(problem, checked_labels(who, problem, allowed), UNKNOWN)
    first = problem.parts[0]
    shape = (*problem.batch_shape, *first.shape[1:])
    if not isinstance(allowed, Tensor) or allowed.dtype is not torch.bool:
        _refuse(who, allowed, problem.structure.labels_are)
    given = problem.structure.allowed_in_shape(problem, allowed.to(first.device))
    checks.check_mask(
        who, first.new_empty(1).expand(shape), given, onto="the scores", fix="True marks what may be right"
    )
    return given.expand(shape).reshape(first.shape)


def _values_of_rows(who: str, smooth: Any, rows: Any, allowed: Any, mask: Any, lengths: Any) -> tuple[Tensor, Tensor]:
    """Computes max_Ω of rows, and of rows restricted to the classes that are allowed."""
    checks.check_scores(who, rows)
    if not isinstance(allowed, Tensor) or allowed.is_floating_point() or allowed.is_complex():
        _refuse(who, allowed, "classes (...)")
    allowed = allowed.to(rows.device)
    if allowed.dtype is not torch.bool:
        index, known = read_index(who, allowed, rows, UNKNOWN)
        hot = torch.nn.functional.one_hot(index, rows.shape[-1]) > 0
        allowed = hot if known is None else hot | ~known.unsqueeze(-1)
    checks.check_mask(who, rows, allowed)
    both = allowed if mask is None else allowed & mask
    return smooth.max(rows, mask=mask, lengths=lengths), smooth.max(rows, mask=both, lengths=lengths)


def _refuse(who: str, allowed: Any, labels: str | None) -> NoReturn:
    came = allowed.dtype if isinstance(allowed, Tensor) else type(allowed).__name__
    or_labels = "" if labels is None else f" or an integer one of {labels}"
    raise TypeError(
        f"{who}: allowed must be a boolean Tensor{or_labels}, got {came}; True marks what may be right, and the label "
        f"{UNKNOWN} what is unknown"
    )
