"""The estimators keep the rules of scikit-learn: its own checks, clones, pickles, pipelines and grid searches."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from omegamax import timeseries

OTHER_LENGTHS = "series of other lengths than those of fit are welcome, so the number of columns is not checked"
EXPECTED_FAILURES = {
    "check_n_features_in_after_fitting": OTHER_LENGTHS,
    "check_classifiers_train": OTHER_LENGTHS + "; this is the last thing that the check asks",
    "check_transformer_general": OTHER_LENGTHS + "; this is the last thing that the check asks",
}

ESTIMATORS = {
    "classifier": timeseries.KNeighborsTimeSeriesClassifier(),
    "regressor": timeseries.KNeighborsTimeSeriesRegressor(3),
    "centroid": timeseries.NearestCentroid(),
    "k-means": timeseries.TimeSeriesKMeans(3, max_iter_barycenter=5, tol=1e-3, random_state=0),
    "barycenter": timeseries.SoftDTWBarycenter(),
    "kernel": timeseries.SoftDTWKernel(),
    "forecaster": timeseries.SoftDTWForecaster(max_iter=2, hidden=8, random_state=0),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # checks of other packages, and their deprecated parts
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_checks_of_scikit_learn(name):
    results = check_estimator(ESTIMATORS[name], expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = [each["check_name"] for each in results if each["status"] == "failed"]
    assert not failed, [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"]
    for each in results:  # they fail for the reason above, and for no other
        if each["status"] == "xfail":
            assert "number of features" in str(each["exception"]) or "n_features_in_" in str(each["exception"])


def data(n_channels=1):
    random = np.random.default_rng(0)
    series = [random.normal(size=(random.integers(5, 8), n_channels)).cumsum(0) for _ in range(12)]
    return series, np.arange(12) % 2


@pytest.mark.parametrize("n_channels", [1, 2])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_clones_and_pickles_of_ragged_series(name, n_channels):
    series, labels = data(n_channels)
    model = ESTIMATORS[name]
    targets = np.stack([one[:3] for one in series]) if name == "forecaster" else labels
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    twin.fit(series, targets)
    method = "predict" if hasattr(twin, "predict") else "transform"
    loaded = pickle.loads(pickle.dumps(twin))
    np.testing.assert_array_equal(getattr(loaded, method)(series), getattr(twin, method)(series))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nan_padding_is_the_end_of_a_series(name):
    series, labels = data()
    targets = np.stack([one[:3] for one in series]) if name == "forecaster" else labels
    padded = np.full((12, 9, 1), np.nan)
    for row, one in zip(padded, series):
        row[: len(one)] = one
    listed, array = (clone(ESTIMATORS[name]).fit(given, targets) for given in (series, padded))
    method = "predict" if hasattr(listed, "predict") else "transform"
    np.testing.assert_array_equal(getattr(listed, method)(padded), getattr(array, method)(series))


@pytest.mark.slow
def test_grid_searches_and_pipelines():
    series, labels = data()
    search = GridSearchCV(timeseries.KNeighborsTimeSeriesClassifier(), {"window": [0, 0.2, None]}, cv=2)
    assert search.fit(series, labels).best_params_["window"] in (0, 0.2, None)
    pipeline = make_pipeline(timeseries.SoftDTWKernel(), SVC(kernel="precomputed"))
    search = GridSearchCV(pipeline, {"softdtwkernel__gamma": [0.1, 1.0], "svc__C": [1, 10]}, cv=2)
    assert search.fit(series, labels).predict(series[:2]).shape == (2,)
    chained = make_pipeline(timeseries.TimeSeriesKMeans(2, random_state=0, max_iter_barycenter=5), SVC())
    assert chained.fit(series, labels).predict(series).shape == (12,)


def test_the_estimators_are_listed_and_their_spelling_is_helped():
    assert {"SoftDTWBarycenter", "TimeSeriesKMeans", "learn_window"} <= set(dir(timeseries))
    with pytest.raises(AttributeError, match="did you mean TimeSeriesKMeans"):
        timeseries.TimeSeriesKmean  # noqa: B018


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[1.0, np.nan, 2.0]] * 12, "got NaN in series 0"),
        ([[1.0, np.inf]] * 12, "got inf"),
        ([[]] * 12, "at least one time"),
        ([np.zeros((3, 1)), np.zeros((3, 2))] * 6, "same number of channels"),
        ([1.0] * 12, "list of series"),
    ],
)
def test_bad_series_are_one_sentence(name, bad, message):
    with pytest.raises(ValueError, match=message):
        clone(ESTIMATORS[name]).fit(bad, np.arange(12) % 2)
