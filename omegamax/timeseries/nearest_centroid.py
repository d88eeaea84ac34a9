"""`NearestCentroid`: a classifier by the mean of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from omegamax.timeseries.barycenter import OBJECTIVES
from omegamax.timeseries.barycenter_search import search_barycenter, stretched_mean
from omegamax.timeseries.estimator_input import (
    SeriesEstimator,
    check_choice,
    check_count,
    check_positive,
    check_targets,
)
from omegamax.timeseries.k_means import check_equal_lengths, distances_to

_DISTANCES = ("dtw", *OBJECTIVES, "euclidean")


class NearestCentroid(ClassifierMixin, SeriesEstimator):
    """A classifier that knows one series of each class: its mean.

        predict(x) = argmin_c distance(x, mean of class c)

    One comparison for each class is far cheaper than one for each series of a nearest neighbour classifier, and a mean
    is less noisy than a series (Petitjean et al., 2014; Cuturi & Blondel, 2017).

    Arguments:
        barycenter: what the means minimise: "soft_dtw", "soft_dtw_divergence", "sparse_dtw", or "euclidean" for the
            plain mean of series of one length
        distance: how series are compared with the means: "dtw", one of the above, or None for the same as `barycenter`
        gamma: the temperature; not used by "dtw" and "euclidean"
        length: of the means; the longest series of each class by default
        max_iter: how many iterations of L-BFGS a mean takes at most
        tol: the relative gain of an iteration to stop at

    After `fit`: `classes_`, `centroids_`, a list of arrays (length, channels), and `n_iter_`, the largest of the means.

    >>> model = NearestCentroid(gamma=0.1).fit([[0.0, 1.0, 2.0], [0.0, 2.0], [2.0, 1.0, 0.0]], ["up", "up", "down"])
    >>> model.predict([[5.0, 5.0, 1.0], [0.0, 1.0]])
    array(['down', 'up'], dtype='<U4')
    """

    def __init__(
        self,
        *,
        barycenter: str = "soft_dtw",
        distance: str | None = "dtw",
        gamma: float = 1.0,
        length: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
    ) -> None:
        self.barycenter = barycenter
        self.distance = distance
        self.gamma = gamma
        self.length = length
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any) -> NearestCentroid:
        """Computes the mean of each class of series `X` with labels `y` (n,)."""
        batch = self._series_to_fit(X)
        check_targets(self, batch, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        check_choice(self, (*OBJECTIVES, "euclidean"), barycenter=self.barycenter)
        check_choice(self, _DISTANCES, distance=self._distance())
        check_positive(self, gamma=self.gamma, tol=self.tol)
        check_count(self, max_iter=self.max_iter, **({} if self.length is None else {"length": self.length}))
        if "euclidean" in (self.barycenter, self._distance()):
            check_equal_lengths(self, batch, "euclidean")
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.centroids_, self.n_iter_ = [], 1
        for number in range(len(self.classes_)):
            some = batch.select(torch.from_numpy(np.flatnonzero(numbers == number)))
            weights = torch.ones(len(some), dtype=torch.float64)
            length = self.length or int(some.lengths.max())
            centre = stretched_mean(some.values, some.lengths, weights, length)
            if self.barycenter != "euclidean":
                omega, divergence = OBJECTIVES[self.barycenter]
                found = search_barycenter(
                    some.values,
                    some.lengths,
                    weights,
                    centre,
                    gamma=float(self.gamma),
                    omega=omega,
                    divergence=divergence,
                    max_iter=self.max_iter,
                    tol=self.tol,
                )
                centre, self.n_iter_ = found.series, max(self.n_iter_, found.n_iter)
            self.centroids_.append(centre.numpy())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the class of each series of `X`, (n,): that of the nearest mean."""
        nearest = self.distances(X).argmin(1)
        return self.classes_[nearest]

    def distances(self, X: Any) -> np.ndarray:
        """Computes the distance of each series of `X` to the mean of each class, (n, classes)."""
        batch = self._series_to_predict(X)
        centres = [torch.from_numpy(each) for each in self.centroids_]
        return distances_to(self, batch, centres, self._distance(), float(self.gamma)).numpy()

    def _distance(self) -> str:
        return self.barycenter if self.distance is None else self.distance
