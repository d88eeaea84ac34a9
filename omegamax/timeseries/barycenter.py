"""`SoftDTWBarycenter`: the mean of series under smoothed dynamic time warping, as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_sample_weight

from omegamax import checks
from omegamax.kernels.structures.omega import Omega
from omegamax.timeseries.barycenter_search import BarycenterResult, search_barycenter, stretched_mean
from omegamax.timeseries.estimator_input import SeriesEstimator, check_choice, check_count, check_positive
from omegamax.timeseries.matrix import cdist
from omegamax.timeseries.series import SeriesBatch, as_one_series

# What the mean minimises: Ω of the recursion, and whether it is the divergence.
OBJECTIVES: dict[str, tuple[Omega, bool]] = {
    "soft_dtw": (Omega.SHANNON, False),
    "soft_dtw_divergence": (Omega.SHANNON, True),
    "sparse_dtw": (Omega.SQUARED_NORM, False),
}


class SoftDTWBarycenter(TransformerMixin, SeriesEstimator):
    """The mean of series under smoothed dynamic time warping.

        argmin_z  Σ_k w_k dtw_Ω(z, x_k)

    With the entropy, "soft_dtw", this is the mean of Cuturi & Blondel (2017); with the squared norm its expected
    alignments are sparse (Mensch & Blondel, 2018); "soft_dtw_divergence" subtracts ½ soft_dtw(z, z), so that equal
    series are their own mean (Blondel, Mensch & Vert, 2021). The objective is not convex: this is a local minimum.

    Arguments:
        distance: "soft_dtw", "sparse_dtw" (squared norm) or "soft_dtw_divergence"
        gamma: the temperature
        length: of the mean; the longest of the series by default
        init: where to start, (length,) or (length, channels); by default the mean of the series stretched to `length`
        max_iter: how many iterations of L-BFGS are made at most
        tol: the relative gain of an iteration to stop at

    After `fit`: `barycenter_` (length, channels), `loss_`, `n_iter_` and `converged_`. `transform` computes the
    distance of each series to the mean, (n, 1), and `score` minus the mean of these distances.

    >>> bump = [0.0, 0.0, 1.0, 0.0]
    >>> mean = SoftDTWBarycenter(gamma=0.01).fit([bump, bump[1:], [0.0] + bump])
    >>> mean.barycenter_.ravel().round(1) + 0
    array([0., 0., 0., 1., 0.])
    """

    def __init__(
        self,
        *,
        distance: str = "soft_dtw",
        gamma: float = 1.0,
        length: int | None = None,
        init: Any = None,
        max_iter: int = 200,
        tol: float = 1e-5,
    ) -> None:
        self.distance = distance
        self.gamma = gamma
        self.length = length
        self.init = init
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SoftDTWBarycenter:
        """Finds the mean of series `X`, each counted as often as `sample_weight` (n,) says; `y` is ignored."""
        batch = self._series_to_fit(X)
        check_choice(self, OBJECTIVES, distance=self.distance)
        check_positive(self, gamma=self.gamma, tol=self.tol)
        check_count(self, max_iter=self.max_iter)
        weights = np.ones(len(batch))
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, np.empty((len(batch), 1)), dtype=np.float64, ensure_non_negative=True
            )
        found = self._search(batch, torch.from_numpy(weights))
        self.barycenter_ = found.series.numpy()
        self.loss_, self.n_iter_, self.converged_ = found.loss, max(1, found.n_iter), found.converged
        if not found.converged:
            checks.warn(
                f"SoftDTWBarycenter: stopped after {found.n_iter} iterations, before one gained less than tol="
                f"{self.tol:g}; raise max_iter or tol"
            )
        return self

    def _search(self, batch: SeriesBatch, weights: torch.Tensor) -> BarycenterResult:
        if self.init is not None:
            init = as_one_series("SoftDTWBarycenter", self.init, name="init").values[0].double()
            wanted = (len(init) if self.length is None else self.length, self.n_channels_in_)
            if tuple(init.shape) != wanted:
                raise ValueError(
                    f"SoftDTWBarycenter: init must be {wanted}, got {tuple(init.shape)}; leave out init or length"
                )
        else:
            if self.length is not None:
                check_count(self, length=self.length)
            length = int(batch.lengths[weights > 0].max()) if self.length is None else self.length
            init = stretched_mean(batch.values, batch.lengths, weights, length)
        omega, divergence = OBJECTIVES[self.distance]
        return search_barycenter(
            batch.values,
            batch.lengths,
            weights,
            init,
            gamma=float(self.gamma),
            omega=omega,
            divergence=divergence,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def transform(self, X: Any) -> np.ndarray:
        """Computes the distance of each series of `X` to the mean, (n, 1)."""
        batch = self._series_to_predict(X)
        mean = as_one_series("SoftDTWBarycenter", self.barycenter_, name="barycenter")
        return np.asarray(cdist(batch, mean, distance=self.distance, gamma=self.gamma))

    def score(self, X: Any, y: Any = None) -> float:
        """Returns minus the mean distance of series `X` to the mean: higher is better; `y` is ignored."""
        return -float(self.transform(X).mean())
