"""The squared norm with a group lasso over groups that the user gives: groupmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax import routing
from omegamax.groups import check_group_count, check_groups
from omegamax.kernels.groupmax import groupmax, groupmax_product
from omegamax.operator_table import GROUPMAX
from omegamax.operators.regularizer import KernelRegularizer, Slope, total


@dataclass(frozen=True, eq=False)
class GroupLasso(KernelRegularizer):
    """Ω(p) = ½(‖p‖² − 1) + strength · Σ_g ‖p_g‖₂ over groups that partition the row.

    Its argmax selects or drops whole groups. `groups` gives the group number of every position, or lists the positions
    of every group. The solution is exact: with the simplex's multiplier τ, p_g = u_g (1 − strength / ‖u_g‖)₊ for
    u = (θ − τ)₊, so τ is the only unknown. (Projecting the group prox onto the simplex is not exact.) Yuan & Lin, 2006.

    Arguments:
        groups: the group number of each position, or the positions of each group
        strength: of the penalty, non-negative; a tensor may learn
    """

    facts = GROUPMAX
    solver = groupmax
    groups: Sequence[int] | Sequence[Sequence[int]] | Tensor
    strength: float | Tensor = GROUPMAX.default

    def __post_init__(self) -> None:
        self._check_and_hold("GroupLasso", self.strength)
        self.hold("groups", check_groups("GroupLasso", self.groups))

    @classmethod
    def for_caller(cls, who: str, value: Any = None, groups: Any = ()) -> GroupLasso:
        """Makes the leaf with this strength and these groups, checked once; `who` is the caller that an error names."""
        leaf = super().for_caller(who, value)
        leaf.hold("groups", check_groups(who, groups))
        return leaf

    def spec(self) -> tuple[str, list[float]]:
        """Returns the strength, if it is a number, then the group of every position."""
        strength = [] if isinstance(self.strength, Tensor) else [float(self.strength)]
        return "GroupLasso", strength + [float(g) for g in self.groups]  # type: ignore[arg-type]

    @classmethod
    def from_spec(cls, numbers: list[float], parameter: Tensor | None) -> GroupLasso:
        """Makes the leaf that `spec` described."""
        leaf = object.__new__(cls)
        leaf.hold("strength", numbers[0] if parameter is None else parameter)
        leaf.hold("groups", tuple(int(group) for group in (numbers[1:] if parameter is None else numbers)))
        return leaf

    def hold(self, field: str, value: Any) -> None:
        """Sets a field; the groups are a tensor for the solver, so its arguments are never only numbers."""
        object.__setattr__(self, field, value)

    def arguments(self, scores: Tensor) -> tuple[Any, ...]:
        """Returns the group of every position, and the strength."""
        check_group_count("GroupLasso", self.groups, scores.shape[-1])  # type: ignore[arg-type]
        return self._labels(scores), self.strength

    def omega(self, weights: Tensor) -> Tensor:
        """½(‖p‖² − 1) + strength · Σ_g ‖p_g‖."""
        norms = self._norms(weights)
        return (0.5 * (total(weights.square()) - 1) + self.strength * total(norms)).squeeze(-1)

    def hessian_product(self, certificate: tuple[Tensor, ...], direction: Tensor) -> Tensor:
        """Multiplies by a multiple of the identity plus rank one in each group, on directions of sum zero."""
        return groupmax_product(certificate[0], self._labels(direction), self.strength, direction)

    def slopes(self, certificate: tuple[Tensor, ...]) -> tuple[Slope, ...]:
        """Σ_g ‖p_g‖ and p_g / ‖p_g‖."""
        (weights,) = certificate
        norms = self._norms(weights)
        own = norms.gather(-1, self._labels(weights).expand(weights.shape))
        return (Slope(total(norms), weights / torch.where(own > 0, own, 1)),)

    def _labels(self, like: Tensor) -> Tensor:
        return labels_of(self, like)

    def _norms(self, weights: Tensor) -> Tensor:
        """‖p_g‖ per group, with a zero gradient (not NaN) at zero."""
        squares = weights.new_zeros((*weights.shape[:-1], max(self.groups, default=-1) + 1))  # type: ignore[type-var]
        squares = squares.scatter_add(-1, self._labels(weights).expand(weights.shape), weights.square())
        positive = squares > 0
        return torch.where(positive, torch.where(positive, squares, 1).sqrt(), 0)

    def check_fit(self, scores: Tensor) -> None:
        """Checks that every position of the row has a group."""
        check_group_count("GroupLasso", self.groups, scores.shape[-1])  # type: ignore[arg-type]
        super().check_fit(scores)


def labels_of(leaf: Any, like: Tensor) -> Tensor:
    """Returns the groups of a leaf as a tensor on the device of `like`; it is made once."""
    labels = leaf.__dict__.get("_labels_made")
    if labels is None or labels.device != like.device:
        labels = _labels_beside(like, leaf.groups)
        if routing.is_concrete(labels):  # not one that belongs to a trace
            object.__setattr__(leaf, "_labels_made", labels)
    return labels


_LABELS: dict[tuple[torch.device, tuple[int, ...]], Tensor] = {}  # of leaves that are built anew for every call
_MAX_LABELS = 64


def _labels_beside(like: Tensor, groups: tuple[int, ...]) -> Tensor:
    if routing.is_compiling() or not routing.is_concrete(like):
        return torch.tensor(groups, dtype=torch.int64, device=like.device)
    labels = _LABELS.get((like.device, groups))
    if labels is None:
        with torch.inference_mode(False):  # a later call may save them for its derivative
            labels = torch.tensor(groups, dtype=torch.int64, device=like.device)
        if len(_LABELS) >= _MAX_LABELS:
            _LABELS.clear()
        _LABELS[like.device, groups] = labels
    return labels
