"""`SoftDTWKernel`: series as rows of a kernel matrix, for support vector machines.

    K(x, y) = exp(−divergence(x, y) / bandwidth)

With bandwidth = γ this is the global alignment kernel of Cuturi, Vert, Birkenes & Matsui (2007), divided by the roots
of K(x, x) and K(y, y). It is positive definite if κ / (1 + κ) is, for the kernel κ = exp(−cost / γ) of single points:

- cost="divisible" has κ = g / (2 − g) with the Gaussian g = exp(−|a − b|² / γ), so κ / (1 + κ) = g / 2, and K is
  positive definite (Cuturi, "Fast global alignment kernels", 2011). This is proved for bandwidth = γ.
- cost="squared" has κ = g. Nothing is proved, and negative eigenvalues occur.

For long series and bandwidth = γ, K is close to the identity: every series is similar to itself alone. A larger
bandwidth repairs this and loses the proof. So `fit` measures the eigenvalues, and correction="clip" drops the negative
ones: with K = U Λ Uᵀ of the fitted series, every row k of similarities becomes k U 1[Λ > 0] Uᵀ, which changes nothing
where there are none (Chen et al., "Similarity-based classification", 2009).
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import torch
from sklearn.base import TransformerMixin
from torch import Tensor

from omegamax.kernels.pairwise import pairwise_squared
from omegamax.structures.soft_dtw import soft_dtw_from_costs
from omegamax.timeseries.estimator_input import SeriesEstimator, check_choice, check_positive
from omegamax.timeseries.matrix import cdist
from omegamax.timeseries.series import SeriesBatch

_COSTS = ("squared", "divisible")
_CORRECTIONS = ("clip", "none")
_CELLS = 1 << 22  # of all grids that are swept at once


class SoftDTWKernel(TransformerMixin, SeriesEstimator):
    """Similarities of series with those that were fitted, by soft-DTW; for `SVC(kernel="precomputed")`.

        K(x, y) = exp(−divergence(x, y) / bandwidth)

    The head of this module says when K is positive definite, and what `correction` does where it is not.

    Arguments:
        gamma: the temperature
        bandwidth: what divergences are divided by: a number, "gamma", or "median" for the median of the divergences
            between the fitted series
        cost: of two points: "squared", or "divisible" for |a − b|² + γ log(2 − exp(−|a − b|² / γ)), slower
        correction: "clip" drops negative eigenvalues, "none" keeps them

    After `fit`: `bandwidth_`, and `least_eigenvalue_` of the kernel of the fitted series before any correction.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> model = make_pipeline(SoftDTWKernel(), SVC(kernel="precomputed"))
    >>> model.fit([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]], ["up", "up", "down", "down"]).predict([[0.0, 3.0]])
    array(['up'], dtype='<U4')
    """

    def __init__(
        self, *, gamma: float = 1.0, bandwidth: Any = "median", cost: str = "squared", correction: str = "clip"
    ) -> None:
        self.gamma = gamma
        self.bandwidth = bandwidth
        self.cost = cost
        self.correction = correction

    def fit(self, X: Any, y: Any = None) -> SoftDTWKernel:
        """Remembers series `X` and measures their kernel; `y` is ignored."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Computes the kernel matrix (n, n) of series `X`; `y` is ignored."""
        return self._fit(X)

    def _fit(self, X: Any) -> np.ndarray:
        batch = self._series_to_fit(X)
        check_positive(self, gamma=self.gamma)
        check_choice(self, _COSTS, cost=self.cost)
        check_choice(self, _CORRECTIONS, correction=self.correction)
        self._batch = batch
        divergences = self._divergences(batch, None)
        self.bandwidth_ = self._bandwidth(divergences)
        kernel = np.exp(-divergences / self.bandwidth_)
        values, vectors = np.linalg.eigh(kernel)
        self.least_eigenvalue_ = float(values[0])
        self._projection = None
        if self.correction == "clip" and values[0] < 0:
            kept = vectors[:, values > 0]
            self._projection = kept @ kept.T
            kernel = kernel @ self._projection
            kernel = (kernel + kernel.T) / 2
        return kernel

    def transform(self, X: Any) -> np.ndarray:
        """Computes the similarities (n, fitted series) of series `X` with those that were fitted."""
        batch = self._series_to_predict(X)
        kernel = np.exp(-self._divergences(batch, self._batch) / self.bandwidth_)
        return kernel if self._projection is None else kernel @ self._projection

    def _bandwidth(self, divergences: np.ndarray) -> float:
        if self.bandwidth == "gamma":
            return float(self.gamma)
        if self.bandwidth == "median":
            apart = divergences[np.triu_indices(len(divergences), 1)]
            apart = apart[apart > 0]
            return float(np.median(apart)) if apart.size else 1.0
        if isinstance(self.bandwidth, bool) or not isinstance(self.bandwidth, numbers.Real):
            raise ValueError(
                f"SoftDTWKernel: bandwidth must be a positive number, 'median' or 'gamma', got {self.bandwidth!r}; "
                "'median' is the default"
            )
        check_positive(self, bandwidth=self.bandwidth)
        return float(self.bandwidth)

    def _divergences(self, x: SeriesBatch, y: SeriesBatch | None) -> np.ndarray:
        if self.cost == "squared":
            return np.asarray(cdist(x, y, distance="soft_dtw_divergence", gamma=float(self.gamma)))
        other = x if y is None else y
        both = self._divisible(x, other)
        found = both - 0.5 * (self._own(x)[:, None] + self._own(other))
        if y is None:
            found = (found + found.mT) / 2
            found.fill_diagonal_(0)
        return found.numpy()

    def _own(self, batch: SeriesBatch) -> Tensor:
        singles = (batch.select(slice(i, i + 1)) for i in range(len(batch)))
        return torch.cat([self._divisible(each, each)[0] for each in singles])

    def _divisible(self, x: SeriesBatch, y: SeriesBatch) -> Tensor:
        """Computes soft-DTW (n, p) with the cost |a − b|² + γ log(2 − exp(−|a − b|² / γ)), block by block."""
        gamma, found = float(self.gamma), x.values.new_empty(len(x), len(y))
        at_once = max(1, _CELLS // (x.values.shape[1] * y.values.shape[1]))
        for i in range(len(x)):
            for start in range(0, len(y), at_once):
                some = y.select(slice(start, start + at_once))
                one = x.values[i : i + 1, : x.lengths[i]].expand(len(some), -1, -1)
                squared = pairwise_squared(one.contiguous(), some.values.contiguous())
                costs = squared + gamma * torch.log1p(-torch.expm1(-squared / gamma))
                lengths = (x.lengths[i].expand(len(some)), some.lengths)
                found[i, start : start + at_once] = soft_dtw_from_costs(costs, gamma, lengths=lengths)
        return found
