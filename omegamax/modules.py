"""The operators as layers of a network. A layer owns its Parameters and builds the leaf in `forward`."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.groups import check_groups
from omegamax.module_repr import shown
from omegamax.operator_table import ENTMAX15
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.hard import Hard
from omegamax.operators.norm_entropy import NormEntropy
from omegamax.operators.oscar import Oscar
from omegamax.operators.regularizer import KernelRegularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
from omegamax.operators.standard_form import argmax_along, operator_of, with_dim_last
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax


class Above(nn.Module):
    """A learnable number (or tensor) kept above a bound: bound + softplus(raw).

    Arguments:
        bound: what the number stays above
        start: its first value
        shape: of the tensor; () is one number

    Called without arguments it returns the current value.

    >>> Above(1.0, start=1.5)()
    tensor(1.5000, grad_fn=<AddBackward0>)
    """

    def __init__(self, bound: float, start: float, shape: Sequence[int] = ()) -> None:
        super().__init__()
        checks.check_above("Above", bound, start)
        self.bound = bound
        rise = float(start - bound)
        raw = rise + math.log(-math.expm1(-rise))  # the inverse of softplus, written so that nothing overflows
        self.raw = nn.Parameter(torch.full(tuple(shape), raw))

    def forward(self) -> Tensor:
        """Returns the current number."""
        return self.bound + nn.functional.softplus(self.raw)

    def extra_repr(self) -> str:
        """Shows the bound and the shape."""
        return f"bound={self.bound}, shape={tuple(self.raw.shape)}"


class ArgmaxModule(nn.Module, ABC):
    """argmax_Ω along `dim` as a layer: `scores` and a `mask` to weights of the same shape.

    `gamma` is a number, a tensor, or an `Above` that learns.
    """

    event_ndim: ClassVar[int] = 1
    rows_sum_to_one: ClassVar[bool] = True

    gamma: float | Tensor | Above

    def __init__(self, dim: int = -1, *, gamma: float | Tensor | Above = 1.0) -> None:
        super().__init__()
        if not isinstance(gamma, Above):
            checks.check_gamma(type(self).__name__, gamma)
        self.dim = dim
        self._hold("gamma", gamma)

    def _hold(self, name: str, value: object) -> None:
        """Keeps a hyper-parameter: a tensor that does not learn moves and is saved with the module."""
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            self.register_buffer(name, value)
        else:
            setattr(self, name, value)

    @abstractmethod
    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω with the current values of its parameters."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns weights with the shape of scores; True in mask marks what may receive weight."""
        smooth, gamma = self.regularizer(scores), self.gamma
        gamma = gamma() if isinstance(gamma, Above) else gamma
        return argmax_along(type(self).__name__, smooth, scores, self.dim, gamma, mask)

    def extra_repr(self) -> str:
        """Shows the axis and the hyper-parameters, tensors by their shape. PyTorch shows an `Above`, a submodule."""
        names = inspect.signature(type(self).__init__).parameters
        held = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return shown(**held)


class OperatorModule(ArgmaxModule):
    """The layer of an operator of the table. A subclass names the class of Ω and takes its parameter."""

    regularizer_class: ClassVar[type[KernelRegularizer]]
    _only_regularizer: ClassVar[KernelRegularizer | None] = None  # of an operator without a parameter

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.regularizer_class.facts.parameter is None:
            cls._only_regularizer = cls.regularizer_class()

    def _hold_parameter(self, value: float | Tensor | Above | None) -> None:
        """Checks the parameter of Ω and keeps it under its name."""
        parameter = self.regularizer_class.facts.parameter
        assert parameter is not None
        if not (isinstance(value, Above) and parameter.may_be_tensor):
            checks.check_parameter(type(self).__name__, parameter, value)
        self._hold(parameter.name, value)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω with the current value of its parameter, which training may have changed since it was checked."""
        if self._only_regularizer is not None:
            return self._only_regularizer
        regularizer = self.regularizer_class
        assert regularizer.facts.parameter is not None
        value = _current(getattr(self, regularizer.facts.parameter.name))
        return operator_of(type(self).__name__, regularizer, value, scores, self.dim)


def _current(parameter: Any) -> Any:
    return parameter() if isinstance(parameter, Above) else parameter


class Hardmax(OperatorModule):
    """`hardmax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature; without effect
    """

    regularizer_class = Hard


class Softmax(OperatorModule):
    """`softmax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = Shannon


