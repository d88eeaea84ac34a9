"""Nearest neighbour classification and regression of time series."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from omegamax.timeseries.distance_options import distance_options
from omegamax.timeseries.distances import DISTANCES
from omegamax.timeseries.estimator_input import (
    SeriesEstimator,
    check_choice,
    check_count,
    check_positive,
    check_targets,
)
from omegamax.timeseries.k_means import check_equal_lengths
from omegamax.timeseries.neighbours import nearest
from omegamax.timeseries.series import SeriesBatch

_WEIGHTS = ("uniform", "distance")


class _KNeighbors(SeriesEstimator):
    """The base class: remembers series and finds those nearest to others."""

    n_neighbors: int
    distance: str
    window: Any
    gamma: float
    weights: str

    def _remember(self, batch: SeriesBatch) -> None:
        check_choice(self, (*DISTANCES, "euclidean"), distance=self.distance)
        check_choice(self, _WEIGHTS, weights=self.weights)
        check_count(self, n_neighbors=self.n_neighbors)
        check_positive(self, gamma=self.gamma)
        check_equal_lengths(self, batch, self.distance)
        self._batch = batch
        self.n_samples_fit_ = len(batch)

    def kneighbors(self, X: Any, n_neighbors: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Finds the nearest series of those that were fitted: distances and numbers, each (n, n_neighbors).

        Of equally near ones the lowest number comes first. DTW is the sum of squares along the path, without a root.

        Arguments:
            X: series
            n_neighbors: how many; those of the estimator by default
        """
        return self._nearest(X, n_neighbors)

    def _nearest(self, X: Any, n_neighbors: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        batch = self._series_to_predict(X)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not 1 <= k <= self.n_samples_fit_:
            raise ValueError(
                f"{type(self).__name__}: n_neighbors must be from 1 to n_samples_fit={self.n_samples_fit_}, got {k}; "
                "choose a smaller number, or fit more series"
            )
        options = distance_options(self.distance, self._window(), self.gamma)
        if self.distance == "euclidean":  # a path that never leaves the diagonal
            longest = self._batch.values.shape[1]
            if batch.values.shape[1] != longest or bool((batch.lengths != longest).any()):
                raise ValueError(
                    f"{type(self).__name__}: with the Euclidean distance all series must have {longest} times as in "
                    f"fit, got {int(batch.lengths.min())} to {int(batch.lengths.max())}; choose distance='dtw'"
                )
            options = {"distance": "dtw", "window": 0}
        found = nearest(batch, self._batch, n_neighbors=int(k), **options)
        return np.asarray(found.distances), np.asarray(found.indices)

    def _window(self) -> Any:
        return self.window

    def _shares(self, distances: np.ndarray) -> np.ndarray:
        """Returns the weight of each neighbour, (n, k), with sum 1."""
        if self.weights == "uniform":
            return np.full_like(distances, 1 / distances.shape[1])
        least = distances.min(1, keepdims=True)
        shifted = np.where(least < 0, distances - least, distances)  # soft-DTW may be negative
        exact = shifted == 0
        with np.errstate(divide="ignore"):
            inverse = np.where(exact.any(1, keepdims=True), exact.astype(float), 1 / shifted)
        return inverse / inverse.sum(1, keepdims=True)


class KNeighborsTimeSeriesClassifier(ClassifierMixin, _KNeighbors):
    """The classes of the nearest series decide; with dynamic time warping this is the baseline of the UCR archive.

    Arguments:
        n_neighbors: how many series vote
        distance: "dtw", "soft_dtw", "soft_dtw_divergence", "sparse_dtw", "edit", "needleman_wunsch", "smith_waterman",
            or "euclidean" for series of one length
        window: how far a path may leave the diagonal: None, steps, a fraction of the longest series, a band, or
            "learned" for the one with the fewest errors in leave-one-out cross validation, as the UCR archive does
        gamma: the temperature of smoothed distances
        weights: "uniform", or "distance" for votes that count 1 / distance

    After `fit`: `classes_`, and `learned_window_` with window="learned". Ties of votes go to the class that is first in
    `classes_`, ties of distances to the series that is first in `X`.

    >>> model = KNeighborsTimeSeriesClassifier().fit([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], ["late", "early"])
    >>> model.predict([[0.0, 0.0, 0.0, 2.0]])
    array(['late'], dtype='<U5')
    """

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        distance: str = "dtw",
        window: Any = None,
        gamma: float = 1.0,
        weights: str = "uniform",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.distance = distance
        self.window = window
        self.gamma = gamma
        self.weights = weights

    def fit(self, X: Any, y: Any) -> KNeighborsTimeSeriesClassifier:
        """Remembers series `X` with labels `y` (n,)."""
        batch = self._series_to_fit(X)
        check_targets(self, batch, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self._remember(batch)
        self.classes_, self._numbers = np.unique(y, return_inverse=True)
        if isinstance(self.window, str):
            from omegamax.timeseries.learned_window import learn_window

            if self.window != "learned" or self.distance != "dtw" or self.n_neighbors != 1:
                raise ValueError(
                    f"{type(self).__name__}: window must be a number, a band, None, or 'learned' with distance='dtw' "
                    f"and n_neighbors=1, got {self.window!r} with {self.distance!r} and {self.n_neighbors}; use "
                    "GridSearchCV over window for others"
                )
            self.learned_window_ = learn_window(batch, self._numbers)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the class of each series of `X`, (n,)."""
        most = self.predict_proba(X).argmax(1)
        return self.classes_[most]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the share of the votes of each class, (n, classes)."""
        distances, indices = self._nearest(X)
        shares, votes = self._shares(distances), np.zeros((len(indices), len(self.classes_)))
        for column in range(indices.shape[1]):
            np.add.at(votes, (np.arange(len(indices)), self._numbers[indices[:, column]]), shares[:, column])
        return votes / votes.sum(1, keepdims=True)

    def _window(self) -> Any:
        return self.learned_window_.steps if isinstance(self.window, str) else self.window


class KNeighborsTimeSeriesRegressor(RegressorMixin, _KNeighbors):
    """The mean of the targets of the nearest series.

    Arguments:
        n_neighbors: how many series are averaged
        distance: a name as for `KNeighborsTimeSeriesClassifier`
        window: how far a path may leave the diagonal: None, steps, a fraction of the longest series, or a band
        gamma: the temperature of smoothed distances
        weights: "uniform", or "distance" for means weighted by 1 / distance

    >>> model = KNeighborsTimeSeriesRegressor(1).fit([[0.0, 1.0], [0.0, 5.0]], [1.0, 5.0])
    >>> model.predict([[0.0, 0.0, 4.0]])
    array([5.])
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        distance: str = "dtw",
        window: Any = None,
        gamma: float = 1.0,
        weights: str = "uniform",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.distance = distance
        self.window = window
        self.gamma = gamma
        self.weights = weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # where the columns of a table are not times
        return tags

    def fit(self, X: Any, y: Any) -> KNeighborsTimeSeriesRegressor:
        """Remembers series `X` with targets `y`, (n,) or (n, targets)."""
        batch = self._series_to_fit(X)
        check_targets(self, batch, y)
        self._targets = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        self._remember(batch)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the mean target of the neighbours of each series of `X`, (n,) or (n, targets)."""
        distances, indices = self._nearest(X)
        return np.einsum("nk,nk...->n...", self._shares(distances), self._targets[indices])
