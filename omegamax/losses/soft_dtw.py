"""Soft-DTW as a loss between time series.

SoftDTWLoss             soft_dtw(x, y)                                          may be negative (Cuturi & Blondel, 2017)
SoftDTWDivergenceLoss   soft_dtw(x, y) − ½ soft_dtw(x, x) − ½ soft_dtw(y, y)    zero at x = y (Blondel et al., 2021)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from omegamax.losses.reduction import check_reduction, reduced
from omegamax.module_repr import shown, unless
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.bands import Band
from omegamax.structures.smoothing import smoothing_of
from omegamax.structures.soft_dtw import Distance, soft_dtw, soft_dtw_divergence, squared_euclidean


class SoftDTWLoss(nn.Module):
    """The smoothed cost of warping one series onto another; the arguments are those of `soft_dtw`.

    Arguments:
        gamma: the temperature
        reduction: "mean", "sum" or "none"
        distance: costs of cells from (..., M, 1, D) and (..., 1, N, D)
        regularizer: Ω of the recursion; None is Shannon
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    Called with series (..., M, D) and (..., N, D).

    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> SoftDTWLoss(gamma=0.1)(x, 2 * x)
    tensor(4.8901)
    """

    def __init__(
        self,
        gamma: float | Tensor = 1.0,
        reduction: str = "mean",
        *,
        distance: Distance = squared_euclidean,
        regularizer: SmoothMax | None = None,
        band: Band | None = None,
    ) -> None:
        super().__init__()
        check_reduction("SoftDTWLoss", reduction)
        if regularizer is not None:
            smoothing_of("SoftDTWLoss", regularizer)
        self.gamma, self.reduction, self.distance, self.band = gamma, reduction, distance, band
        self.regularizer = Shannon() if regularizer is None else regularizer

    def forward(self, x: Tensor, y: Tensor, *, lengths: Any = None) -> Tensor:
        """Computes the cost of x (..., M, D) against y (..., N, D); `lengths` is a pair of integer tensors (...)."""
        options: dict[str, Any] = {"distance": self.distance, "regularizer": self.regularizer, "band": self.band}
        return reduced(soft_dtw(x, y, self.gamma, lengths=lengths, **options), self.reduction)

    def extra_repr(self) -> str:
        distance = unless(getattr(self.distance, "__name__", "..."), "squared_euclidean")
        held = {"gamma": self.gamma, "reduction": self.reduction, "distance": distance, "band": self.band}
        return shown(**held, regularizer=self.regularizer)


class SoftDTWDivergenceLoss(nn.Module):
    """The divergence of soft-DTW: exactly zero when both series are the same; the arguments are those of `SoftDTWLoss`.

    Arguments:
        gamma: the temperature
        reduction: "mean", "sum" or "none"
        distance: costs of cells from (..., M, 1, D) and (..., 1, N, D)
        band: which cells a path may visit, such as `SakoeChiba(5)`; None allows all

    Called with series (..., M, D) and (..., N, D).

    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> SoftDTWDivergenceLoss()(x, x)
    tensor(0.)
    """

    def __init__(
        self,
        gamma: float | Tensor = 1.0,
        reduction: str = "mean",
        *,
        distance: Distance = squared_euclidean,
        band: Band | None = None,
    ) -> None:
        super().__init__()
        check_reduction("SoftDTWDivergenceLoss", reduction)
        self.gamma, self.reduction, self.distance, self.band = gamma, reduction, distance, band

    def forward(self, x: Tensor, y: Tensor, *, lengths: Any = None) -> Tensor:
        """Computes the divergence of x (..., M, D) and y (..., N, D); `lengths` is a pair of integer tensors (...)."""
        found = soft_dtw_divergence(x, y, self.gamma, distance=self.distance, lengths=lengths, band=self.band)
        return reduced(found, self.reduction)

    def extra_repr(self) -> str:
        distance = unless(getattr(self.distance, "__name__", "..."), "squared_euclidean")
        return shown(gamma=self.gamma, reduction=self.reduction, distance=distance, band=self.band)
