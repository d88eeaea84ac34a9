"""The operators as modules: what a network holds. Modules own Parameters and build the leaf in `forward`."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.functional import _oriented, weights_along
from omegamax.groups import check_groups
from omegamax.module_repr import shown
from omegamax.operators.fused import Fused
from omegamax.operators.group_lasso import GroupLasso
from omegamax.operators.hard import Hard
from omegamax.operators.oscar import Oscar
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm
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
        """The number."""
        return self.bound + nn.functional.softplus(self.raw)

    def extra_repr(self) -> str:
        """The bound and the shape."""
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
        """Ω with the current values of its parameters."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights with the shape of scores; True in mask marks what may receive weight."""
        smooth = self.regularizer(scores)
        return weights_along(type(self).__name__, smooth, scores, self.dim, _current(self.gamma), mask)

    def extra_repr(self) -> str:
        """The axis and the hyper-parameters; of a tensor its shape. An `Above` is a module and shows itself."""
        names = inspect.signature(type(self).__init__).parameters
        held = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return shown(**held)


def _current(parameter: float | Tensor | Above) -> float | Tensor:
    return parameter() if isinstance(parameter, Above) else parameter


class Hardmax(ArgmaxModule):
    """`hardmax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature; without effect
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Hard."""
        return Hard()


class Softmax(ArgmaxModule):
    """`softmax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Shannon."""
        return Shannon()


class Sparsemax(ArgmaxModule):
    """`sparsemax` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """SquaredNorm."""
        return SquaredNorm()


class Entmax15(ArgmaxModule):
    """`entmax15` as a layer.

    Arguments:
        dim: the axis of the rows
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Tsallis(1.5)."""
        return Tsallis(1.5)


class Entmax(ArgmaxModule):
    """`entmax` as a layer; `alpha=Above(1.0, start=1.5, shape=(heads, 1, 1))` learns one order per head.

    Arguments:
        dim: the axis of the rows
        alpha: the order, from 1: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    alpha: float | Tensor | Above

    def __init__(
        self, dim: int = -1, *, alpha: float | Tensor | Above = 1.5, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        if not isinstance(alpha, Above):
            checks.check_alpha("Entmax", alpha)
        self._hold("alpha", alpha)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Tsallis."""
        return Tsallis(_oriented(_current(self.alpha), scores, self.dim))


class SqPNormMax(ArgmaxModule):
    """`sqpnormmax` as a layer.

    Arguments:
        dim: the axis of the rows
        p: of the norm, 1 < p ≤ 2
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    def __init__(self, dim: int = -1, *, p: float = 1.5, gamma: float | Tensor | Above = 1.0) -> None:
        super().__init__(dim, gamma=gamma)
        checks.check_p("SqPNormMax", p)
        self.p = p

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """SquaredPNorm."""
        return SquaredPNorm(self.p)


class Fusedmax(ArgmaxModule):
    """`fusedmax` as a layer; `strength=Above(0.0, start=0.1)` learns it.

    Arguments:
        dim: the axis of the rows
        strength: of the penalty: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    strength: float | Tensor | Above

    def __init__(
        self, dim: int = -1, *, strength: float | Tensor | Above = 0.1, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        if not isinstance(strength, Above):
            checks.check_strength("Fusedmax", strength)
        self._hold("strength", strength)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Fused."""
        return Fused(_oriented(_current(self.strength), scores, self.dim))


class Oscarmax(ArgmaxModule):
    """`oscarmax` as a layer; `strength=Above(0.0, start=0.01)` learns it.

    Arguments:
        dim: the axis of the rows
        strength: of the penalty: a number, a tensor, an `Above` that learns, or None: min(0.01, 1/d) for d positions
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

    strength: float | Tensor | Above | None

    def __init__(
        self, dim: int = -1, *, strength: float | Tensor | Above | None = None, gamma: float | Tensor | Above = 1.0
    ) -> None:
        super().__init__(dim, gamma=gamma)
        if not isinstance(strength, Above):
            checks.check_default_strength("Oscarmax", strength)
        self._hold("strength", strength)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """Oscar."""
        strength = None if self.strength is None else _current(self.strength)
        return Oscar(_oriented(strength, scores, self.dim))


class Groupmax(ArgmaxModule):
    """`groupmax` as a layer, for rows that always have the same groups.

    Arguments:
        dim: the axis of the rows
        groups: the group number of each position, or the positions of each group
        strength: of the penalty: a number, a tensor, or an `Above` that learns
        gamma: the temperature: a number, a tensor, or an `Above` that learns
    """

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
        if not isinstance(strength, Above):
            checks.check_strength("Groupmax", strength)
        self.groups = check_groups("Groupmax", groups)
        self._hold("strength", strength)

    def regularizer(self, scores: Tensor) -> SmoothMax:
        """GroupLasso."""
        return GroupLasso(self.groups, _oriented(_current(self.strength), scores, self.dim))
