"""Layers × heads on a page, and maps that fit a page however many there are."""

import pytest
import torch
from matplotlib.colors import to_hex

import omegamax as om
from omegamax import plots
from omegamax.plots.style import ZERO


def fits_a_page(figure):
    width, height = figure.get_size_inches()
    return 1 < width <= 7.5 and 0.5 < height <= 9.5


def is_grey(image):
    return [[to_hex(cell) == ZERO.lower() for cell in row] for row in image.to_rgba(image.get_array())]


def test_a_map_for_each_layer_and_head(tmp_path):
    weights = om.sparsemax(torch.randn(3, 4, 5, 7))
    figure = plots.attention_overview(list(weights), layers=["a", "b", "c"])
    axes = figure.axes[0]
    drawn = [image.get_array().filled(0).tolist() for image in axes.images]
    assert drawn == weights.flatten(0, 1).tolist()
    assert [is_grey(image) for image in axes.images] == (weights == 0).flatten(0, 1).tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "4"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    figure.savefig(tmp_path / "overview.png")


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (12, 12, 30, 30), (2, 4, 56, 56), (24, 16, 3, 90), (32, 32, 4, 4)])
@pytest.mark.thinned(5)
def test_an_overview_fits_a_page(shape):
    figure = plots.attention_overview(torch.rand(shape))
    assert fits_a_page(figure)
    figure.draw_without_rendering()


def test_large_maps_keep_their_heaviest_weights():
    weights = torch.zeros(1, 1, 500, 300)
    weights[0, 0, 123, 45] = 0.75
    (image,) = plots.attention_overview(weights).axes[0].images
    array = image.get_array()
    assert max(array.shape) == 96 and array.max() == 0.75 and array.count() == 1


def test_softmax_and_masks_in_an_overview():
    weights = om.softmax(torch.tensor([[[[0.0, -400.0], [0.0, 0.0]]]]))
    for exact, grey in ((None, True), (False, False), (torch.tensor([[False, True], [False, False]]), True)):
        (image,) = plots.attention_overview(weights, exact_zeros=exact).axes[0].images
        assert is_grey(image) == [[False, grey], [False, False]]


@pytest.mark.parametrize(
    "given", [torch.rand(2, 3, 4), torch.rand(2, 3, 4, 0), [torch.rand(2, 3, 3), torch.rand(3, 3, 3)], [], 7, "ab"]
)
def test_wrong_overviews(given):
    with pytest.raises(ValueError, match=r"attention_overview: weights must be \(layers, heads, queries, keys\)"):
        plots.attention_overview(given)


@pytest.mark.slow
def test_four_heads_of_56_words_fit_a_page():
    """They were one column of 1364 × 6719 pixels."""
    words = [f"word{i}" for i in range(56)]
    figure = plots.attention_maps({f"head {i}": torch.rand(56, 56) for i in range(4)}, words, words)
    assert fits_a_page(figure)
    figure.draw_without_rendering()
    maps = [axes for axes in figure.axes if axes.images]
    places = {tuple(round(x, 2) for x in axes.get_position().p0) for axes in maps}
    assert len({x for x, _ in places}) == len({y for _, y in places}) == 2
    assert len(maps[0].get_yticklabels()) == 56


@pytest.mark.thinned(5)
@pytest.mark.parametrize(("shape", "count"), [((5, 9), 4), ((56, 56), 4), ((30, 12), 3), ((20, 20), 8), ((90, 40), 12)])
def test_cells_are_square(shape, count):
    figure = plots.attention_maps({str(i): torch.rand(shape) for i in range(count)})
    figure.draw_without_rendering()
    for axes in (axes for axes in figure.axes if axes.images):
        box = axes.get_window_extent()
        assert (box.width / shape[1]) / (box.height / shape[0]) == pytest.approx(1, abs=0.02)
    assert fits_a_page(figure)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("across", [1, 2, 3, 9])
def test_the_number_of_maps_across(across):
    figure = plots.attention_maps({str(i): torch.rand(3, 3) for i in range(3)}, across=across)
    figure.draw_without_rendering()
    lefts = {round(axes.get_position().x0, 2) for axes in figure.axes if axes.images}
    assert len(lefts) == min(across, 3)
    with pytest.raises(ValueError, match="across must be a whole number from 1 up, got 0"):
        plots.attention_maps({"a": torch.eye(2)}, across=0)


def test_maps_of_different_sizes_have_square_cells_of_one_size():
    cells = []
    figure = plots.attention_maps({"a": torch.rand(9, 12), "b": torch.rand(7, 12)})
    figure.draw_without_rendering()
    for axes in (axes for axes in figure.axes if axes.images):
        extent, (left, right), (below, above) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
        cells.append((extent.width / abs(right - left), extent.height / abs(above - below)))
    (width, height), other = cells
    assert other == pytest.approx((width, height)) and width == pytest.approx(height)


def test_long_titles_are_broken_and_stay_inside():
    figure = plots.attention_maps({"a rather long name of a model " * 2: torch.rand(4, 4), "b": torch.rand(4, 4)})
    figure.draw_without_rendering()
    whole = figure.get_window_extent()
    for axes in (axes for axes in figure.axes if axes.images):
        title = axes._left_title.get_window_extent()
        assert title.x1 <= whole.x1 and title.y1 <= whole.y1
    bar = figure.axes[-1].get_window_extent()
    assert max(axes._left_title.get_window_extent().x1 for axes in figure.axes[:2]) < bar.x0
