"""Losses on rows of class scores, one per operator: each is zero where its operator gives the target.

    SoftmaxLoss       Shannon          cross-entropy, the logistic loss
    SparsemaxLoss     SquaredNorm      Martins & Astudillo, ICML 2016
    EntmaxLoss        Tsallis(α)       Peters, Niculae & Martins, ACL 2019; α = 1.5 is Entmax15Loss
    SqPNormMaxLoss    SquaredPNorm(p)  Niculae & Blondel, NIPS 2017, as the rest
    FusedmaxLoss      Fused            neighbouring classes share weight: ordinal and spatial labels
    OscarmaxLoss      Oscar            classes in clusters, wherever they are
    GroupmaxLoss      GroupLasso       classes in given groups

A target of these last three has Ω(y) > 0 at a corner: such a corner is given weight one only by a larger margin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from omegamax import checks
from omegamax.functional import _oriented
from omegamax.groups import check_groups
from omegamax.losses.fenchel_young import Loss
from omegamax.module_repr import unless
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.oscar import Oscar
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax

Learnable = float | Tensor | nn.Module  # a module, such as `Above`, is called for the current value


class RowLoss(Loss, ABC):
    """A loss on rows with a temperature. All arguments but `gamma` are those of `FenchelYoungLoss`."""

    def __init__(
        self,
        *,
        gamma: Learnable = 1.0,
        reduction: str = "mean",
        dim: int = -1,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            reduction=reduction, dim=dim, weight=weight, ignore_index=ignore_index, label_smoothing=label_smoothing
        )
        if not isinstance(gamma, nn.Module):
            checks.check_gamma(type(self).__name__, gamma)
        self.gamma = gamma

    def _held(self) -> dict[str, object]:
        """The parameters of Ω, and the temperature."""
        own = {name: getattr(self, name) for name in ("alpha", "p", "groups", "strength") if hasattr(self, name)}
        return {**own, "gamma": unless(self.gamma, 1)}

    @abstractmethod
    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Ω with the current values of its parameters."""

    def smooth(self, scores: Any) -> SmoothMax:
        """Ω at its temperature."""
        omega, gamma = self.regularizer(scores), self._current(self.gamma, scores)
        return omega if isinstance(gamma, (int, float)) and gamma == 1 else Scaled(omega, gamma)

    def _current(self, parameter: Learnable, scores: Tensor) -> Any:
        return _oriented(parameter() if isinstance(parameter, nn.Module) else parameter, scores, self.dim)


class SoftmaxLoss(RowLoss):
    """Cross-entropy: the loss of softmax; for soft targets minus their entropy, so that its least value is zero.

    Arguments:
        gamma: the temperature: a number, a tensor or a module that returns one
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        label_smoothing: the share of the target that is spread over all classes

    Called with scores (..., C) and classes (...) or distributions (..., C).

    >>> scores, target = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    >>> SoftmaxLoss()(scores, target), torch.nn.functional.cross_entropy(scores, target)
    (tensor(0.4076), tensor(0.4076))
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Shannon."""
        return Shannon()


class SparsemaxLoss(RowLoss):
    """The loss of sparsemax: zero once the target leads by a margin of 1.

    Arguments:
        gamma: the temperature: a number, a tensor or a module that returns one
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        label_smoothing: the share of the target that is spread over all classes

    Called with scores (..., C) and classes (...) or distributions (..., C).

    >>> SparsemaxLoss()(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """SquaredNorm."""
        return SquaredNorm()


class Entmax15Loss(RowLoss):
    """The loss of 1.5-entmax: zero once the target leads by a margin of 2.

    Arguments:
        gamma: the temperature: a number, a tensor or a module that returns one
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        label_smoothing: the share of the target that is spread over all classes

    Called with scores (..., C) and classes (...) or distributions (..., C).
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Tsallis(1.5)."""
        return Tsallis(1.5)


class EntmaxLoss(RowLoss):
    """The loss of α-entmax, zero once the target leads by 1/(α − 1).

    `alpha` is a number, a tensor that broadcasts against the scores with size 1 along the classes, or a module that
    returns one, such as `Above(1.0, start=1.5)`: then α learns.

    Arguments:
        alpha: the order, from 1
        gamma: the temperature: a number, a tensor or a module that returns one
        reduction: "mean", "sum" or "none"
        dim: the axis of the classes; 1 for PyTorch's layout (N, C, ...)
        weight: weights (C,) of the classes
        ignore_index: the class that costs nothing and counts for nothing
        label_smoothing: the share of the target that is spread over all classes

    Called with scores (..., C) and classes (...) or distributions (..., C).
    """

    def __init__(
        self,
        alpha: Learnable = 1.5,
        *,
        gamma: Learnable = 1.0,
        reduction: str = "mean",
        dim: int = -1,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            gamma=gamma,
            reduction=reduction,
            dim=dim,
            weight=weight,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )
        if not isinstance(alpha, nn.Module):
            checks.check_alpha("EntmaxLoss", alpha)
        self.alpha = alpha

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Tsallis."""
        return Tsallis(self._current(self.alpha, scores))


class SqPNormMaxLoss(RowLoss):
    """The loss of sq-pnorm-max.

    Arguments:
        p: of the norm, 1 < p ≤ 2
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    def __init__(self, p: float = 1.5, **options: Any) -> None:
        super().__init__(**options)
        checks.check_p("SqPNormMaxLoss", p)
        self.p = p

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """SquaredPNorm."""
        return SquaredPNorm(self.p)


class FusedmaxLoss(RowLoss):
    """The loss of fusedmax; `strength` as in `EntmaxLoss` may learn.

    Arguments:
        strength: of the penalty on differences between neighbours
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    def __init__(self, strength: Learnable = 0.1, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(strength, nn.Module):
            checks.check_strength("FusedmaxLoss", strength)
        self.strength = strength

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Fused."""
        return Fused(self._current(self.strength, scores))


class OscarmaxLoss(RowLoss):
    """The loss of oscarmax; `strength` as in `EntmaxLoss` may learn.

    Arguments:
        strength: of the penalty on pairs; None is min(0.01, 1/d) for d classes
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    def __init__(self, strength: Learnable | None = None, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(strength, nn.Module):
            checks.check_default_strength("OscarmaxLoss", strength)
        self.strength = strength

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Oscar."""
        return Oscar(None if self.strength is None else self._current(self.strength, scores))


class GroupmaxLoss(RowLoss):
    """The loss of groupmax, for classes that always have the same groups.

    Arguments:
        groups: the group number of each class, or the classes of each group
        strength: of the penalty on groups
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    def __init__(
        self,
        groups: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        strength: Learnable = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not isinstance(strength, nn.Module):
            checks.check_strength("GroupmaxLoss", strength)
        self.groups = check_groups("GroupmaxLoss", groups)
        self.strength = strength

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """GroupLasso."""
        return GroupLasso(self.groups, self._current(self.strength, scores))
