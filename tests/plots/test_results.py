"""Figures of results: what is plotted is what was measured."""

import math

import pytest

from omegamax import plots


def test_learning_curves(tmp_path):
    figure = plots.learning_curves({"softmax": [0.1, 0.5, 0.9], "none": [0.1, math.nan]}, metric="exact match")
    axes = figure.axes[0]
    assert list(axes.lines[0].get_xdata()) == [1, 2, 3] and list(axes.lines[0].get_ydata()) == [0.1, 0.5, 0.9]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["softmax: 0.9", "none: 0.1"]
    assert axes.get_ylabel() == "exact match"
    figure.savefig(tmp_path / "learning.png")


@pytest.mark.parametrize("runs", [{"a": [0.5]}, {"a": [], "b": [1.0]}, {"a": [math.nan]}, {"a": list(range(300))}])
def test_learning_curves_of_any_length(runs):
    plots.learning_curves(runs).draw_without_rendering()


def test_nothing_learned():
    with pytest.raises(ValueError, match="runs must have numbers"):
        plots.learning_curves({"a": []})


def test_accuracy_by_length(tmp_path):
    scores = {"softmax": {(21, 30): 0.7, (1, 10): 0.9, (11, 20): 0.8}, "none": {(1, 10): 0.6}}
    figure = plots.accuracy_by_length(scores, counts={(1, 10): 12, (11, 20): 3})
    axes = figure.axes[0]
    said = [label.get_text() for label in axes.get_xticklabels()]
    assert said == ["1–10\nn = 12", "11–20\nn = 3", "21–30\nn = 0"]
    assert list(axes.lines[0].get_ydata()) == [0.9, 0.8, 0.7]
    assert [math.isnan(number) for number in axes.lines[1].get_ydata()] == [False, True, True]
    figure.savefig(tmp_path / "lengths.png")


def test_buckets_in_order():
    numbers = plots.accuracy_by_length({"a": {30: 1.0, 4: 0.5}}).axes[0]
    assert [label.get_text() for label in numbers.get_xticklabels()] == ["4", "30"]
    words = plots.accuracy_by_length({"a": {"short": 1.0, "long": 0.5}}).axes[0]
    assert [label.get_text() for label in words.get_xticklabels()] == ["short", "long"]
    with pytest.raises(ValueError, match="scores must have numbers"):
        plots.accuracy_by_length({"a": {}})


def test_reliability_of_one_and_of_several_models():
    axes = plots.reliability_plot({"crf": [(9, 0.1, 0.2), (30, 0.8, 0.7)]}, of="entities").axes[0]
    assert axes.get_xlabel() == "probability of entities" and axes.lines[1].get_xydata().tolist() == [
        [0.1, 0.2],
        [0.8, 0.7],
    ]
    small, large = axes.collections[0].get_sizes()
    assert small < large
    plots.reliability_plot({"a": [(1, 0.0, 0.0)], "b": []}).draw_without_rendering()
    with pytest.raises(ValueError, match="models must have bins"):
        plots.reliability_plot({"a": []})
    with pytest.raises(ValueError, match="a bin must be a positive count"):
        plots.reliability_plot({"a": [(0, 0.5, 0.5)]})
