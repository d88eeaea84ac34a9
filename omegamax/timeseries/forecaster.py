"""`SoftDTWForecaster`: a small network that predicts the next values of a series, trained on shape and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array
from torch import Tensor, nn

from omegamax.structures.soft_dtw import soft_dtw, soft_dtw_alignment, soft_dtw_divergence
from omegamax.timeseries.estimator_input import (
    SeriesEstimator,
    check_choice,
    check_count,
    check_positive,
    check_targets,
)
from omegamax.timeseries.series import SeriesBatch

_LOSSES = ("divergence", "soft_dtw", "dilate", "squared")


class SoftDTWForecaster(RegressorMixin, SeriesEstimator):
    """Predicts the next values of series with a network of one hidden layer, trained by gradients through soft-DTW.

        "squared"      the mean squared error
        "soft_dtw"     soft_dtw(forecast, truth)
        "divergence"   soft_dtw(f, t) − ½ soft_dtw(f, f) − ½ soft_dtw(t, t)
        "dilate"       α soft_dtw(f, t) + (1 − α) Σ_ij E_ij (i − j)² / horizon²,  E the expected alignment of f and t

    The squared error punishes a peak that comes one step late as much as no peak, so networks trained with it blur.
    Soft-DTW forgives shifts; the time distortion of "dilate" asks for few of them (Le Guen & Thome, NeurIPS 2019). The
    network reads the last `n_lags` values, less the last one and scaled, and adds what it finds to the last value.

    Arguments:
        loss: "divergence", "soft_dtw", "dilate" or "squared"
        gamma: the temperature, for series scaled to a standard deviation of about 1
        alpha: of "dilate": the part of the shape, 0 to 1
        n_lags: how many values the network sees; by default the shortest of the series
        hidden: the units of the hidden layer
        max_iter: how many times the data is gone through
        batch_size: how many series make a step
        learning_rate: of Adam
        random_state: a seed, for first weights and the order of the series

    After `fit`: `network_`, `horizon_`, and `losses_`, the mean loss of each pass. `score` is R².

    >>> waves = np.sin(np.arange(12) / 2 + np.arange(30)[:, None])
    >>> SoftDTWForecaster(max_iter=5, random_state=0).fit(waves[:, :8], waves[:, 8:]).predict(waves[:2, :8]).shape
    (2, 4)
    """

    def __init__(
        self,
        *,
        loss: str = "divergence",
        gamma: float = 0.1,
        alpha: float = 0.5,
        n_lags: int | None = None,
        hidden: int = 64,
        max_iter: int = 100,
        batch_size: int = 32,
        learning_rate: float = 0.003,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.gamma = gamma
        self.alpha = alpha
        self.n_lags = n_lags
        self.hidden = hidden
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = False
        return tags

    def fit(self, X: Any, y: Any) -> SoftDTWForecaster:
        """Trains on series `X` and what follows them, `y` (n, horizon), (n, horizon, channels) or (n,) for one step."""
        batch = self._series_to_fit(X)
        check_targets(self, batch, y)
        self._check_parameters(batch)
        targets = check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="y", estimator=self)
        self._target_axes = targets.ndim
        targets = targets.reshape(len(batch), -1, self.n_channels_in_ if targets.ndim == 3 else 1)
        if targets.shape[2] != self.n_channels_in_ or targets.shape[1] == 0:
            raise ValueError(
                f"SoftDTWForecaster: y must be (n, horizon) or (n, horizon, {self.n_channels_in_}), with the channels "
                f"of X, got {np.shape(y)}; give the values that follow each series"
            )
        self.horizon_ = targets.shape[1]
        self._n_lags = self.n_lags or int(batch.lengths.min())
        past = _last(batch, self._n_lags)
        spread = past.std((0, 1), correction=0)
        self._spread = torch.where(spread > 0, spread, 1.0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
            self._train(past, torch.from_numpy(targets))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicts what follows series `X`: as many axes as `y` had."""
        batch = self._series_to_predict(X)
        with torch.no_grad():
            past = _last(batch, self._n_lags)
            found = past[:, -1:] + self._forecast(past) * self._spread
        if self._target_axes == 3:
            return found.numpy()
        return found[:, :, 0].numpy() if self._target_axes == 2 else found[:, 0, 0].numpy()

    def _check_parameters(self, batch: SeriesBatch) -> None:
        check_choice(self, _LOSSES, loss=self.loss)
        check_positive(self, gamma=self.gamma, learning_rate=self.learning_rate)
        check_count(self, hidden=self.hidden, max_iter=self.max_iter, batch_size=self.batch_size)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"SoftDTWForecaster: alpha must be from 0 to 1, got {self.alpha!r}; 0.5 is the default")
        if self.n_lags is not None:
            check_count(self, n_lags=self.n_lags)
            if self.n_lags > int(batch.lengths.min()):
                raise ValueError(
                    f"SoftDTWForecaster: n_lags must be at most the length of the shortest series, "
                    f"{int(batch.lengths.min())}, got {self.n_lags}; leave it out"
                )

    def _train(self, past: Tensor, targets: Tensor) -> None:
        n_channels = past.shape[2]
        self.network_ = nn.Sequential(
            nn.Flatten(),
            nn.Linear(self._n_lags * n_channels, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.horizon_ * n_channels),
            nn.Unflatten(1, (self.horizon_, n_channels)),
        ).double()
        wanted = (targets - past[:, -1:]) / self._spread  # (n, horizon, channels)
        loss = self._loss()
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.learning_rate)
        self.losses_ = []
        for _ in range(self.max_iter):
            total = 0.0
            for some in torch.randperm(len(past)).split(self.batch_size):
                optimizer.zero_grad()
                value = loss(self._forecast(past[some]), wanted[some]).mean()
                value.backward()
                optimizer.step()
                total += float(value.detach()) * len(some)
            self.losses_.append(total / len(past))
        self.n_iter_ = self.max_iter

    def _forecast(self, past: Tensor) -> Tensor:
        return self.network_((past - past[:, -1:]) / self._spread)

    def _loss(self) -> Callable[[Tensor, Tensor], Tensor]:
        gamma, alpha = float(self.gamma), float(self.alpha)
        if self.loss == "squared":
            return lambda forecast, truth: (forecast - truth).square().mean((1, 2))
        if self.loss == "soft_dtw":
            return lambda forecast, truth: soft_dtw(forecast, truth, gamma)
        if self.loss == "divergence":
            return lambda forecast, truth: soft_dtw_divergence(forecast, truth, gamma)
        times = torch.arange(self.horizon_, dtype=torch.float64)
        distortion = ((times[:, None] - times) / self.horizon_).square()

        def dilate(forecast: Tensor, truth: Tensor) -> Tensor:
            shape = soft_dtw(forecast, truth, gamma)
            return alpha * shape + (1 - alpha) * (soft_dtw_alignment(forecast, truth, gamma) * distortion).sum((1, 2))

        return dilate


def _last(batch: SeriesBatch, n: int) -> Tensor:
    """Returns the last n values of each series, (series, n, channels)."""
    if int(batch.lengths.min()) < n:
        raise ValueError(
            f"SoftDTWForecaster: X must have at least {n} values in each series, as the network sees them, got "
            f"{int(batch.lengths.min())}; give longer series, or fit with a smaller n_lags"
        )
    places = batch.lengths[:, None] - n + torch.arange(n)
    return batch.values[torch.arange(len(batch))[:, None], places]
