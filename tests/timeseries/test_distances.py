"""Distances of two series, against recursions of the library, enumeration and other packages."""

import itertools
import math

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax import timeseries as ts
from omegamax.structures import GappedScores, GlobalAlignment, Itakura, LocalAlignment, SakoeChiba


@pytest.fixture
def pair():
    generator = np.random.default_rng(3)
    return generator.normal(size=(7, 2)), generator.normal(size=(5, 2))


def paths(m, n, steps=((1, 1), (1, 0), (0, 1))):
    """All warping paths, by recursion."""
    if (m, n) == (0, 0):
        yield [(0, 0)]
        return
    for di, dj in steps:
        if m >= di and n >= dj:
            for path in paths(m - di, n - dj, steps):
                yield [*path, (m, n)]


def test_dtw_and_soft_dtw_by_enumeration(pair):
    x, y = pair[0][:5], pair[1][:4]
    costs = ((x[:, None] - y) ** 2).sum(-1)
    totals = np.array([sum(costs[cell] for cell in path) for path in paths(4, 3)])
    assert ts.dtw(x, y) == pytest.approx(totals.min())
    assert ts.dtw(x, y, convention="root") == pytest.approx(math.sqrt(totals.min()))
    assert ts.soft_dtw(x, y, gamma=0.5) == pytest.approx(-0.5 * np.log(np.exp(-totals / 0.5).sum()))
    best = list(paths(4, 3))[totals.argmin()]
    assert ts.alignment_path(x, y).tolist() == [list(cell) for cell in best]


def test_smoothed_distances_are_those_of_the_library(pair):
    x, y = (torch.from_numpy(each) for each in pair)
    for band in (None, SakoeChiba(2), Itakura(2.0)):
        assert ts.soft_dtw(x, y, window=band) == pytest.approx(float(om.soft_dtw(x, y, band=band)))
        sparse = om.soft_dtw(x, y, 0.5, regularizer=om.SquaredNorm(), band=band)
        assert ts.sparse_dtw(x, y, gamma=0.5, window=band) == pytest.approx(float(sparse))
        divergence = om.soft_dtw_divergence(x, y, band=band)
        assert ts.soft_dtw_divergence(x, y, window=band) == pytest.approx(float(divergence))
    assert ts.soft_dtw_divergence(x, x.clone()) == 0
    alignment = ts.expected_alignment(x, y, gamma=0.5)
    torch.testing.assert_close(alignment, om.soft_dtw_alignment(x, y, 0.5))


@pytest.mark.parametrize("steps", [((1, 1, 2.0), (1, 0, 1.0), (0, 1, 1.0)), ((1, 1, 1.0), (2, 1, 1.0), (1, 2, 1.0))])
def test_steps(pair, steps):
    x, y = pair[0][:6], pair[1][:5]
    costs = ((x[:, None] - y) ** 2).sum(-1)
    weights = {(di, dj): weight for di, dj, weight in steps}

    def total(path):
        moves = itertools.pairwise(path)
        return costs[0, 0] + sum(weights[b[0] - a[0], b[1] - a[1]] * costs[b] for a, b in moves)

    expected = min(total(path) for path in paths(5, 4, tuple(weights)))
    assert ts.dtw(x, y, steps=steps) == pytest.approx(expected)
    assert ts.cost_matrix(x, y, steps=steps)[-1, -1] == pytest.approx(expected)
    assert ts.cdist([x], [y, y[:4]], steps=steps)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["dtw", "soft_dtw", "sparse_dtw", "edit", "needleman_wunsch"])
def test_a_cost_matrix_holds_the_distances_of_beginnings(pair, name):
    x, y = pair
    matrix = ts.cost_matrix(x, y, distance=name)
    more = name in ("edit", "needleman_wunsch")
    for i, j in itertools.product(range(1, 8), range(1, 6)):
        expected = ts.distance_of(x[:i], y[:j], distance=name)
        assert matrix[i - 1 + more, j - 1 + more] == pytest.approx(expected)


def test_a_cost_matrix_is_infinite_outside_the_window(pair):
    matrix = ts.cost_matrix(pair[0], pair[0][::-1], window=1)
    assert np.isinf(matrix[0, 2]) and np.isinf(matrix[6, 4]) and np.isfinite(matrix[2, 3])


def test_gapped_distances_are_those_of_structures(pair):
    x, y = (torch.from_numpy(each) for each in pair)
    costs = (x.unsqueeze(1) - y).square().sum(-1)
    scores = GappedScores.from_match(-costs, -1.5, -0.5)
    distance = ts.NeedlemanWunsch(gap_open=1.5, gap_extend=0.5)
    assert ts.distance_of(x, y, distance=distance) == pytest.approx(-float(GlobalAlignment().max(scores, om.Hard())))
    assert torch.equal(ts.alignment_path(x, y, distance=distance), GlobalAlignment().map(scores).match.nonzero())
    local = GappedScores.from_match(2.0 - costs, -1.5, -0.5)
    distance = ts.SmithWaterman(bonus=2.0, gap_open=1.5, gap_extend=0.5)
    assert ts.distance_of(x, y, distance=distance) == pytest.approx(-float(LocalAlignment().max(local, om.Hard())))
    assert torch.equal(ts.alignment_path(x, y, distance=distance), LocalAlignment().map(local).match.nonzero())


