"""Soft-DTW layers of other packages: tslearn's `SoftDTWLossPyTorch` and `SoftDTW` of pytorch-softdtw-cuda.

What differs from both packages:

- The gradient can be differentiated again; theirs is a constant for autograd, so a gradient penalty raises or is zero.
- Everything runs where the tensors are, in their own type; theirs compute on the host, and round to float32 on the way.
- `normalize` takes series of unequal lengths; the package with CUDA concatenates both, and raises.
- What is infeasible (a band that no path stays in) costs +inf and has no gradient.
- The matrix that `dist_func` returns is not written to; tslearn puts inf into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from omegamax.structures.bands import Band, Itakura, SakoeChiba
from omegamax.structures.soft_dtw import soft_dtw, soft_dtw_from_costs

DistanceMatrix = Callable[[Tensor, Tensor], Tensor]  # (b, m, d), (b, n, d) -> (b, m, n)


class _SoftDTWLayer(nn.Module):
    """What both layers share: series (b, m, d) and (b, n, d) in, (b,) out."""

    def __init__(self, gamma: float | Tensor, normalize: bool, dist_func: DistanceMatrix | None) -> None:
        super().__init__()
        self.gamma, self.normalize, self.dist_func = gamma, normalize, dist_func

    def constraint(self, m: int, n: int) -> Band | Tensor | None:
        """Returns what restricts paths in an (`m`, `n`) grid: a band, a boolean mask (m, n), or None."""
        raise NotImplementedError

    def _compare(self, x: Tensor, y: Tensor) -> Tensor:
        who = type(self).__name__
        for name, series in (("x", x), ("y", y)):
            if not isinstance(series, Tensor) or series.dim() != 3:
                given = tuple(series.shape) if isinstance(series, Tensor) else type(series).__name__
                raise ValueError(f"{who}: {name} must be a Tensor (batch, length, features), got {given}; add axes")
        if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[2]:
            raise ValueError(
                f"{who}: x and y must have equal numbers of items and features, got {tuple(x.shape)} and "
                f"{tuple(y.shape)}; only the lengths may differ"
            )
        wide = torch.promote_types(x.dtype, y.dtype)
        x, y = x.to(wide), y.to(wide)
        value = self._value(x, y)
        return value - (self._value(x, x) + self._value(y, y)) / 2 if self.normalize else value

    def _value(self, x: Tensor, y: Tensor) -> Tensor:
        allowed = self.constraint(x.shape[1], y.shape[1])
        if self.dist_func is None and not isinstance(allowed, Tensor):
            return soft_dtw(x, y, self.gamma, band=allowed)
        if self.dist_func is None:
            costs = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(-1)
        else:
            costs = self.dist_func(x, y)
        if isinstance(allowed, Tensor):
            costs = torch.where(allowed.to(costs.device), costs, torch.inf)
            return soft_dtw_from_costs(costs, self.gamma)
        return soft_dtw_from_costs(costs, self.gamma, band=allowed)


def _offsets(m: int, n: int) -> Tensor:
    """Returns j − i for every cell (m, n)."""
    return torch.arange(n) - torch.arange(m).unsqueeze(-1)


class SoftDTWLossPyTorch(_SoftDTWLayer):
    """The loss of tslearn: soft-DTW of each pair of series, or its divergence.

    Arguments:
        gamma: the temperature, positive
        normalize: whether to subtract the mean of each series' soft-DTW with itself
        dist_func: gives costs (b, m, n) of series (b, m, d) and (b, n, d); None is the squared Euclidean distance
        global_constraint: "sakoe_chiba", "itakura" or None, which follows the next two
        sakoe_chiba_radius: how far from the diagonals through both corners a path may go; 1 if only the name is given
        itakura_max_slope: the largest slope; 2 if only the name is given

    The parallelogram of Itakura ends in both corners for all lengths. The one of tslearn may miss a corner where the
    lengths differ, and then raises.

    >>> from omegamax.compat.softdtw import SoftDTWLossPyTorch
    >>> x = torch.zeros(4, 3, 2)
    >>> SoftDTWLossPyTorch(gamma=0.1)(x, torch.arange(24).reshape(4, 3, 2)).mean()
    tensor(1081.)
    """

    def __init__(
        self,
        gamma: float | Tensor = 1.0,
        normalize: bool = False,
        dist_func: DistanceMatrix | None = None,
        global_constraint: str | None = None,
        sakoe_chiba_radius: int | None = None,
        itakura_max_slope: float | None = None,
    ) -> None:
        super().__init__(gamma, normalize, dist_func)
        if global_constraint not in (None, "", "sakoe_chiba", "itakura"):
            raise ValueError(
                "SoftDTWLossPyTorch: global_constraint must be 'sakoe_chiba', 'itakura' or None, got "
                f"{global_constraint!r}; None allows all paths"
            )
        if not global_constraint and sakoe_chiba_radius is not None and itakura_max_slope is not None:
            raise ValueError(
                "SoftDTWLossPyTorch: give one of sakoe_chiba_radius and itakura_max_slope, got both; "
                "global_constraint='sakoe_chiba' or 'itakura' chooses"
            )
        self.global_constraint = global_constraint
        self.sakoe_chiba_radius, self.itakura_max_slope = sakoe_chiba_radius, itakura_max_slope

    def constraint(self, m: int, n: int) -> Band | Tensor | None:
        """Returns the band of an (`m`, `n`) grid."""
        name = self.global_constraint
        if name == "sakoe_chiba" or (not name and self.sakoe_chiba_radius is not None):
            radius = 1 if self.sakoe_chiba_radius is None else self.sakoe_chiba_radius
            if m == n:
                return SakoeChiba(radius)
            offsets = _offsets(m, n)
            return (offsets >= min(0, n - m) - radius) & (offsets <= max(0, n - m) + radius)
        if name == "itakura" or (not name and self.itakura_max_slope is not None):
            return Itakura(2.0 if self.itakura_max_slope is None else float(self.itakura_max_slope))
        return None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes one number per pair, (b,), of series `x` (b, m, d) and `y` (b, n, d)."""
        return self._compare(x, y)


