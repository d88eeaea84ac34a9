"""The figures: they draw without a screen, and what they show is what the operators return."""

import sys

import pytest
import torch
from matplotlib.figure import Figure

import omegamax as om
from omegamax import plots, registry
from omegamax.plots.groups import segments


def heights(axes):
    return sorted({round(patch.get_height(), 6) for patch in axes.patches if patch.get_zorder() == 2})


def test_figure2_shows_five_operators_and_a_zoom(tmp_path):
    figure = plots.figure2()
    left, right = figure.axes[:2]
    assert len(left.lines) == len(right.lines) == 5
    assert len(right.child_axes) == 1
    at_end = [line.get_ydata()[-1] for line in left.lines]  # all meet the plain maximum, up to softmax's tail
    assert max(at_end) - min(at_end) < 0.02
    figure.savefig(tmp_path / "figure2.pdf")


def test_rows_show_the_weights():
    scores = torch.tensor([1.0, 0.9, 0.2, -1.0])
    figure = plots.row_comparison(scores, ["a", "b", "c", "d"], regularizers={"fusedmax": om.Fused(0.1)})
    assert isinstance(figure, Figure)
    drawn = heights(figure.axes[1])
    weights = om.fusedmax(scores, strength=0.1)
    assert drawn == sorted({round(weight, 6) for weight in weights.tolist() if weight > 0})


@pytest.mark.slow
def test_rows_show_every_operator_by_default():
    panels = [axes for axes in plots.row_comparison(torch.randn(7)).axes if axes.get_visible()]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["scores", *registry.lineup(7)]
    assert set(registry.OPERATORS) <= {*titles, "entmax"}


@pytest.mark.slow
def test_rows_take_masked_scores(tmp_path):
    plots.row_comparison(torch.tensor([1.0, -torch.inf, 0.5])).savefig(tmp_path / "masked.png")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((torch.zeros(2, 3),), "one row"), ((["a", "b"],), "one row"), ((torch.zeros(3), ["a"]), "each of the 3")],
)
def test_rows_refuse(arguments, said):
    with pytest.raises(ValueError, match=said):
        plots.row_comparison(*arguments)


def test_denoising_draws_the_prox():
    signal = torch.tensor([0.0, 0.2, 3.0, 3.2])
    drawn = plots.denoising(signal, 0.5).axes[0].lines[-1].get_ydata()
    torch.testing.assert_close(torch.as_tensor(drawn), om.prox_tv1d(signal, 0.5))
    with pytest.raises(ValueError, match="one signal"):
        plots.denoising(torch.zeros(2, 3))


def test_segments():
    assert segments(torch.tensor([0.0, 0.4, 0.4, 0.2, 0.0, 0.2])) == [(1, 2), (3, 3), (5, 5)]
    assert segments(torch.zeros(3)) == []


def test_nothing_touches_pyplot_or_the_settings():
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.denoising()
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_alignments_show_the_expected_path(tmp_path):
    x, y = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 1.0, 0.0])
    figure = plots.alignment_comparison(x, y, regularizers={"sparse": om.SquaredNorm()})
    (image,) = figure.axes[-1].get_images()
    expected = om.soft_dtw_alignment(x[:, None], y[:, None], regularizer=om.SquaredNorm())
    assert image.get_array().filled(0).tolist() == expected.tolist()
    figure.savefig(tmp_path / "alignments.png")
    with pytest.raises(ValueError, match="one series"):
        plots.alignment_comparison(torch.zeros(1, 2, 3), y)


def test_binary_losses_end_at_their_margins(tmp_path):
    figure = plots.binary_losses()
    left, right = figure.axes
    assert len(left.lines) == len(right.lines) == 6
    curves = {line.get_label(): line for line in left.lines}
    for label, margin in (("sparsemax", 1.0), ("1.5-entmax", 2.0), ("hinge", 1.0), ("perceptron", 0.0)):
        t, value = (torch.as_tensor(data) for data in curves[label].get_data())
        assert (value[t >= margin + 0.01] == 0).all() and (value[t < margin - 0.05] > 0).all(), label
    slopes = torch.stack([torch.as_tensor(line.get_ydata()) for line in right.lines])
    assert slopes.min() == -1 and slopes.max() == 0
    figure.savefig(tmp_path / "losses.png")


def test_dependency_arcs_draw_what_has_probability(tmp_path):
    scores = torch.randn(5, 5, dtype=torch.float64)
    tree = om.ProjectiveTree()
    figure = plots.dependency_arcs({"MAP": tree.map(scores), "all": tree.argmax(scores)}, ["a", "b", "c", "d"])
    first, second = figure.axes
    assert len(first.patches) == 3  # an arc per word, but for the root's
    assert len(second.patches) == int((tree.argmax(scores)[1:] > 0).sum())
    plots.dependency_arcs().savefig(tmp_path / "arcs.png")
    with pytest.raises(ValueError, match=r"over 2 words, of shape \(3, 3\)"):
        plots.dependency_arcs({"tree": torch.zeros(2, 2)}, ["a", "b"])