def test_edit_is_the_edit_distance_of_symbols():
    words = ["kitten", "sitting", "a", "saturday", "sunday"]
    series = [[float(ord(letter)) for letter in word] for word in words]
    found = ts.cdist(series, distance="edit", tolerance=0.0)
    for i, j in itertools.product(range(5), range(5)):
        a, b = (torch.tensor([ord(letter) for letter in words[k]]) for k in (i, j))
        assert found[i, j] == float(om.structures.edit_distance(a, b))


def test_unequal_lengths_in_a_matrix_are_those_of_pairs():
    generator = np.random.default_rng(0)
    x = [generator.normal(size=(n, 2)) for n in (5, 1, 8)]
    y = [generator.normal(size=(n, 2)) for n in (3, 9)]
    for name in ts.DISTANCES:
        found = ts.cdist(x, y, distance=name)
        for i, j in itertools.product(range(3), range(2)):
            assert found[i, j] == pytest.approx(ts.distance_of(x[i], y[j], distance=name), rel=1e-9)


def test_windows(pair):
    x, y = pair[0], pair[0][::-1].copy()
    assert ts.dtw(x, y, window=0) == pytest.approx(((x - y) ** 2).sum())
    assert ts.dtw(x, y, window=0.15) == ts.dtw(x, y, window=2)  # 1.05 of 7 steps, rounded up
    assert ts.dtw(x, y, window=0.14) == ts.dtw(x, y, window=1)
    assert ts.dtw(x, y, window=0.0) == ts.dtw(x, y, window=0)
    assert ts.dtw(x, y, window=1.0) == ts.dtw(x, y)
    assert ts.dtw(x, y, window=2) == ts.dtw(x, y, window=SakoeChiba(2))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"window": 1.5}, "between 0 and 1, got 1.5"),
        ({"window": -1}, "at least 0 steps, got -1"),
        ({"distance": "dwt"}, "distance must be one of dtw.*got 'dwt'"),
        ({"convention": "sqrt"}, "convention must be .*got 'sqrt'"),
        ({"distance": "soft_dtw", "gamma": 0.0}, "gamma must be positive and finite, got 0.0"),
        ({"gamma": 0.5}, "dtw takes convention, steps, window, got gamma"),
        ({"distance": "edit", "window": 3}, "edit takes tolerance, got window"),
        ({"distance": ts.Dtw(), "window": 3}, "options must stand in the distance itself"),
        ({"distance": "edit", "tolerance": -1.0}, "tolerance must be finite and at least 0"),
    ],
    ids=str,
)
def test_wrong_options_are_named(pair, options, expected):
    with pytest.raises(ValueError, match=expected):
        ts.cdist([pair[0]], [pair[1]], **options)


def test_a_divergence_has_no_cost_matrix(pair):
    with pytest.raises(ValueError, match="has no cost matrix; use that of soft_dtw"):
        ts.cost_matrix(*pair, distance="soft_dtw_divergence")


def test_channels_of_both_sides(pair):
    with pytest.raises(ValueError, match="same number of channels, got 2 and 1"):
        ts.dtw(pair[0], pair[1][:, :1])


# Other packages, where they are installed.


def peer(name):
    return pytest.importorskip(name, exc_type=ImportError)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_aeon():
    aeon = peer("aeon.distances")
    x = np.random.default_rng(0).normal(size=(6, 2, 20))
    for window in (None, 0.1):
        expected = aeon.dtw_pairwise_distance(x, window=window)
        np.testing.assert_allclose(ts.cdist(x, channels="first", window=window), expected)
    upper = np.triu_indices(6, 1)  # aeon's diagonal is zero
    found = ts.cdist(x, distance="soft_dtw", gamma=0.5, channels="first")[upper]
    np.testing.assert_allclose(found, aeon.soft_dtw_pairwise_distance(x, gamma=0.5)[upper], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_tslearn():
    metrics = peer("tslearn.metrics")
    generator = np.random.default_rng(0)
    x = [generator.normal(size=(n, 2)) for n in (12, 20, 7)]
    padded = np.full((3, 20, 2), np.nan)
    for row, each in zip(padded, x):
        row[: len(each)] = each
    expected = metrics.cdist_dtw(padded)
    np.testing.assert_allclose(ts.cdist(padded, convention="root"), expected)
    np.testing.assert_allclose(ts.cdist(x, convention="root"), expected)
    np.testing.assert_allclose(
        ts.cdist(x, distance="soft_dtw", gamma=0.5), metrics.cdist_soft_dtw(x, gamma=0.5), rtol=1e-6
    )
    same = generator.normal(size=(4, 15))
    np.testing.assert_allclose(
        ts.cdist(same, convention="root", window=2),
        metrics.cdist_dtw(same, global_constraint="sakoe_chiba", sakoe_chiba_radius=2),
    )


@pytest.mark.filterwarnings("ignore")
def test_dtaidistance():
    dtw = peer("dtaidistance.dtw")
    x = np.random.default_rng(0).normal(size=(5, 15))
    np.testing.assert_allclose(ts.cdist(x, convention="root"), dtw.distance_matrix_fast(x, parallel=False))
    windowed = dtw.distance_matrix_fast(x, window=3, parallel=False)
    np.testing.assert_allclose(ts.cdist(x, convention="root", window=2), windowed)