class SoftDTW(_SoftDTWLayer):
    """The class of pytorch-softdtw-cuda; tensors on a GPU are computed through the host.

    Arguments:
        use_cuda: accepted and not needed: the result is on the device of the series
        gamma: the temperature, positive
        normalize: whether to subtract the mean of each series' soft-DTW with itself
        bandwidth: paths stay in |i − j| ≤ bandwidth; None and 0 allow all
        dist_func: gives costs (b, m, n) of series (b, m, d) and (b, n, d); None is the squared Euclidean distance

    >>> from omegamax.compat.softdtw import SoftDTW
    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> SoftDTW(use_cuda=False, gamma=0.5, normalize=True)(x, x)
    tensor([0.])
    """

    def __init__(
        self,
        use_cuda: Any = False,
        gamma: float | Tensor = 1.0,
        normalize: bool = False,
        bandwidth: float | None = None,
        dist_func: DistanceMatrix | None = None,
    ) -> None:
        super().__init__(gamma, normalize, dist_func)
        self.use_cuda, self.bandwidth = use_cuda, 0.0 if bandwidth is None else float(bandwidth)

    def constraint(self, m: int, n: int) -> Band | Tensor | None:
        """Returns the band of an (`m`, `n`) grid."""
        if self.bandwidth <= 0:
            return None
        if m == n:
            return SakoeChiba(int(min(self.bandwidth, max(m, 1))))
        return _offsets(m, n).abs() <= self.bandwidth

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        """Computes one number per pair, (b,), of series `X` (b, m, d) and `Y` (b, n, d)."""
        return self._compare(X, Y)
