"""How the estimators read their input: tables by the rules of scikit-learn, lists and cubes by those of `as_series`.

A table (n, length), such as a NumPy array or a data frame, holds n series of one channel. scikit-learn's own check
refuses sparse and complex ones with its usual words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from omegamax.timeseries.series import SeriesBatch, as_series


class SeriesEstimator(BaseEstimator):
    """What the estimators share: they read series of unequal lengths, and NaN after the end of one is padding."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False  # but for padding
        tags.input_tags.three_d_array = True
        return tags

    def _series_to_fit(self, X: Any) -> SeriesBatch:
        """Reads series and remembers their number of channels, and the longest length as `n_features_in_`."""
        batch = _read(self, X)
        if len(batch) == 0:
            raise ValueError(f"{type(self).__name__}: X must hold at least one series, got none; add series")
        self.n_channels_in_ = batch.values.shape[2]
        self.n_features_in_ = batch.values.shape[1]
        return batch

    def _series_to_predict(self, X: Any) -> SeriesBatch:
        """Reads series that must have the channels of those that were fitted."""
        check_is_fitted(self)
        batch = _read(self, X)
        if len(batch) and batch.values.shape[2] != self.n_channels_in_:
            raise ValueError(
                f"{type(self).__name__}: X must have {self.n_channels_in_} channels as in fit, got "
                f"{batch.values.shape[2]}; series are (length, channels)"
            )
        return batch


def _read(estimator: Any, X: Any) -> SeriesBatch:
    if isinstance(X, (SeriesBatch, Tensor, list, tuple)) or getattr(X, "ndim", 2) > 2:
        batch = as_series(type(estimator).__name__, X, name="X")
    elif isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        batch = as_series(type(estimator).__name__, list(X), name="X")
    else:
        table = check_array(X, dtype=np.float64, ensure_all_finite=False, estimator=estimator, input_name="X")
        batch = as_series(type(estimator).__name__, table, name="X")
    return batch.to(torch.float64)


def check_targets(estimator: Any, batch: SeriesBatch, y: Any) -> None:
    """Raises ValueError unless there is one target for each series."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__}: requires y to be passed, but the target y is None; give one label for each "
            "series"
        )
    n = len(np.asarray(y, dtype=object))
    if n != len(batch):
        raise ValueError(
            f"{type(estimator).__name__}: y must have one entry for each of {len(batch)} series, got {n}; give as many"
        )


def check_positive(estimator: Any, **given: Any) -> None:
    """Raises ValueError unless each parameter is a finite number above zero."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < float(value) < np.inf:
            raise ValueError(
                f"{type(estimator).__name__}: {name} must be a positive number, got {value!r}; set_params({name}=1) "
                "changes it"
            )


def check_count(estimator: Any, **given: Any) -> None:
    """Raises ValueError unless each parameter is a whole number of at least 1."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(
                f"{type(estimator).__name__}: {name} must be a whole number of at least 1, got {value!r}; "
                f"set_params({name}=1) changes it"
            )


def check_choice(estimator: Any, choices: Any, **given: Any) -> None:
    """Raises ValueError unless each parameter is one of the choices."""
    for name, value in given.items():
        if not isinstance(value, str) or value not in choices:
            raise ValueError(
                f"{type(estimator).__name__}: {name} must be one of {', '.join(choices)}, got {value!r}; "
                f"set_params({name}={next(iter(choices))!r}) changes it"
            )
