"""A weight that was rounded to zero is not drawn or counted as an exact zero."""

import pytest
import torch
from matplotlib.colors import to_hex

import omegamax as om
from omegamax import plots, registry
from omegamax.plots.style import ZERO
from omegamax.plots.zeros import rounded_to_zero

FAR = torch.tensor([[0.0, -1.0, -300.0, -300.0], [0.0, -900.0, -1.0, -900.0]])  # softmax is 0 in float32 beyond −104


def grey(axes):
    """Which cells are grey."""
    image = axes.images[0]
    return [[to_hex(cell) == ZERO.lower() for cell in row] for row in image.to_rgba(image.get_array())]


def borders(axes):
    (found,) = [collection for collection in axes.collections if collection.get_gid() == "borders"]
    return len(found.get_segments())


def test_softmax_has_no_grey_cells():
    weights = {"softmax": om.softmax(FAR), "sparsemax": om.sparsemax(FAR)}
    assert int((weights["softmax"] == 0).sum()) == 4
    figure = plots.attention_maps(weights)
    softmax, sparsemax = figure.axes[:2]
    assert not any(map(any, grey(softmax))) and borders(softmax) == 6
    assert softmax.get_title(loc="left") == "softmax: 50% below 1e-30"
    assert grey(sparsemax) == (weights["sparsemax"] == 0).tolist()
    assert sparsemax.get_title(loc="left") == "sparsemax: 75% zeros"


@pytest.mark.parametrize("exact", [True, False])
def test_the_caller_knows_best(exact):
    weights = om.softmax(FAR)
    axes = plots.attention_map(weights, title="head 3", exact_zeros=exact).axes[0]
    assert grey(axes) == ((weights == 0) & exact).tolist()


def test_masked_cells_are_grey_under_softmax():
    allowed = torch.tensor([[True, True, True, False], [True, True, True, True]])
    weights = om.softmax(FAR, mask=allowed)
    axes = plots.attention_map(weights, title="softmax", exact_zeros=~allowed).axes[0]
    assert grey(axes) == (~allowed).tolist()


def test_a_row_with_nothing_allowed_is_exact():
    weights = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert rounded_to_zero(weights, name="softmax").tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_weights_say_that_others_were_rounded(dtype):
    weights = torch.softmax(-torch.linspace(0, 2000, 100, dtype=dtype), -1)[None]
    assert bool((weights == 0).any())
    assert torch.equal(rounded_to_zero(weights), weights == 0)
    assert torch.equal(rounded_to_zero(weights.double()), weights == 0)


def test_products_of_sparse_weights_are_exact():
    """A sparse alignment in float64 has weights of 1e-40: products of many local ones, far above the least float64."""
    weights = torch.tensor([[1.0, 3.1e-42, 0.0]], dtype=torch.float64)
    assert not bool(rounded_to_zero(weights).any())
    assert bool(rounded_to_zero(weights.float()).any())


def test_soft_dtw_has_no_exact_zeros():
    """Series far apart: most of the expected alignment is below the least float64."""
    x, y = torch.linspace(0, 40, 30), torch.linspace(0, 40, 36) ** 1.1
    figure = plots.alignment_comparison(x, y, gamma=0.1)
    said = {title.get_title(loc="left"): axes.get_xlabel() for title, axes in zip(figure.axes[1:4], figure.axes[5:8])}
    assert said["entropy: soft-DTW"].endswith("% of the cells are below 1e-250"), said
    assert not any(map(any, grey(figure.axes[6])))
    assert said["hard: DTW"].endswith("% of the cells are exactly zero")
    assert said["squared norm: sparse"].endswith("% of the cells are exactly zero")
    mine = om.soft_dtw_alignment(x.double()[:, None], y.double()[:, None], 0.1)
    assert bool((mine == 0).any())
    drawn = plots.alignment_matrices({"mine": mine}, x, y)
    assert drawn.axes[3].get_xlabel().endswith("below 1e-250")


def test_bars_and_rows_of_softmax_have_no_grey_columns():
    row = FAR[0]
    figure = plots.attention_bars({"softmax": om.softmax(row), "sparsemax": om.sparsemax(row)})
    assert [sum(patch.get_zorder() == 0 for patch in axes.patches) for axes in figure.axes] == [0, 3]
    figure = plots.row_comparison(row, regularizers={"mine": om.Shannon(), "yours": om.SquaredNorm()})
    assert [sum(patch.get_zorder() == 0 for patch in axes.patches) for axes in figure.axes[1:3]] == [0, 3]
    scaled = plots.row_comparison(row, regularizers={"a": om.Scaled(om.Shannon(), 0.5), "b": om.Tsallis(1.0)})
    assert [sum(patch.get_zorder() == 0 for patch in axes.patches) for axes in scaled.axes[1:3]] == [0, 0]


def test_surfaces_of_softmax_are_not_grey():
    figure = plots.argmax_surfaces({"softmax": om.Shannon(), "sparsemax": om.SquaredNorm()}, reach=1500)
    for axes, grey_faces in zip(figure.axes, (False, True)):
        faces = {to_hex(face) for face in axes.collections[0].get_facecolor()}
        assert (ZERO.lower() in faces) == grey_faces


def test_lines_of_softmax_are_all_there():
    weights = om.softmax(FAR)
    for exact, count in ((None, 4), (False, 8)):
        figure = plots.attention_lines(weights, list("ab"), list("wxyz"), exact_zeros=exact)
        (lines,) = [one for one in figure.axes[0].collections if one.get_gid() == "lines"]
        assert len(lines.get_segments()) == count


def test_supports_of_softmax_are_whole_rows():
    maps = [om.softmax(FAR), om.softmax(FAR[:, :3])]
    figure = plots.support_histograms({"softmax": maps, "sparsemax": [om.sparsemax(FAR)]})
    assert figure.axes[0].get_title(loc="left") == "softmax: 3.5 on average"
    assert figure.axes[1].get_title(loc="left") == "sparsemax: 1.0 on average"


def test_parts_of_structures_above_a_bound():
    marginals = torch.tensor([[1.0, 1e-290], [0.0, 1.0]], dtype=torch.float64)
    assert plots.matching_maps({"a": marginals}).axes[0].get_title(loc="left") == "a: 2 pairs above 1e-250"
    assert not any(map(any, grey(plots.matching_maps({"a": marginals}).axes[0])))
    assert plots.matching_maps({"a": torch.eye(2)}).axes[0].get_title(loc="left") == "a: 2 pairs"


@pytest.mark.parametrize("name", list(registry.lineup(6)))
def test_operators_say_whether_they_reach_zero(name):
    smooth = registry.lineup(6)[name]
    weights = smooth.argmax(torch.tensor([0.0, -30.0, -31.0, -40.0, -20.0, -50.0], dtype=torch.float64))
    assert bool((weights > 0).all()) == smooth.always_positive


def test_half_precision_rounds_sooner():
    weights = torch.softmax(torch.tensor([[0.0, -3.0, -14.0, -40.0]]), -1).half()
    assert int((weights == 0).sum()) == 1 and bool(rounded_to_zero(weights)[0, 3])
    assert bool(rounded_to_zero(weights.float())[0, 3])  # a copy in float32 has no more digits
    figure = plots.attention_maps({"softmax": weights.float()})
    assert figure.axes[0].get_title(loc="left") == "softmax: 50% below 1e-06"  # e^−14 is, too
