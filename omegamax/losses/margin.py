"""Losses with a margin: the gold structure must lead by more, the more another one costs.

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

from omegamax import checks
from omegamax.losses.at_structure import structure_of
from omegamax.losses.fenchel_young import Loss
from omegamax.operators.hard import Hard
from omegamax.smoothmax import SmoothMax
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.structure import Structure

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
            kind = f"the class {smooth.__name__}" if isinstance(smooth, type) else type(smooth).__name__
            raise TypeError(f"{who}: smooth must be a SmoothMax or a Structure, got {kind}; use for example Hard()")
        if cost is not None and not isinstance(cost, Tensor) and not callable(cost):
            raise TypeError(
                f"{who}: cost must be a Tensor or a function of the target, got {type(cost).__name__}; leave it out "
                "for the Hamming cost"
            )
        self._smooth = smooth
        self.margin = margin
        self.cost: Any
        if isinstance(cost, Tensor):
            self.register_buffer("cost", cost)
        else:
            self.cost = cost
        if structure_of(smooth) is not None:
            self._check_no_classes()

    def smooth(self, scores: Any) -> SmoothMax:
        """The one given."""
        return self._smooth

    def forward(
        self, scores: Any, target: Any, *, mask: Any = None, lengths: Any = None, target_edges: Tensor | None = None
    ) -> Tensor:
        """The loss at scores plus costs."""
        structure = structure_of(self._smooth)
        if structure is None:
            scores = self._among_classes(scores, target)
        else:
            scores = _plus(type(self).__name__, scores, self._of_structures(structure, target), self.margin)
        return super().forward(scores, target, mask=mask, lengths=lengths, target_edges=target_edges)

    def _of_structures(self, structure: Structure, target: Any) -> Any:
        if self.cost is None:
            return structure.hamming(target)
        return self.cost if isinstance(self.cost, Tensor) else self.cost(target)

    def _among_classes(self, scores: Any, target: Any) -> Any:
        who = type(self).__name__
        checks.check_scores(who, scores)
        checks.check_dim(who, scores, self.dim)
        if not isinstance(target, Tensor):
            return scores  # whose check follows
        soft = target.is_floating_point()
        known = target if soft else torch.where(target == self.ignore_index, 0, target)
        rows = scores.movedim(self.dim, -1)
        if callable(self.cost):
            costs = self.cost(known)
        elif self.cost is not None:
            costs = _rows_of(who, self.cost, known.movedim(self.dim, -1) if soft else known, rows)
        elif soft:
            costs = 1 - known.movedim(self.dim, -1)
        elif tuple(known.shape) != tuple(rows.shape[:-1]) or (known.numel() and not _in_range(known, rows.shape[-1])):
            return scores  # whose check follows
        else:  # one less at the gold class is one more at all others
            at = known.to(device=rows.device, dtype=torch.long).unsqueeze(-1)
            less = torch.full_like(at, -1, dtype=rows.dtype) * self.margin
            return rows.scatter_add(-1, at, less).movedim(-1, self.dim)
        return (rows + self.margin * costs.to(rows)).movedim(-1, self.dim)


def _in_range(index: Tensor, n_classes: int) -> bool:
    return not checks.is_readable(index) or bool(((index >= 0) & (index < n_classes)).all())


def _rows_of(who: str, cost: Tensor, target: Tensor, rows: Tensor) -> Tensor:
    """The rows of a (C, C) cost that belong to classes, or their mean under distributions."""
    n_classes = rows.shape[-1]
    if tuple(cost.shape) != (n_classes, n_classes):
        raise ValueError(
            f"{who}: cost must have the shape ({n_classes}, {n_classes}), [gold, predicted], got {tuple(cost.shape)}; "
            "or give a function of the target"
        )
    return target.to(cost) @ cost if target.is_floating_point() else cost[target]


def _plus(who: str, scores: Any, costs: Any, margin: float) -> Any:
    """Scores with costs added to the first component, or to each one."""
    if isinstance(scores, Tensor):
        return scores + margin * costs.to(scores)
    added = (costs,) if isinstance(costs, Tensor) else tuple(costs)
    if len(added) > len(scores):
        raise ValueError(
            f"{who}: cost must have at most the {len(scores)} components of the scores, got {len(added)}; one Tensor "
            "belongs to the first"
        )
    found = [part + margin * cost.to(part) for part, cost in zip(scores, added)]
    return type(scores)(*found, *scores[len(found) :])
