"""Figures of time series: what is drawn is what was given, and bad input is one sentence."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from omegamax import plots

WAVE = np.sin(np.arange(8.0))


def test_aligned_series_draws_every_cell_of_a_short_path():
    path = np.array([[0, 0], [1, 1], [2, 1], [3, 2]])
    figure = plots.aligned_series(WAVE[:4], WAVE[:3], path, names=("a", "b"), distance=1.5)
    (axes,) = figure.axes
    (lines,) = axes.collections
    assert [tuple(segment[:, 0]) for segment in lines.get_segments()] == [tuple(map(float, cell)) for cell in path]
    upper, lower = axes.get_lines()
    assert len(upper.get_ydata()) == 4 and len(lower.get_ydata()) == 3
    np.testing.assert_allclose(np.diff(upper.get_ydata()), np.diff(WAVE[:4]))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert axes.get_title(loc="right") == "distance 1.5"
    assert (upper.get_ydata()[:3] > lower.get_ydata()).all()


def test_long_paths_are_thinned_and_channels_have_panels():
    x = np.random.default_rng(0).normal(size=(300, 2))
    figure = plots.aligned_series(x, x, np.stack([np.arange(300)] * 2, 1))
    assert len(figure.axes) == 2
    assert len(figure.axes[0].collections[0].get_segments()) <= 60


def test_means_and_clusters_have_their_series():
    series = [WAVE, WAVE[:5], 2 * WAVE]
    figure = plots.series_barycenter(series, {"one": WAVE, "two": WAVE[:3]})
    assert [len(axes.get_lines()) for axes in figure.axes] == [4, 4]
    figure = plots.series_clusters(series, [1, 0, 1], [WAVE, WAVE])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["cluster 0: 1 series", "cluster 1: 2 series"]
    assert [len(axes.get_lines()) for axes in figure.axes] == [2, 3]
    named = plots.series_clusters(series, [0, 0, 0], [WAVE, WAVE], names=["x", "y"])
    assert named.axes[1].get_title(loc="left") == "y: 0 series"


def test_matrices_are_sorted_by_their_labels():
    matrix = np.arange(9.0).reshape(3, 3)
    figure = plots.distance_matrix(matrix, labels=["b", "a", "b"])
    shown = np.asarray(figure.axes[0].get_images()[0].get_array())
    np.testing.assert_array_equal(shown, matrix[[1, 0, 2]][:, [1, 0, 2]])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
    wide = plots.distance_matrix(np.zeros((2, 5)), labels=[1, 2], columns=list("ababa"))
    assert [label.get_text() for label in wide.axes[0].get_xticklabels()] == ["a", "b"]


def test_trees_join_near_series_first():
    pytest.importorskip("scipy")
    matrix = np.array([[0, 1, 9], [1, 0, 9], [9, 9, 0.0]])
    figure = plots.series_dendrogram(matrix, names=["p", "q", "r"], n_clusters=2)
    names = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert sorted(names) == ["p", "q", "r"] and abs(names.index("p") - names.index("q")) == 1
    assert figure.axes[0].get_ylim()[1] >= 9
    plots.series_dendrogram(matrix - 5 * (1 - np.eye(3)) * 2)  # soft-DTW may be negative


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.aligned_series(WAVE, WAVE, [[0, 9]]), "grid of"),
        (lambda: plots.aligned_series(WAVE, WAVE, [0, 1]), r"cells \(length, 2\)"),
        (lambda: plots.aligned_series([], WAVE, [[0, 0]]), "one series"),
        (lambda: plots.series_barycenter([], WAVE), "at least one series"),
        (lambda: plots.series_barycenter([WAVE], {}), "at least one mean"),
        (lambda: plots.series_barycenter([WAVE], WAVE, channel=1), "channel must be from 0 to 0"),
        (lambda: plots.series_clusters([WAVE], [3], [WAVE]), "labels must be 1 numbers from 0 to 0"),
        (lambda: plots.series_clusters([WAVE], [0], [WAVE], names=["a", "b"]), "names must be 1"),
        (lambda: plots.distance_matrix([[np.nan]]), "finite"),
        (lambda: plots.distance_matrix([1.0]), "a matrix"),
        (lambda: plots.distance_matrix(np.zeros((2, 2)), labels=["a"]), "labels must be 2, got 1"),
        (lambda: plots.series_dendrogram(np.zeros((2, 3))), "square"),
        (lambda: plots.series_dendrogram(np.array([[0, 1], [2, 0.0]])), "symmetric"),
        (lambda: plots.series_dendrogram(np.zeros((2, 2)), method="ward"), "method must be one of"),
        (lambda: plots.series_dendrogram(np.zeros((2, 2)), names=["a"]), "names must be 2"),
        (lambda: plots.series_dendrogram(np.zeros((2, 2)), n_clusters=3), "n_clusters must be from 1 to 2"),
    ],
)
def test_bad_input_is_one_sentence(draw, message):
    with pytest.raises(ValueError, match=message) as error:
        draw()
    assert "\n" not in str(error.value)
