"""Losses with a margin: the gold structure must lead another one by what that one costs.

    L(θ; y) = max_Ω(θ + c_y) + Ω(y) − <θ + c_y, y>

where <c_y, y'> is what y' costs when y is right, and nothing for y itself. It is the Fenchel–Young loss at scores to
which the costs are added, cost-augmented inference. Under Hard and the Hamming cost it is the structured hinge (Taskar,
Guestrin & Koller, 2003; Tsochantaridis et al., 2005), on classes the hinge of Crammer & Singer (2001); under Shannon
softmax-margin (Gimpel & Smith, 2010); under SparseMAP margin-SparseMAP (Niculae et al., 2018); the squared norm on the
simplex smooths the multiclass hinge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.losses.evaluation import widened
from omegamax.losses.fenchel_young import Loss
from omegamax.losses.structure_evaluation import is_labels, structure_of
from omegamax.losses.targets import check_distribution, read_index
from omegamax.operators.hard import Hard
from omegamax.smoothmax import SmoothMax
from omegamax.structures.labels import labelled_parts
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.structure import Structure
from omegamax.wrong_kinds import instead_of, kind_of

Cost = Tensor | Callable[[Any], Any]


class MarginLoss(Loss):
    """The loss of cost-augmented inference.

    `smooth` is a structure (then the maximum is hard), or any SmoothMax: `Hard()` for classes, `SquaredNorm()` for the
    smoothed hinge, `Smoothed(structure, Ω)`, `SparseMAP(structure)`.

    `cost` says what a wrong part costs. By default it is the Hamming cost: one for every part (class, tag, arc, span,
    cell) that the gold structure does not have. Otherwise:

    - classes: a tensor (C, C), [gold, predicted]; or a function of the target that returns costs (..., C);
    - structures: a tensor that broadcasts to the scores (to their first component, where there are several), the same
      for every target; or a function of the target that returns such a tensor, or one per component.

    `margin` multiplies the costs.

    Arguments:
        smooth: the structure or smoothed maximum
        cost: what wrong parts cost; None is Hamming's
        margin: what the costs are multiplied by
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        check: whether gold structures are checked; without, a forbidden one costs +inf

    >>> MarginLoss(Hard())(torch.tensor([[1.5, 1.0, 0.0]]), torch.tensor([0]))  # max(0, 1 + 1.0 − 1.5)
    tensor(0.5000)
    """

    def __init__(
        self,
        smooth: SmoothMax | Structure,
        cost: Cost | None = None,
        *,
        margin: float = 1.0,
        reduction: str = "mean",
        dim: int = -1,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        check: bool = True,
    ) -> None:
        super().__init__(reduction=reduction, dim=dim, weight=weight, ignore_index=ignore_index, check=check)
        who = type(self).__name__
        if isinstance(smooth, Structure):
            smooth = Smoothed(smooth, Hard())
        if not isinstance(smooth, SmoothMax):
            raise TypeError(
                f"{who}: smooth must be a SmoothMax or a Structure, got {kind_of(smooth)}; "
                f"{instead_of(smooth, 'om.Hard()')}"
            )
        if cost is not None and not isinstance(cost, Tensor) and not callable(cost):
            raise TypeError(
                f"{who}: cost must be a Tensor or a function of the target, got {type(cost).__name__}; leave it out "
                "for the Hamming cost"
            )
        checks.check_finite(who, "margin", margin, "it multiplies the costs")
        self._smooth = smooth
        self.margin = margin
        self.cost: Any
        if isinstance(cost, Tensor):
            self.register_buffer("cost", cost)
        else:
            self.cost = cost
        if structure_of(smooth) is not None:
            self._check_no_classes()

    def _held(self) -> dict[str, object]:
        return {"smooth": self._smooth, "margin": self.margin, "cost": self.cost}

    def smooth(self, scores: Any) -> SmoothMax:
        return self._smooth

    @routing.in_float32
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
        """Computes the loss at scores plus costs."""
        wide, dtype = widened(scores)  # a margin is less than the spacing of large numbers in half precision
        structure = structure_of(self._smooth)
        if structure is not None and is_labels(scores, target):
            problem = structure.bind(wide, lengths, positions=positions)
            target = problem.in_user_shape(labelled_parts(type(self).__name__, problem, target))
        augmented = self._among_classes(wide, target) if structure is None else self._among(structure, wide, target)
        options: dict[str, Any] = {"mask": mask, "lengths": lengths, "positions": positions}
        found = super().forward(augmented, target, **options, target_edges=target_edges)
        return found if dtype is None else found.to(dtype)

    def _among(self, structure: Structure, scores: Any, target: Any) -> Any:
        given = (target,) if isinstance(target, Tensor) else target
        parts = scores if isinstance(scores, tuple) else (scores,)
        tensors = isinstance(given, tuple) and all(isinstance(each, Tensor) for each in (*given, *parts))
        if not tensors or len(given) != len(parts) or (parts[0] is scores and given[0].shape != scores.shape):
            return scores  # the check of the target follows, and raises
        numbers = [each.to(parts[0]) for each in given]  # booleans and integers too
        known = numbers[0] if isinstance(scores, Tensor) else type(scores)(*numbers)
        costs = structure.hamming(known) if self.cost is None else self._given(known)
        return _plus(type(self).__name__, scores, costs, self.margin)

    def _among_classes(self, scores: Any, target: Any) -> Any:
        who = type(self).__name__
        checks.check_scores(who, scores)
        checks.check_dim(who, scores, self.dim)
        rows = scores.movedim(self.dim, -1)
        soft = isinstance(target, Tensor) and target.is_floating_point()
        if soft:
            known = check_distribution(who, target, rows, self.dim)
        else:
            known, _ = read_index(who, target, rows, self.ignore_index)
        if self.cost is None and not soft:  # subtracting one at the gold class equals adding one at all others
            at = known.unsqueeze(-1)
            less = torch.full_like(at, -1, dtype=rows.dtype) * self.margin
            return rows.scatter_add(-1, at, less).movedim(-1, self.dim)
        if self.cost is None:
            costs = 1 - known
        else:
            costs = _rows_of(who, self.cost, known, rows) if isinstance(self.cost, Tensor) else self.cost(known)
        return _plus(who, rows, costs, self.margin).movedim(-1, self.dim)

    def _given(self, target: Any) -> Any:
        return self.cost if isinstance(self.cost, Tensor) else self.cost(target)


def _rows_of(who: str, cost: Tensor, target: Tensor, rows: Tensor) -> Tensor:
    """Picks the rows of a (C, C) cost that belong to classes, or averages them under distributions."""
    n_classes = rows.shape[-1]
    if tuple(cost.shape) != (n_classes, n_classes):
        raise ValueError(
            f"{who}: cost must have the shape ({n_classes}, {n_classes}), [gold, predicted], got {tuple(cost.shape)}; "
            "or give a function of the target"
        )
    return target.to(cost) @ cost if target.is_floating_point() else cost[target]


def _plus(who: str, scores: Any, costs: Any, margin: float) -> Any:
    """Adds costs to the scores: to the first component, or to each one."""
    if isinstance(scores, Tensor):
        if not isinstance(costs, Tensor):
            raise TypeError(
                f"{who}: cost must give a Tensor, as the scores are, got {type(costs).__name__}; return one"
            )
        try:
            fits = torch.broadcast_shapes(costs.shape, scores.shape) == scores.shape
        except RuntimeError:
            fits = False
        if not fits:
            raise ValueError(
                f"{who}: cost must broadcast to the scores {tuple(scores.shape)}, got {tuple(costs.shape)}; one number "
                "per part or class"
            )
        return scores + margin * costs.to(scores)
    added = (costs,) if isinstance(costs, Tensor) else tuple(costs)
    if len(added) > len(scores):
        raise ValueError(
            f"{who}: cost must have at most the {len(scores)} components of the scores, got {len(added)}; one Tensor "
            "belongs to the first"
        )
    found = [part + margin * cost.to(part) for part, cost in zip(scores, added)]
    return type(scores)(*found, *scores[len(found) :])
