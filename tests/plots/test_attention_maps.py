"""Maps of attention weights follow figure 1: grey zeros, no border between equal neighbours, dots on clusters."""

import pytest
import torch
from matplotlib.colors import to_hex

import omegamax as om
from omegamax import plots
from omegamax.plots.style import ZERO


def part(axes, gid):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == gid]
    return found


def borders(axes):
    """(row, column on the left) of each border between neighbours."""
    return {(round(low[1] + 0.5), round(low[0] - 0.5)) for low, _ in part(axes, "borders").get_segments()}


def colours(axes):
    """The colour of each cell."""
    (image,) = axes.images
    return [[to_hex(cell) for cell in row] for row in image.to_rgba(image.get_array())]


@pytest.mark.parametrize("operator", [om.softmax, om.sparsemax, om.fusedmax, om.oscarmax])
@pytest.mark.thinned(3)
def test_a_map_is_the_weights(operator, tmp_path):
    weights = operator(torch.randn(6, 9))
    weights[2] = 0  # a row with nothing allowed
    figure = plots.attention_map(weights, list("abcdef"), list("qrstuvwxy"))
    axes = figure.axes[0]
    assert axes.images[0].get_array().filled(0).tolist() == weights.tolist()
    assert [[colour == ZERO.lower() for colour in row] for row in colours(axes)] == (weights == 0).tolist()
    differ = (weights[:, 1:] != weights[:, :-1]).nonzero().tolist()
    assert borders(axes) == {(row, column) for row, column in differ}
    assert [label.get_text() for label in axes.get_yticklabels()] == list("abcdef")
    assert [label.get_text() for label in axes.get_xticklabels()] == list("qrstuvwxy")
    figure.savefig(tmp_path / "map.png")


def test_equal_neighbours_have_no_border_and_equal_rows_do():
    weights = torch.tensor([[0.25, 0.25, 0.5, 0.0], [0.25, 0.25, 0.0, 0.5]])
    axes = plots.attention_map(weights).axes[0]
    assert borders(axes) == {(0, 1), (0, 2), (1, 1), (1, 2)}
    assert len(part(axes, "edges").get_segments()) == 4 and len(part(axes, "rows").get_segments()) == 0
    nearly = torch.tensor([[0.5, 0.5 + 1e-7]])
    assert borders(plots.attention_map(nearly).axes[0]) == {(0, 0)}


def test_the_least_weight_is_not_grey():
    shown = colours(plots.attention_map(torch.tensor([[1.0, 1e-30, 0.0]])).axes[0])
    assert shown[0][1] != shown[0][2] == ZERO.lower()


def test_clusters():
    weights = torch.tensor([[0.3, 0.15, 0.3, 0.0, 0.15, 0.1], [0.0, 0.5, 0.0, 0.0, 0.5, 0.0]])
    clusters = plots.clusters_of(weights)
    assert clusters.tolist() == [[1, 2, 1, 0, 2, 0], [0, 1, 0, 0, 1, 0]]
    axes = plots.attention_map(weights, clusters=clusters).axes[0]
    dots = {
        (dot.get_gid(), round(row), round(column))
        for dot in axes.collections
        if (dot.get_gid() or "").startswith("cluster")
        for column, row in dot.get_offsets()
    }
    assert dots == {(f"cluster {clusters[q, k]}", q, k) for q, k in clusters.nonzero().tolist()}


def test_clusters_of_any_shape():
    weights = om.oscarmax(torch.randn(2, 3, 12), strength=0.05)
    found = plots.clusters_of(weights)
    assert found.shape == weights.shape
    together = (found.unsqueeze(-1) == found.unsqueeze(-2)) & (found.unsqueeze(-1) > 0)
    equal = (weights.unsqueeze(-1) == weights.unsqueeze(-2)) & (weights.unsqueeze(-1) > 0)
    others = ~torch.eye(12, dtype=torch.bool)
    assert torch.equal(together & others, equal & others) and bool((equal & others).any())
    assert plots.clusters_of(torch.zeros(0, 4)).shape == (0, 4)


