"""The kernel against sums over paths, and the forecaster's losses by hand."""

import itertools

import naive_dtw
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

import torch
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from omegamax.timeseries import SoftDTWForecaster, SoftDTWKernel


def ragged(n, seed=0, n_channels=1):
    random = np.random.default_rng(seed)
    return [random.normal(size=(random.integers(2, 7), n_channels)) for _ in range(n)]


def alignments(m, n):
    """Every path of unit steps from (0, 0) to (m − 1, n − 1)."""
    if m == 1 or n == 1:
        return [[(i, j) for i in range(m) for j in range(n)]]
    found = []
    for i, j in ((m - 1, n), (m, n - 1), (m - 1, n - 1)):
        found += [[*path, (m - 1, n - 1)] for path in alignments(i, j)]
    return found


def summed(x, y, local):
    """The global alignment kernel: Σ over paths of Π of the kernel of points."""
    return sum(np.prod([local(x[i], y[j]) for i, j in path]) for path in alignments(len(x), len(y)))


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["squared", "divisible"])
def test_it_is_the_normalized_global_alignment_kernel(cost):
    gamma = 0.7

    def local(a, b):
        g = np.exp(-((a - b) ** 2).sum() / gamma)
        return g if cost == "squared" else g / (2 - g)

    series = ragged(4, n_channels=2)
    raw = np.array([[summed(x, y, local) for y in series] for x in series])
    wanted = raw / np.sqrt(np.outer(raw.diagonal(), raw.diagonal()))
    kernel = SoftDTWKernel(gamma=gamma, bandwidth="gamma", cost=cost, correction="none")
    np.testing.assert_allclose(kernel.fit_transform(series), wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.transform(series[:2]), wanted[:2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_divisible_cost_is_positive_definite(seed):
    series = [0.3 * one for one in ragged(15, seed)]
    kernel = SoftDTWKernel(gamma=1.0, bandwidth="gamma", cost="divisible").fit(series)
    assert kernel.least_eigenvalue_ > -1e-10


def test_clipping_leaves_no_negative_eigenvalue_and_agrees_on_fitted_series():
    series = [3 * one for one in ragged(25, 1)]
    raw = SoftDTWKernel(gamma=0.1, bandwidth=500.0, correction="none")
    kept = raw.fit_transform(series)
    assert raw.least_eigenvalue_ < -1e-6  # otherwise this test shows nothing
    clipped = SoftDTWKernel(gamma=0.1, bandwidth=500.0)
    matrix = clipped.fit_transform(series)
    assert clipped.least_eigenvalue_ == raw.least_eigenvalue_
    assert np.linalg.eigvalsh(matrix)[0] > -1e-10
    np.testing.assert_allclose(clipped.transform(series), matrix, atol=1e-9)
    values, vectors = np.linalg.eigh(kept)
    np.testing.assert_allclose(matrix, (vectors * np.clip(values, 0, None)) @ vectors.T, atol=1e-9)


def test_the_median_is_the_bandwidth():
    series = ragged(6)
    kernel = SoftDTWKernel(gamma=0.5).fit(series)
    soft = np.array([[naive_dtw.soft_dtw(x, y, 0.5) for y in series] for x in series])
    divergences = soft - 0.5 * (soft.diagonal()[:, None] + soft.diagonal())
    pairs = [divergences[i, j] for i, j in itertools.combinations(range(6), 2)]
    assert kernel.bandwidth_ == pytest.approx(np.median(pairs))
    assert SoftDTWKernel().fit([[1.0, 2.0]] * 3).bandwidth_ == 1  # all are equal


def test_a_support_vector_machine_learns_shapes():
    random = np.random.default_rng(0)
    time = np.linspace(0, 1, 15)
    up = [3 * time + 0.2 * random.normal(size=15) for _ in range(8)]
    down = [3 * (1 - time[:12]) + 0.2 * random.normal(size=12) for _ in range(8)]
    model = make_pipeline(SoftDTWKernel(gamma=0.1), SVC(kernel="precomputed"))
    model.fit(up[:6] + down[:6], ["up"] * 6 + ["down"] * 6)
    assert model.predict(up[6:] + down[6:]).tolist() == ["up"] * 2 + ["down"] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": "large"}, "bandwidth must be a positive number"),
        ({"bandwidth": -1.0}, "bandwidth must be a positive number"),
        ({"cost": "absolute"}, "cost must be one of"),
        ({"correction": "shift"}, "correction must be one of"),
        ({"gamma": 0}, "gamma"),
    ],
)
def test_bad_kernels_are_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        SoftDTWKernel(**options).fit(ragged(3))


