"""Fenchel–Young losses: one loss for every smoothed maximum.

    L(θ; y) = max_Ω(θ) + Ω(y) − <θ, y>  ≥ 0          ∇L(θ; y) = argmax_Ω(θ) − y

The loss is convex in θ and zero exactly where argmax_Ω(θ) = y (for Hard: where y is among the best). Shannon's Ω on the
simplex gives cross-entropy, on a structure the CRF loss; Hard gives perceptrons. Blondel, Martins & Niculae, "Learning
with Fenchel–Young losses", JMLR 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from omegamax.losses.evaluation import LossOptions, loss_of
from omegamax.losses.reduction import check_reduction
from omegamax.losses.structure_evaluation import structure_of
from omegamax.losses.targets import check_label_smoothing, check_no_classes
from omegamax.module_repr import shown, unless
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


def fenchel_young_loss(
    scores: Any,
    target: Any,
    smooth: SmoothMax,
    *,
    reduction: str = "mean",
    mask: Any = None,
    lengths: Any = None,
    positions: Any = None,
    target_edges: Tensor | None = None,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Computes max_Ω(scores) + Ω(target) − <scores, target>; see `FenchelYoungLoss` for the options.

    Arguments:
        scores: rows (..., C), or the potentials of a structure
        target: classes, distributions, labels or structures
        smooth: a regularizer, `Smoothed(structure, Ω)` or `SparseMAP(structure)`
        reduction: "mean", "sum" or "none"
        mask: boolean, broadcasts to the scores; True means "may receive weight"
        lengths: of the items of a structure, (...)
        positions: of the items of a chain, in place of lengths: boolean (..., N), False where one is removed
        target_edges: marginals of edges, for soft targets that parts do not determine
        options: `dim`, `weight`, `ignore_index` and `label_smoothing` for classes, `check` for structures

    Returns one number, or one per row or item with `reduction="none"`.

    >>> scores = torch.tensor([[1.0, 0.9, -1.0], [3.0, 0.0, 0.0]])
    >>> fenchel_young_loss(scores, torch.tensor([0, 0]), SquaredNorm(), reduction="none")
    tensor([0.2025, 0.0000])
    """
    return loss_of(
        "fenchel_young_loss",
        smooth,
        scores,
        target,
        reduction=reduction,
        mask=mask,
        lengths=lengths,
        positions=positions,
        target_edges=target_edges,
        **options,
    )


class Loss(nn.Module, ABC):
    """The base of all Fenchel–Young losses; a subclass says which Ω.

    It is called with `scores` and `target`; for rows with a `mask` (True means that a class is there), for structures
    with `mask`, `lengths` (for chains also `positions`) and, where parts do not determine a soft target,
    `target_edges` (marginals of edges).

    Arguments:
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        label_smoothing: the share of the target that is spread over all classes
        check: whether gold structures are checked; without, a forbidden one costs +inf
    """

    weight: Tensor | None

    def __init__(
        self,
        *,
        reduction: str = "mean",
        dim: int = -1,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        check: bool = True,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        check_reduction(who, reduction)
        check_label_smoothing(who, label_smoothing)
        self.reduction, self.dim, self.ignore_index = reduction, dim, ignore_index
        self.label_smoothing, self.check = float(label_smoothing), check
        self.register_buffer("weight", weight)

    @abstractmethod
    def smooth(self, scores: Any) -> SmoothMax:
        """Returns the smoothed maximum, with the current values of its parameters."""

    def forward(
        self,
        scores: Any,
        target: Any,
        *,
        mask: Any = None,
        lengths: Any = None,
        positions: Any = None,
        target_edges: Tensor | None = None,
    ) -> Tensor:
        """Computes the loss of scores at targets."""
        return loss_of(
            type(self).__name__,
            self.smooth(scores),
            scores,
            target,
            reduction=self.reduction,
            dim=self.dim,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            mask=mask,
            lengths=lengths,
            positions=positions,
            target_edges=target_edges,
            check=self.check,
        )

    def _check_no_classes(self) -> None:
        """Raises if an option for classes was given; subclasses for structures call it when they are made."""
        check_no_classes(type(self).__name__, self.dim, self.weight, self.ignore_index, self.label_smoothing)

    def _held(self) -> dict[str, object]:
        """Returns what a subclass holds of its own, by name, for its repr."""
        return {}

    def extra_repr(self) -> str:
        return shown(
            **self._held(),
            reduction=self.reduction,
            dim=unless(self.dim, -1),
            weight=self.weight,
            ignore_index=unless(self.ignore_index, -100),
            label_smoothing=unless(self.label_smoothing, 0.0),
            check=unless(self.check, True),
        )


class FenchelYoungLoss(Loss):
    """The loss max_Ω(θ) + Ω(y) − <θ, y> of any smoothed maximum Ω.

    `smooth` is a regularizer (`Shannon()`, `SquaredNorm()`, `Scaled(Fused(0.1), 0.5)`, ...: one loss per row), or a
    structure with one (`Smoothed(Chain(), Shannon())`, `SparseMAP(Matching())`: one loss per item).

    Targets of rows (..., C): classes, an integer tensor (...), or distributions, a floating tensor (..., C). Targets of
    structures: integer labels (..., N), the tags of a chain, the heads of a tree or the columns of a matching; or the
    structure in the shape of the scores, from a constructor (`Chain.from_tags`, `ProjectiveTree.from_heads`, ...) or
    from `map`; marginals too, where they determine Ω (else give `target_edges`).

    - `reduction`: "mean", "sum" or "none"; the mean is Σ w L / Σ w over rows that are not ignored, and 0 over nothing;
    - `weight` (C,): weights w of the classes; a distribution has the expected weight;
    - `ignore_index`: this class costs nothing and counts for nothing;
    - `label_smoothing` ε: classes become (1 − ε) e_y + ε u, with u uniform on the classes that are not −inf, and
      distributions (1 − ε) y + ε u;
    - `dim`: the axis of the classes; 1 for PyTorch's layout (N, C, d1, ...);
    - `check`: whether gold structures are checked; one that is infeasible raises.

    The last five are the `options`; their defaults are dim=-1, weight=None, ignore_index=-100, label_smoothing=0.0 and
    check=True.

    A class of score −inf (or masked) is out of its row; a target there costs +inf, and its gradient is still
    argmax_Ω(θ) − y. Losses are never negative.

    >>> loss = FenchelYoungLoss(Shannon())
    >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
    tensor(0.2201)
    """

    def __init__(
        self,
        smooth: SmoothMax,
        reduction: str = "mean",
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(reduction=reduction, **options)
        if not isinstance(smooth, SmoothMax):
            raise TypeError(
                f"FenchelYoungLoss: smooth must be a SmoothMax, got {kind_of(smooth)}; "
                f"{instead_of(smooth, 'SquaredNorm() or Smoothed(Chain(), Shannon())')}"
            )
        self._smooth = smooth
        if structure_of(smooth) is not None:
            self._check_no_classes()

    def smooth(self, scores: Any) -> SmoothMax:
        return self._smooth

    def _held(self) -> dict[str, object]:
        return {"smooth": self._smooth}
