"""Means: no better point nearby, weights as repetitions, and the same as other libraries."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

import naive_dtw

import omegamax as om
from omegamax.timeseries import SoftDTWBarycenter
from omegamax.timeseries.barycenter import OBJECTIVES


def bumps(lengths=(12, 15, 9), n_channels=1, seed=0):
    random = np.random.default_rng(seed)
    series = []
    for n in lengths:
        time = np.linspace(0, 1, n)[:, None]
        centre = random.uniform(0.4, 0.6)
        series.append(
            np.exp(-40 * (time - centre) ** 2) * np.ones(n_channels) + 0.05 * random.normal(size=(n, n_channels))
        )
    return series


def objective(z, series, distance, gamma):
    if distance == "sparse_dtw":
        values = [
            om.soft_dtw(torch.tensor(z), torch.tensor(x), gamma, regularizer=om.SquaredNorm()).item() for x in series
        ]
        return np.mean(values)
    own = naive_dtw.soft_dtw(z, z, gamma) / 2 if distance == "soft_dtw_divergence" else 0
    return np.mean([naive_dtw.soft_dtw(z, x, gamma) for x in series]) - own


@pytest.mark.parametrize("distance", OBJECTIVES)
@pytest.mark.parametrize("n_channels", [1, 2])
def test_no_point_nearby_is_better(distance, n_channels):
    series = bumps(n_channels=n_channels)
    found = SoftDTWBarycenter(distance=distance, gamma=0.1, length=8, tol=1e-12, max_iter=2000).fit(series)
    assert found.barycenter_.shape == (8, n_channels)
    here = objective(found.barycenter_, series, distance, 0.1)
    assert here == pytest.approx(found.loss_, abs=1e-9)
    random = np.random.default_rng(1)
    for _ in range(5):
        step = 1e-4 * random.normal(size=found.barycenter_.shape)
        assert objective(found.barycenter_ + step, series, distance, 0.1) > here - 1e-9


@pytest.mark.slow
def test_it_finds_the_mean_of_the_function():
    series = bumps()
    ours = SoftDTWBarycenter(gamma=0.1, tol=1e-8, max_iter=1000).fit(series)
    theirs = om.soft_dtw_barycenter([torch.tensor(x) for x in series], gamma=0.1, tol=1e-8, max_iter=1000)
    assert ours.loss_ == pytest.approx(float(theirs.losses[-1]), abs=1e-4)
    np.testing.assert_allclose(ours.barycenter_, theirs.series.numpy(), atol=3e-2)


@pytest.mark.slow
def test_it_finds_the_mean_of_tslearn():
    barycenters = pytest.importorskip("tslearn.barycenters", reason="compares with tslearn")
    series = bumps((15, 15, 15))
    init = np.mean(series, axis=0)
    theirs = barycenters.softdtw_barycenter(series, gamma=0.1, init=init, tol=1e-10, max_iter=1000)
    ours = SoftDTWBarycenter(gamma=0.1, init=init, tol=1e-10, max_iter=1000).fit(series)
    assert ours.loss_ <= objective(theirs, series, "soft_dtw", 0.1) + 1e-6
    np.testing.assert_allclose(ours.barycenter_, theirs, atol=1e-2)


def test_equal_series_are_their_own_mean_under_the_divergence():
    (one,) = bumps((10,))
    found = SoftDTWBarycenter(distance="soft_dtw_divergence", gamma=1.0, tol=1e-12).fit([one, one])
    np.testing.assert_allclose(found.barycenter_, one, atol=1e-5)
    np.testing.assert_allclose(found.transform([one]), 0, atol=1e-9)
    blurred = SoftDTWBarycenter(distance="soft_dtw", gamma=1.0, tol=1e-12).fit([one, one])
    assert np.abs(blurred.barycenter_ - one).max() > 0.05


def test_weights_are_repetitions():
    series = bumps()
    twice = SoftDTWBarycenter(gamma=0.1, length=9, tol=1e-10).fit([*series, series[0]])
    weighed = SoftDTWBarycenter(gamma=0.1, length=9, tol=1e-10).fit(series, sample_weight=[2, 1, 1])
    np.testing.assert_allclose(weighed.barycenter_, twice.barycenter_, atol=1e-6)
    without = SoftDTWBarycenter(gamma=0.1, tol=1e-10).fit(series[1:])
    zero = SoftDTWBarycenter(gamma=0.1, tol=1e-10).fit(series, sample_weight=[0, 1, 1])
    np.testing.assert_array_equal(zero.barycenter_, without.barycenter_)


def test_transform_and_score_are_distances():
    series = bumps()
    found = SoftDTWBarycenter(gamma=0.1).fit(series)
    by_hand = [naive_dtw.soft_dtw(found.barycenter_, x, 0.1) for x in series]
    np.testing.assert_allclose(found.transform(series)[:, 0], by_hand)
    assert found.score(series) == pytest.approx(-np.mean(by_hand))


def test_one_series_of_one_time():
    found = SoftDTWBarycenter(gamma=0.1).fit([[3.0]])
    np.testing.assert_allclose(found.barycenter_, [[3.0]])


def test_an_early_end_warns():
    with pytest.warns(UserWarning, match="SoftDTWBarycenter: stopped after 1 iterations"):
        SoftDTWBarycenter(gamma=0.01, max_iter=1).fit(bumps())


@pytest.mark.parametrize(
    ("options", "weights", "message"),
    [
        ({"distance": "edit"}, None, "distance must be one of soft_dtw"),
        ({"gamma": 0}, None, "gamma must be a positive number"),
        ({"gamma": "1"}, None, "gamma must be a positive number"),
        ({"max_iter": 0}, None, "max_iter must be a whole number"),
        ({"length": 0}, None, "length must be a whole number"),
        ({"init": [1.0, 2.0], "length": 3}, None, r"init must be \(3, 1\)"),
        ({}, [0.0, 0.0, 0.0], "non-zero"),
        ({}, [1.0, -1.0, 1.0], "[Nn]egative"),
    ],
)
def test_bad_parameters_are_one_sentence(options, weights, message):
    with pytest.raises(ValueError, match=message):
        SoftDTWBarycenter(**options).fit(bumps(), sample_weight=weights)