def waves(n=24, length=14, n_channels=1):
    random = np.random.default_rng(0)
    phase = random.uniform(0, 6, (n, 1, 1))
    time = np.arange(length).reshape(1, -1, 1) / 2
    return np.sin(time + phase) * np.arange(1, n_channels + 1)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["divergence", "soft_dtw", "dilate", "squared"])
def test_training_lowers_every_loss(loss):
    series = waves()
    model = SoftDTWForecaster(loss=loss, max_iter=30, random_state=0).fit(series[:, :10], series[:, 10:])
    assert model.losses_[-1] < model.losses_[0] - 0.1
    again = SoftDTWForecaster(loss=loss, max_iter=30, random_state=0).fit(series[:, :10], series[:, 10:])
    np.testing.assert_array_equal(model.predict(series[:, :10]), again.predict(series[:, :10]))


@pytest.mark.slow
def test_a_trained_network_forecasts_waves():
    series = waves(60)
    model = SoftDTWForecaster(loss="divergence", gamma=0.01, max_iter=150, random_state=0)
    model.fit(series[:40, :10], series[:40, 10:])
    error = np.abs(model.predict(series[40:, :10]) - series[40:, 10:]).mean()
    last = np.abs(series[40:, 9:10] - series[40:, 10:]).mean()
    assert error < 0.3 * last


def test_losses_by_hand():
    random = np.random.default_rng(0)
    forecast, truth = random.normal(size=(2, 4, 1)), random.normal(size=(2, 4, 1))
    gamma, pairs = 0.5, list(zip(forecast, truth))
    soft = np.array([naive_dtw.soft_dtw(x, y, gamma) for x, y in pairs])
    own = np.array([naive_dtw.soft_dtw(x, x, gamma) + naive_dtw.soft_dtw(y, y, gamma) for x, y in pairs])
    distortions = []
    for x, y in pairs:
        paths = alignments(4, 4)
        costs = np.array([sum(((x[i] - y[j]) ** 2).sum() for i, j in path) for path in paths])
        odds = np.exp(-(costs - costs.min()) / gamma)
        distortion = np.array([sum((i - j) ** 2 / 16 for i, j in path) for path in paths])
        distortions.append((odds * distortion).sum() / odds.sum())
    wanted = {
        "squared": ((forecast - truth) ** 2).mean((1, 2)),
        "soft_dtw": soft,
        "divergence": soft - own / 2,
        "dilate": 0.3 * soft + 0.7 * np.array(distortions),
    }
    for name, numbers in wanted.items():
        model = SoftDTWForecaster(loss=name, gamma=gamma, alpha=0.3)
        model.horizon_ = 4
        found = model._loss()(torch.tensor(forecast), torch.tensor(truth))
        np.testing.assert_allclose(found.numpy(), numbers, rtol=1e-9, err_msg=name)


def test_forecasts_have_the_axes_of_the_targets():
    series = waves(n_channels=2)
    model = SoftDTWForecaster(max_iter=2, random_state=0).fit(series[:, :10], series[:, 10:])
    assert model.predict(series[:3, :10]).shape == (3, 4, 2)
    one = SoftDTWForecaster(max_iter=2, random_state=0).fit(series[:, :10, 0], series[:, 10, 0])
    assert one.predict(series[:3, :10, 0]).shape == (3,)
    longer = SoftDTWForecaster(max_iter=2, n_lags=5, random_state=0).fit(series[:, :10, 0], series[:, 10:, 0])
    np.testing.assert_array_equal(longer.predict(series[:3, 2:10, 0]), longer.predict(series[:3, :10, 0]))


def test_bad_forecasts_are_one_sentence():
    series = waves()
    past, future = series[:, :10], series[:, 10:]
    for options, message in (
        ({"loss": "l1"}, "loss must be one of"),
        ({"alpha": 2}, "alpha must be from 0 to 1"),
        ({"n_lags": 11}, "n_lags must be at most"),
        ({"hidden": 0}, "hidden must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            SoftDTWForecaster(**options).fit(past, future)
    with pytest.raises(ValueError, match="with the channels"):
        SoftDTWForecaster().fit(np.zeros((4, 10, 2)), np.zeros((4, 3)))
    model = SoftDTWForecaster(max_iter=1).fit(past, future)
    with pytest.raises(ValueError, match="at least 10 values"):
        model.predict(past[:, :5])