def test_maps_side_by_side_share_a_scale(tmp_path):
    scores = torch.randn(3, 5)
    weights = {"softmax": om.softmax(scores), "sparsemax": om.sparsemax(scores)}
    figure = plots.attention_maps(weights, list("abc"), list("vwxyz"), marked=scores > 0)
    top = max(float(matrix.max()) for matrix in weights.values())
    for axes, (name, matrix) in zip(figure.axes, weights.items()):
        assert axes.images[0].get_array().filled(0).tolist() == matrix.tolist()
        assert axes.images[0].get_clim() == (0, top)
        zeros = 100 * (matrix == 0).double().mean()
        assert axes.get_title(loc="left") == f"{name}: {zeros:.0f}% zeros"
        assert len(part(axes, "marks").get_segments()) == (scores > 0).sum()
    figure.savefig(tmp_path / "maps.png")


def test_maps_with_words_of_their_own():
    weights = {"a": torch.eye(2), "b": torch.full((3, 2), 0.5)}
    figure = plots.attention_maps(weights, {"a": ["x", "y"], "b": ["u", "v", "w"]}, ["p", "q"])
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == ["u", "v", "w"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
@pytest.mark.thinned(3)
def test_any_number_of_maps(count):
    figure = plots.attention_maps({str(i): torch.zeros(2, 3, requires_grad=True) for i in range(count)})
    assert sum(len(axes.images) for axes in figure.axes) == count
    figure.draw_without_rendering()


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 0), (0, 0), (1, 40), (40, 1), (150, 150)])
@pytest.mark.thinned(5)
def test_any_size(shape):
    weights = om.sparsemax(torch.randn(shape)) if 0 not in shape else torch.zeros(shape)
    figure = plots.attention_map(weights, ["row"] * shape[0], ["column"] * shape[1], title="t")
    figure.draw_without_rendering()
    assert 0.5 < figure.get_figwidth() < 9 and 0.3 < figure.get_figheight() < 11


def test_what_is_not_a_number_is_hatched_and_not_grey():
    weights = torch.tensor([[0.5, 0.5], [torch.nan, torch.nan]])
    axes = plots.attention_map(weights).axes[0]
    assert [patch.get_xy() for patch in axes.patches] == [(-0.5, 0.5), (0.5, 0.5)]


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"'a' must be one matrix \(queries, keys\), got \(1, 2, 3\); pick one item"):
        plots.attention_maps({"a": torch.zeros(1, 2, 3)})
    with pytest.raises(ValueError, match="columns must name each of the 3, got 1"):
        plots.attention_maps({"a": torch.zeros(2, 3)}, columns=["one"])
    with pytest.raises(ValueError, match="none below zero, got -1"):
        plots.attention_map(-torch.ones(2, 3))
    with pytest.raises(ValueError, match="at least one map"):
        plots.attention_maps({})
    with pytest.raises(ValueError, match=r"clusters must be \(2, 3\), got 'a' \(3, 3\)"):
        plots.attention_maps({"a": torch.zeros(2, 3)}, clusters={"a": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match=r"clusters must be named as one of \['a'\], got 'b'"):
        plots.attention_maps({"a": torch.zeros(2, 3)}, clusters={"b": torch.zeros(2, 3)})


def test_bars(tmp_path):
    rows = {"fusedmax": torch.tensor([0.0, 0.4, 0.4, 0.2]), "mine": torch.tensor([0.5, 0.0, 0.0, 0.5])}
    figure = plots.attention_bars(rows, ["le", "chat", "noir", "dort"])
    first, second = figure.axes
    bars = [(p.get_x() + p.get_width() / 2, p.get_height()) for p in first.patches if p.get_zorder() == 2]
    assert bars == [(1.5, pytest.approx(0.4)), (3.0, pytest.approx(0.2))]
    assert sum(p.get_zorder() == 0 for p in second.patches) == 2  # grey columns
    assert len(second.collections) == 1  # equals afar are joined
    figure.savefig(tmp_path / "bars.png")
    with pytest.raises(ValueError, match="rows of one length"):
        plots.attention_bars({"a": torch.zeros(2), "b": torch.zeros(3)})
