"""k-means and nearest centroids: fixed points of their own definitions."""

import naive_dtw
import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from omegamax.timeseries import NearestCentroid, SoftDTWBarycenter, TimeSeriesKMeans

DISTANCES = ("soft_dtw", "soft_dtw_divergence", "sparse_dtw", "euclidean")


def waves(n_each=4, length=14, seed=0, ragged=False):
    """Series of three shapes that differ clearly, and the shape of each."""
    random = np.random.default_rng(seed)
    series, shapes = [], []
    for shape in range(3):
        for _ in range(n_each):
            n = length - (random.integers(0, 4) if ragged else 0)
            time = np.linspace(0, 1, n)
            clean = (np.sin(6 * time), 3 * time, np.where(time > 0.5, -3.0, 0.0))[shape]
            series.append(clean + 0.1 * random.normal(size=n))
            shapes.append(shape)
    return series, np.array(shapes)


@pytest.mark.slow
@pytest.mark.parametrize("distance", DISTANCES)
def test_clusters_are_the_shapes(distance):
    series, shapes = waves(ragged=distance != "euclidean")
    model = TimeSeriesKMeans(3, distance=distance, gamma=0.1, n_init=3, random_state=0).fit(series)
    pairs = {(int(shape), int(label)) for shape, label in zip(shapes, model.labels_)}
    assert len(pairs) == 3 and len({label for _, label in pairs}) == 3
    assert (model.predict(series) == model.labels_).all()
    distances = model.transform(series)
    assert distances.shape == (12, 3)
    assert model.inertia_ == pytest.approx(distances.min(1).sum())
    assert model.score(series) == pytest.approx(-model.inertia_)


@pytest.mark.slow
def test_centres_are_means_of_their_series():
    series, _ = waves(ragged=True)
    model = TimeSeriesKMeans(3, gamma=0.1, random_state=0, tol=1e-9).fit(series)
    for k, centre in enumerate(model.cluster_centers_):
        members = [one for one, label in zip(series, model.labels_) if label == k]
        mean = SoftDTWBarycenter(gamma=0.1, init=centre).fit(members)
        here = np.mean([naive_dtw.soft_dtw(centre, one, 0.1) for one in members])
        assert here == pytest.approx(mean.loss_, abs=1e-3)


def test_euclidean_k_means_is_a_fixed_point_of_lloyds_algorithm():
    series, _ = waves()
    model = TimeSeriesKMeans(3, distance="euclidean", random_state=1).fit(series)
    stacked = np.stack(series)
    for k, centre in enumerate(model.cluster_centers_):
        np.testing.assert_allclose(centre[:, 0], stacked[model.labels_ == k].mean(0))
    by_hand = ((stacked[:, None] - np.stack([c[:, 0] for c in model.cluster_centers_])) ** 2).sum(-1)
    np.testing.assert_allclose(model.transform(series), by_hand, atol=1e-9)
    assert (by_hand.argmin(1) == model.labels_).all()


def test_more_runs_are_never_worse():
    series, _ = waves(seed=3)
    inertias = [
        TimeSeriesKMeans(4, distance="euclidean", init="random", n_init=n, random_state=5).fit(series).inertia_
        for n in (1, 8)
    ]
    assert inertias[1] <= inertias[0]


def test_as_many_clusters_as_series_and_equal_series():
    series, _ = waves(n_each=1)
    model = TimeSeriesKMeans(3, distance="euclidean", random_state=0).fit(series)
    assert sorted(model.labels_) == [0, 1, 2] and model.inertia_ == pytest.approx(0, abs=1e-20)
    same = TimeSeriesKMeans(2, distance="euclidean", random_state=0).fit([series[0]] * 3)
    assert same.inertia_ == pytest.approx(0, abs=1e-20)


def test_a_seed_gives_the_same_clusters():
    series, _ = waves()
    first, second = (TimeSeriesKMeans(3, gamma=0.1, random_state=7).fit(series) for _ in range(2))
    assert (first.labels_ == second.labels_).all()
    assert all((a == b).all() for a, b in zip(first.cluster_centers_, second.cluster_centers_))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 13}, "n_samples=12"),
        ({"n_clusters": 0}, "n_clusters must be a whole number"),
        ({"distance": "dtw"}, "distance must be one of"),
        ({"init": "first"}, "init must be one of"),
        ({"distance": "euclidean"}, "one length, got"),
    ],
)
def test_bad_clusterings_are_one_sentence(options, message):
    series, _ = waves(ragged=True)
    with pytest.raises(ValueError, match=message):
        TimeSeriesKMeans(**options).fit(series)


def test_too_few_iterations_warn():
    series, _ = waves()
    with pytest.warns(UserWarning, match="stopped after 1 iterations"):
        TimeSeriesKMeans(3, gamma=0.1, max_iter=1, random_state=0).fit(series)


@pytest.mark.parametrize("barycenter", DISTANCES)
@pytest.mark.parametrize("distance", ["dtw", None])
def test_the_nearest_mean_decides(barycenter, distance):
    series, shapes = waves(ragged=barycenter != "euclidean")
    names = np.array(["sine", "line", "step"])[shapes]
    model = NearestCentroid(barycenter=barycenter, distance=distance, gamma=0.1).fit(series, names)
    assert model.classes_.tolist() == ["line", "sine", "step"]
    more, others = waves(seed=9, ragged=barycenter != "euclidean")
    assert (model.predict(more) == np.array(["sine", "line", "step"])[others]).all()
    assert model.score(more, np.array(["sine", "line", "step"])[others]) == 1
    if distance == "dtw":
        by_hand = [[naive_dtw.dtw(one, centre) for centre in model.centroids_] for one in more]
        np.testing.assert_allclose(model.distances(more), by_hand)


def test_means_have_the_wanted_length():
    series, shapes = waves(ragged=True)
    model = NearestCentroid(length=6, gamma=0.1).fit(series, shapes)
    assert [len(each) for each in model.centroids_] == [6, 6, 6]


def test_bad_centroids_are_one_sentence():
    series, shapes = waves(ragged=True)
    with pytest.raises(ValueError, match="one length, got"):
        NearestCentroid(barycenter="euclidean").fit(series, shapes)
    with pytest.raises(ValueError, match="barycenter must be one of"):
        NearestCentroid(barycenter="dtw").fit(series, shapes)
    with pytest.raises(ValueError, match="one entry for each of 12 series, got 2"):
        NearestCentroid().fit(series, [0, 1])
    model = NearestCentroid(barycenter="euclidean", distance="euclidean").fit(np.zeros((2, 3)), [0, 1])
    with pytest.raises(ValueError, match="must have 3 times, got 4 to 4"):
        model.predict(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="X must have 1 channels as in fit, got 2"):
        model.predict(np.zeros((1, 3, 2)))


def test_first_centres_may_be_given():
    series, shapes = waves()
    first = [series[0], series[4], series[8]]
    model = TimeSeriesKMeans(3, gamma=0.1, init=first).fit(series)
    assert (model.labels_ == shapes).all()
    with pytest.raises(ValueError, match="init must be 3 series of 1 channels, got 2 of 1"):
        TimeSeriesKMeans(3, init=first[:2]).fit(series)
