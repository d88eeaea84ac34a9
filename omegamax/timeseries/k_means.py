"""`TimeSeriesKMeans`: clusters of series around their means under smoothed dynamic time warping."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from torch import Tensor

from omegamax import checks
from omegamax.timeseries.barycenter import OBJECTIVES
from omegamax.timeseries.barycenter_search import search_barycenter, stretched_mean
from omegamax.timeseries.distance_options import distance_options
from omegamax.timeseries.estimator_input import (
    SeriesEstimator,
    check_choice,
    check_count,
    check_positive,
)
from omegamax.timeseries.matrix import cdist
from omegamax.timeseries.series import SeriesBatch, as_series

_INITS = ("k-means++", "random")


class _Clustering(NamedTuple):
    """The clusters of one run."""

    centres: list[Tensor]
    labels: np.ndarray
    inertia: float
    n_iter: int
    converged: bool


class TimeSeriesKMeans(TransformerMixin, ClusterMixin, SeriesEstimator):
    """Clusters of series, each around its mean under smoothed dynamic time warping.

        min over centres z and labels c of  Σ_k distance(x_k, z_{c_k})

    Lloyd's algorithm: each series joins the centre nearest to it, each centre moves to the mean of its series. The
    centres of the first run are series, chosen by k-means++ under DTW (Arthur & Vassilvitskii, 2007). A cluster that
    loses all its series takes the one that is farthest from its centre.

    Arguments:
        n_clusters: how many clusters
        distance: "soft_dtw", "soft_dtw_divergence", "sparse_dtw", or "euclidean" for series of one length
        gamma: the temperature; not used by "euclidean"
        init: how the first centres are chosen, "k-means++" or "random"; or the first centres themselves, as series
        n_init: how many runs are made; the best is kept
        max_iter: how many times the centres move at most
        tol: the relative change of the inertia to stop at
        max_iter_barycenter: how many iterations of L-BFGS a move makes at most
        tol_barycenter: the relative gain of such an iteration to stop at
        random_state: a seed, for the first centres

    After `fit`: `cluster_centers_`, a list of arrays (length, channels); `labels_` (n,), `inertia_` and `n_iter_`.
    `transform` computes the distances of series to the centres, and `score` minus their inertia.

    >>> up, down = [0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0]
    >>> labels = TimeSeriesKMeans(2, gamma=0.1, random_state=0).fit_predict([up, up[1:], down, down[:3]])
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        distance: str = "soft_dtw",
        gamma: float = 1.0,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 50,
        tol: float = 1e-6,
        max_iter_barycenter: int = 100,
        tol_barycenter: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.distance = distance
        self.gamma = gamma
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_iter_barycenter = max_iter_barycenter
        self.tol_barycenter = tol_barycenter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> TimeSeriesKMeans:
        """Clusters the series `X`; `y` is ignored."""
        batch = self._series_to_fit(X)
        check_choice(self, (*OBJECTIVES, "euclidean"), distance=self.distance)
        if isinstance(self.init, str):
            check_choice(self, _INITS, init=self.init)
        check_positive(self, gamma=self.gamma, tol=self.tol, tol_barycenter=self.tol_barycenter)
        counts = {name: getattr(self, name) for name in ("n_clusters", "n_init", "max_iter", "max_iter_barycenter")}
        check_count(self, **counts)
        if len(batch) < self.n_clusters:
            raise ValueError(
                f"TimeSeriesKMeans: there must be at least n_clusters={self.n_clusters} series, got n_samples="
                f"{len(batch)}; choose fewer clusters"
            )
        check_equal_lengths(self, batch, self.distance)
        random = check_random_state(self.random_state)
        best: _Clustering | None = None
        for _ in range(self.n_init):
            found = self._run(batch, random)
            if best is None or found.inertia < best.inertia:
                best = found
        assert best is not None
        self.cluster_centers_ = [centre.numpy() for centre in best.centres]
        self.labels_, self.inertia_, self.n_iter_ = best.labels, best.inertia, best.n_iter
        if not best.converged:
            checks.warn(
                f"TimeSeriesKMeans: stopped after {best.n_iter} iterations, before the inertia changed by less than "
                f"tol={self.tol:g}; raise max_iter or tol"
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Returns the number of the nearest centre of each series of `X`, (n,)."""
        return self.transform(X).argmin(1).astype(np.int32)

    def transform(self, X: Any) -> np.ndarray:
        """Computes the distance of each series of `X` to each centre, (n, n_clusters)."""
        batch = self._series_to_predict(X)
        return self._distances(batch, [torch.from_numpy(centre) for centre in self.cluster_centers_]).numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Returns minus the sum of the distances of `X` to their nearest centres: higher is better; `y` is ignored."""
        return -float(self.transform(X).min(1).sum())

    def _run(self, batch: SeriesBatch, random: np.random.RandomState) -> _Clustering:
        centres = self._first_centres(batch, random)
        distances = self._distances(batch, centres)
        labels, inertia, converged = self._assign(distances), np.inf, False
        n_iter = 0
        while n_iter < self.max_iter and not converged:
            n_iter += 1
            centres = [self._mean(batch, labels == k, centre) for k, centre in enumerate(centres)]
            distances = self._distances(batch, centres)
            before, labels = labels, self._assign(distances)
            now = float(distances.min(1).values.sum())
            change, inertia = inertia - now, now
            converged = bool((labels == before).all()) and not change > self.tol * max(1.0, abs(now))
        return _Clustering(centres, distances.argmin(1).numpy().astype(np.int32), inertia, n_iter, converged)

    def _first_centres(self, batch: SeriesBatch, random: np.random.RandomState) -> list[Tensor]:
        if isinstance(self.init, str):
            return [batch.values[i, : batch.lengths[i]] for i in self._chosen(batch, random)]
        given = as_series("TimeSeriesKMeans", self.init, name="init").to(torch.float64)
        if len(given) != self.n_clusters or given.values.shape[2] != self.n_channels_in_:
            raise ValueError(
                f"TimeSeriesKMeans: init must be {self.n_clusters} series of {self.n_channels_in_} channels, got "
                f"{len(given)} of {given.values.shape[2]}; or choose 'k-means++'"
            )
        return given.lists()

    def _chosen(self, batch: SeriesBatch, random: np.random.RandomState) -> list[int]:
        if self.init == "random":
            return [int(i) for i in random.choice(len(batch), self.n_clusters, replace=False)]
        chosen = [int(random.randint(len(batch)))]
        nearest = np.full(len(batch), np.inf)
        while len(chosen) < self.n_clusters:
            one = batch.select(slice(chosen[-1], chosen[-1] + 1))
            nearest = np.minimum(nearest, np.asarray(cdist(batch, one, distance="dtw"))[:, 0])
            nearest[chosen] = 0
            total = nearest.sum()
            if total > 0:
                chosen.append(int(random.choice(len(batch), p=nearest / total)))
            else:  # all others equal a centre
                free = np.setdiff1d(np.arange(len(batch)), chosen)
                chosen.append(int(random.choice(free)))
        return chosen

    def _assign(self, distances: Tensor) -> np.ndarray:
        """Returns the nearest centre of each series; an empty cluster takes the series farthest from its centre."""
        nearest, labels = (each.numpy().copy() for each in distances.min(1))
        for k in range(self.n_clusters):
            counts = np.bincount(labels, minlength=self.n_clusters)
            if counts[k] == 0:
                movable = np.where(counts[labels] > 1, nearest, -np.inf)
                labels[movable.argmax()] = k
                nearest[movable.argmax()] = -np.inf
        return labels

    def _mean(self, batch: SeriesBatch, members: np.ndarray, centre: Tensor) -> Tensor:
        chosen = torch.from_numpy(np.flatnonzero(members))
        some = batch.select(chosen)
        ones = torch.ones(len(chosen), dtype=torch.float64)
        if self.distance == "euclidean":
            return stretched_mean(some.values, some.lengths, ones, int(some.lengths[0]))
        omega, divergence = OBJECTIVES[self.distance]
        return search_barycenter(
            some.values,
            some.lengths,
            ones,
            centre,
            gamma=float(self.gamma),
            omega=omega,
            divergence=divergence,
            max_iter=self.max_iter_barycenter,
            tol=float(self.tol_barycenter),
        ).series

    def _distances(self, batch: SeriesBatch, centres: list[Tensor]) -> Tensor:
        return distances_to(self, batch, centres, self.distance, float(self.gamma))


def distances_to(estimator: Any, batch: SeriesBatch, centres: list[Tensor], distance: str, gamma: float) -> Tensor:
    """Computes the distances (n, centres) of series to a list of centres (length, channels)."""
    if distance != "euclidean":
        return torch.as_tensor(cdist(batch, centres, **distance_options(distance, None, gamma)))
    stacked = torch.stack(centres)
    if batch.values.shape[1] != stacked.shape[1] or bool((batch.lengths != stacked.shape[1]).any()):
        raise ValueError(
            f"{type(estimator).__name__}: with the Euclidean distance all series must have {stacked.shape[1]} times, "
            f"got {int(batch.lengths.min())} to {int(batch.lengths.max())}; cut them, or choose distance='dtw'"
        )
    return torch.cdist(batch.values.flatten(1), stacked.flatten(1)).square()


def check_equal_lengths(estimator: Any, batch: SeriesBatch, distance: str) -> None:
    """Raises ValueError if series of unequal lengths are to be compared by the Euclidean distance."""
    if distance == "euclidean" and int(batch.lengths.min()) < int(batch.lengths.max()):
        raise ValueError(
            f"{type(estimator).__name__}: with the Euclidean distance all series must have one length, got "
            f"{int(batch.lengths.min())} to {int(batch.lengths.max())}; cut them, or choose another distance"
        )
