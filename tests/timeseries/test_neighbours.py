"""Nearest series are those of the full matrix, whatever was ruled out."""

import numpy as np
import pytest
import torch

from omegamax import timeseries as ts


def walks(n, length, seed=0, channels=1):
    return np.random.default_rng(seed).normal(size=(n, length, channels)).cumsum(1)


@pytest.mark.parametrize("window", [None, 0, 3, 0.2])
@pytest.mark.parametrize("convention", ["squared", "root"])
def test_the_nearest_are_those_of_the_matrix(window, convention):
    queries, references = walks(12, 30, 1), walks(150, 30, 2)
    matrix = ts.cdist(queries, references, window=window, convention=convention)
    order = matrix.argsort(1, kind="stable")
    for k in (1, 5):
        found = ts.nearest(queries, references, n_neighbors=k, window=window, convention=convention)
        assert np.array_equal(found.indices, order[:, :k])
        assert np.array_equal(found.distances, np.take_along_axis(matrix, order[:, :k], 1))
        assert found.pruned.pairs == 12 * 150 == sum(found.pruned[1:])
    radius = float(np.median(matrix))
    near = ts.within(queries, references, radius=radius, window=window, convention=convention)
    for row, distances, indices in zip(matrix, near.distances, near.indices):
        expected = [i for i in row.argsort(kind="stable") if row[i] <= radius]
        assert indices.tolist() == expected and np.array_equal(distances, row[expected])


def test_bounds_rule_most_pairs_out():
    found = ts.nearest(walks(20, 60, 1), walks(400, 60, 2), window=3)
    assert found.pruned.computed < found.pruned.pairs / 4
    assert found.pruned.by_kim > 0 and found.pruned.by_keogh > 0


def test_of_equal_ones_the_lowest_number_comes_first():
    references = np.zeros((40, 6))
    found = ts.nearest(np.zeros((2, 6)), references, n_neighbors=3)
    assert found.indices.tolist() == [[0, 1, 2]] * 2 and (found.distances == 0).all()
    rounded = walks(60, 8).round()
    matrix = ts.cdist(rounded)
    assert np.array_equal(ts.nearest(rounded, rounded, n_neighbors=7).indices, matrix.argsort(1, kind="stable")[:, :7])


def test_unequal_lengths():
    generator = np.random.default_rng(0)
    queries = [walks(1, n, n)[0] for n in generator.integers(5, 30, size=9)]
    references = [walks(1, n, 100 + n)[0] for n in generator.integers(1, 30, size=60)]
    for window in (None, 2):
        matrix = ts.cdist(queries, references, window=window)
        found = ts.nearest(queries, references, n_neighbors=4, window=window)
        assert np.array_equal(found.indices, matrix.argsort(1, kind="stable")[:, :4])


@pytest.mark.parametrize("distance", ["soft_dtw", "soft_dtw_divergence", "edit"])
def test_other_distances_compute_all_pairs(distance):
    queries, references = walks(4, 10, 1), walks(9, 10, 2)
    found = ts.nearest(queries, references, n_neighbors=2, distance=distance)
    matrix = ts.cdist(queries, references, distance=distance)
    assert np.array_equal(found.indices, matrix.argsort(1, kind="stable")[:, :2])
    assert found.pruned == ts.PruningReport(pairs=36, computed=36)
    near = ts.within(queries, references, radius=float(np.median(matrix)), distance=distance)
    assert sum(map(len, near.indices)) == (matrix <= np.median(matrix)).sum()


def test_parts_of_the_queries(monkeypatch):
    queries, references = walks(11, 10, 1), walks(9, 10, 2)
    whole = ts.nearest(queries, references, n_neighbors=2)
    monkeypatch.setattr("omegamax.timeseries.neighbours._PAIRS", 20)
    parts = ts.nearest(queries, references, n_neighbors=2)
    assert np.array_equal(whole.indices, parts.indices) and np.array_equal(whole.distances, parts.distances)


def test_tensors_and_no_queries():
    found = ts.nearest(torch.zeros(1, 3), torch.zeros(2, 3))
    assert isinstance(found.indices, torch.Tensor) and found.indices.tolist() == [[0]]
    assert ts.nearest([], [[1.0]]).indices.shape == (0, 1)
    assert ts.within([[1.0]], [], radius=1.0).indices[0].shape == (0,)


@pytest.mark.parametrize("k", [0, 3])
def test_how_many(k):
    with pytest.raises(ValueError, match=f"n_neighbors must be from 1 to 2, the number of references, got {k}"):
        ts.nearest([[1.0]], [[1.0], [2.0]], n_neighbors=k)
    with pytest.raises(TypeError, match="n_neighbors must be an int, got float"):
        ts.nearest([[1.0]], [[1.0]], n_neighbors=1.0)