class Sparsemax(OperatorModule):
    """`sparsemax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = SquaredNorm


class Entmax15(OperatorModule):
    """`entmax15` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = Tsallis

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω of its order."""
        return operator_of("Entmax15", Tsallis, ENTMAX15.fixed, scores, self.dim)


class Entmax(OperatorModule):
    """`entmax` as a layer; `alpha=Above(1.0, start=1.5, shape=(heads, 1, 1))` learns one order per head.

    Arguments:
        dim: the axis of the rows
        alpha: the order, from 1: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = Tsallis
    alpha: float | Tensor | Above

    def __init__(
        self, dim: int = -1, *, alpha: float | Tensor | Above = 1.5, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        self._hold_parameter(alpha)


class SqPNormMax(OperatorModule):
    """`sqpnormmax` as a layer.

    Arguments:
        dim: the axis of the rows
        p: of the norm, 1 < p ≤ 2
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = SquaredPNorm
    p: float

    def __init__(self, dim: int = -1, *, p: float = 1.5, gamma: float | Tensor | Above = 1.0) -> None:
        super().__init__(dim, gamma=gamma)
        self._hold_parameter(p)


class Normmax(OperatorModule):
    """`normmax` as a layer; `alpha=Above(1.0, start=2.0, shape=(heads, 1, 1))` learns one order per head.

    Arguments:
        dim: the axis of the rows
        alpha: the order of the norm, above 1: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = NormEntropy
    alpha: float | Tensor | Above

    def __init__(
        self, dim: int = -1, *, alpha: float | Tensor | Above = 2.0, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        self._hold_parameter(alpha)


class Fusedmax(OperatorModule):
    """`fusedmax` as a layer; `strength=Above(0.0, start=0.1)` learns it.

    Arguments:
        dim: the axis of the rows
        strength: of the penalty: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = Fused
    strength: float | Tensor | Above

    def __init__(
        self, dim: int = -1, *, strength: float | Tensor | Above = 0.1, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        self._hold_parameter(strength)


class Oscarmax(OperatorModule):
    """`oscarmax` as a layer; `strength=Above(0.0, start=0.01)` learns it.

    Arguments:
        dim: the axis of the rows
        strength: of the penalty: a number, a tensor, an `Above` that learns, or None: min(0.01, 1/d) for d positions
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = Oscar
    strength: float | Tensor | Above | None

    def __init__(
        self,
        dim: int = -1,
        *,
        strength: float | Tensor | Above | None = None,
        gamma: float | Tensor | Above = 1.0,
    ) -> None:
        super().__init__(dim, gamma=gamma)
        self._hold_parameter(strength)


class Groupmax(OperatorModule):
    """`groupmax` as a layer, for rows that always have the same groups.

    Arguments:
        dim: the axis of the rows
        groups: the group number of each position, or the positions of each group
        strength: of the penalty: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    regularizer_class = GroupLasso
    strength: float | Tensor | Above

    def __init__(
        self,
        dim: int = -1,
        *,
        groups: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        strength: float | Tensor | Above = 0.1,
        gamma: float | Tensor | Above = 1.0,
    ) -> None:
        super().__init__(dim, gamma=gamma)
        self.groups = check_groups("Groupmax", groups)
        self._hold_parameter(strength)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Returns Ω of these groups with the current strength."""
        strength = with_dim_last(_current(self.strength), scores, self.dim)
        return GroupLasso.for_caller("Groupmax", strength, self.groups)
