"""Losses on rows of class scores, one per operator: each is zero where its operator gives the target.

    SoftmaxLoss       Shannon          cross-entropy, the logistic loss
    SparsemaxLoss     SquaredNorm      Martins & Astudillo, ICML 2016
    EntmaxLoss        Tsallis(α)       Peters, Niculae & Martins, ACL 2019; α = 1.5 is Entmax15Loss
    SqPNormMaxLoss    SquaredPNorm(p)  Niculae & Blondel, NIPS 2017, as the rest
    NormmaxLoss       NormEntropy(α)   Blondel, Martins & Niculae, JMLR 2020
    FusedmaxLoss      Fused            neighbouring classes share weight: ordinal and spatial labels
    OscarmaxLoss      Oscar            classes in clusters, wherever they are
    GroupmaxLoss      GroupLasso       classes in given groups

For the last three Ω(y) > 0 at a corner: the operator gives weight one to a class only by a larger margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from omegamax import checks
from omegamax.groups import check_groups
from omegamax.losses.fenchel_young import Loss
from omegamax.module_repr import unless
from omegamax.operator_table import ENTMAX15
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.norm_entropy import NormEntropy
from omegamax.operators.oscar import Oscar
from omegamax.operators.regularizer import KernelRegularizer
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.standard_form import with_dim_last
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax

Learnable = float | Tensor | nn.Module  # a module, such as `Above`, is called for the current value


class RowLoss(Loss):
    """A loss on rows with a temperature. All arguments but `gamma` are those of `FenchelYoungLoss`.

    A subclass names the class of Ω and takes its parameter.
    """

    regularizer_class: ClassVar[type[KernelRegularizer]]

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

    def _hold_parameter(self, value: Learnable | None) -> None:
        """Checks the parameter of Ω and keeps it under its name."""
        parameter = self.regularizer_class.facts.parameter
        assert parameter is not None
        if not (isinstance(value, nn.Module) and parameter.may_be_tensor):
            checks.check_parameter(type(self).__name__, parameter, value)
        setattr(self, parameter.name, value)

    def _held(self) -> dict[str, object]:
        """Returns the parameters of Ω, and the temperature."""
        parameter = self.regularizer_class.facts.parameter
        names = ("groups", *(() if parameter is None else (parameter.name,)))
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {**own, "gamma": unless(self.gamma, 1)}

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω with the current value of its parameter, which training may have changed since it was checked."""
        parameter = self.regularizer_class.facts.parameter
        value = None if parameter is None else self._current(getattr(self, parameter.name), scores)
        return self.regularizer_class.for_caller(type(self).__name__, value)

    def smooth(self, scores: Any) -> SmoothMax:
        """Returns Ω with its temperature."""
        omega, gamma = self.regularizer(scores), self._current(self.gamma, scores)
        return omega if isinstance(gamma, (int, float)) and gamma == 1 else Scaled(omega, gamma)

    def _current(self, parameter: Learnable | None, scores: Tensor) -> Any:
        return with_dim_last(parameter() if isinstance(parameter, nn.Module) else parameter, scores, self.dim)


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

    regularizer_class = Shannon


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

    regularizer_class = SquaredNorm


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

    regularizer_class = Tsallis

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω of its order."""
        return Tsallis(ENTMAX15.fixed)


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

    regularizer_class = Tsallis

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
        self._hold_parameter(alpha)


class SqPNormMaxLoss(RowLoss):
    """The loss of sq-pnorm-max.

    Arguments:
        p: of the norm, 1 < p ≤ 2
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    regularizer_class = SquaredPNorm

    def __init__(self, p: float = 1.5, **options: Any) -> None:
        super().__init__(**options)
        self._hold_parameter(p)


class NormmaxLoss(RowLoss):
    """The loss of normmax, zero once the target leads by 1; `alpha` as in `EntmaxLoss` may learn.

    Arguments:
        alpha: the order of the norm, above 1
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    regularizer_class = NormEntropy

    def __init__(self, alpha: Learnable = 2.0, **options: Any) -> None:
        super().__init__(**options)
        self._hold_parameter(alpha)


class FusedmaxLoss(RowLoss):
    """The loss of fusedmax; `strength` as in `EntmaxLoss` may learn.

    Arguments:
        strength: of the penalty on differences between neighbours
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    regularizer_class = Fused

    def __init__(self, strength: Learnable = 0.1, **options: Any) -> None:
        super().__init__(**options)
        self._hold_parameter(strength)


class OscarmaxLoss(RowLoss):
    """The loss of oscarmax; `strength` as in `EntmaxLoss` may learn.

    Arguments:
        strength: of the penalty on pairs; None is min(0.01, 1/d) for d classes
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    regularizer_class = Oscar

    def __init__(self, strength: Learnable | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._hold_parameter(strength)


class GroupmaxLoss(RowLoss):
    """The loss of groupmax, for classes that always have the same groups.

    Arguments:
        groups: the group number of each class, or the classes of each group
        strength: of the penalty on groups
        options: `gamma`, `reduction`, `dim`, `weight`, `ignore_index` and `label_smoothing`, as in `SoftmaxLoss`
    """

    regularizer_class = GroupLasso

    def __init__(
        self,
        groups: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        strength: Learnable = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.groups = check_groups("GroupmaxLoss", groups)
        self._hold_parameter(strength)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω of these groups with the current strength."""
        return GroupLasso.for_caller("GroupmaxLoss", self._current(self.strength, scores), self.groups)
