"""Nearest neighbours against a slow search, and the learned window against all distances for all windows."""

import math

import naive_dtw
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from omegamax.timeseries import (
    KNeighborsTimeSeriesClassifier,
    KNeighborsTimeSeriesRegressor,
    learn_window,
    soft_dtw,
)


def ragged(n, seed=0, n_channels=1, least=4, most=9):
    random = np.random.default_rng(seed)
    return [random.normal(size=(random.integers(least, most), n_channels)).cumsum(0) for _ in range(n)]


@pytest.mark.parametrize("n_channels", [1, 2])
@pytest.mark.parametrize("k", [1, 3])
def test_neighbours_are_those_of_a_slow_search(k, n_channels):
    train, test = ragged(12, n_channels=n_channels), ragged(5, seed=1, n_channels=n_channels)
    labels = np.array([2, 0, 1] * 4)
    model = KNeighborsTimeSeriesClassifier(k).fit(train, labels)
    slow = np.array([[naive_dtw.dtw(one, other) for other in train] for one in test])
    order = slow.argsort(1, kind="stable")[:, :k]
    distances, indices = model.kneighbors(test)
    assert (indices == order).all()
    np.testing.assert_allclose(distances, np.take_along_axis(slow, order, 1))
    votes = np.array([[(labels[row] == c).mean() for c in range(3)] for row in order])
    np.testing.assert_allclose(model.predict_proba(test), votes)
    assert (model.predict(test) == votes.argmax(1)).all()


def test_smoothed_distances_and_their_temperature():
    train, test = ragged(6), ragged(3, seed=1)
    model = KNeighborsTimeSeriesClassifier(distance="soft_dtw", gamma=0.3).fit(train, np.arange(6))
    slow = np.array([[soft_dtw(one, other, gamma=0.3) for other in train] for one in test])
    assert (model.predict(test) == slow.argmin(1)).all()
    assert model.kneighbors(test, 6)[0].shape == (3, 6)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_the_euclidean_distance_is_that_of_scikit_learn(weights):
    random = np.random.default_rng(0)
    train, test, labels = random.normal(size=(30, 7)), random.normal(size=(9, 7)), random.integers(0, 3, 30)
    test[0] = train[4]  # at distance zero it alone counts
    theirs = KNeighborsClassifier(4, metric="sqeuclidean", weights=weights).fit(train, labels)
    ours = KNeighborsTimeSeriesClassifier(4, distance="euclidean", weights=weights).fit(train, labels)
    np.testing.assert_allclose(ours.predict_proba(test), theirs.predict_proba(test))
    targets = random.normal(size=(30, 2))
    theirs = KNeighborsRegressor(4, metric="sqeuclidean", weights=weights).fit(train, targets)
    ours = KNeighborsTimeSeriesRegressor(4, distance="euclidean", weights=weights).fit(train, targets)
    np.testing.assert_allclose(ours.predict(test), theirs.predict(test))
    assert ours.score(test, theirs.predict(test)) == pytest.approx(1)


def test_negative_distances_can_be_weights():
    model = KNeighborsTimeSeriesRegressor(3, distance="soft_dtw", gamma=5.0, weights="distance")
    found = model.fit(ragged(5), np.arange(5.0)).predict(ragged(2, seed=3))
    assert np.isfinite(found).all() and (found >= 0).all() and (found <= 4).all()


def test_the_first_of_equally_near_series_wins():
    model = KNeighborsTimeSeriesClassifier().fit([[1.0, 2.0], [1.0, 2.0], [5.0, 5.0]], ["b", "a", "c"])
    assert model.predict([[1.0, 2.0]]).tolist() == ["b"]


def labelled_walks(n, length, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    bumps = np.exp(-0.5 * ((np.arange(length) - length / 2 - random.integers(-3, 4, (n, 1))) / 2) ** 2)
    return bumps * np.where(labels, 2.0, 1.6)[:, None] + 0.3 * random.normal(size=(n, length)), labels


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_learned_window_is_that_of_all_distances(seed):
    series, labels = labelled_walks(14, 13, seed)
    found = learn_window(series, labels)
    by_width = []
    for width in range(14):
        slow = np.array([[naive_dtw.dtw(one, other, width) for other in series] for one in series])
        np.fill_diagonal(slow, np.inf)
        by_width.append((labels[slow.argmin(1)] != labels).mean())
    errors = [by_width[math.ceil(percent * 13 / 100)] for percent in range(101)]
    np.testing.assert_array_equal(found.errors, errors)
    assert found.percent == int(np.argmin(errors)) and found.error == min(errors)
    assert found.steps == math.ceil(found.percent * 13 / 100)
    assert found.computed < 0.9 * 14 * 14 * 13 / 2  # of the pairs at 14 different widths


def test_equal_series_are_ties_that_the_first_wins():
    series = np.array([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    found = learn_window(series, ["a", "b", "b", "a"])
    assert found.errors.tolist() == [0.75] * 101  # the others equal one of the other class that is before them
    assert found.steps == 0


@pytest.mark.slow
def test_the_classifier_uses_the_learned_window():
    series, labels = labelled_walks(14, 13, 0)
    model = KNeighborsTimeSeriesClassifier(window="learned").fit(series, labels)
    fixed = KNeighborsTimeSeriesClassifier(window=model.learned_window_.steps).fit(series, labels)
    others, _ = labelled_walks(6, 13, 9)
    assert (model.kneighbors(others)[0] == fixed.kneighbors(others)[0]).all()
    assert model.learned_window_.steps == learn_window(series, labels).steps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": "best"}, "'best'"),
        ({"window": "learned", "distance": "soft_dtw"}, "GridSearchCV"),
        ({"window": "learned", "n_neighbors": 2}, "GridSearchCV"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number"),
        ({"distance": "cosine"}, "distance must be one of dtw"),
        ({"weights": "none"}, "weights must be one of"),
        ({"distance": "euclidean"}, "one length"),
        ({"gamma": -1}, "gamma must be a positive number"),
    ],
)
def test_bad_parameters_are_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        KNeighborsTimeSeriesClassifier(**options).fit(ragged(4), [0, 1, 0, 1])


def test_bad_calls_are_one_sentence():
    model = KNeighborsTimeSeriesClassifier(3).fit(ragged(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="from 1 to n_samples_fit=4, got 9"):
        model.kneighbors(ragged(1), 9)
    with pytest.raises(ValueError, match="1 channels as in fit, got 2"):
        model.predict(ragged(1, n_channels=2))
    euclidean = KNeighborsTimeSeriesClassifier(distance="euclidean").fit(np.zeros((2, 3)), [0, 1])
    with pytest.raises(ValueError, match="must have 3 times as in fit, got 2 to 2"):
        euclidean.predict(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="at least two series"):
        learn_window([[1.0, 2.0]], [0])
    with pytest.raises(ValueError, match="percents"):
        learn_window([[1.0, 2.0], [1.0, 3.0]], [0, 1], percents=[200])
