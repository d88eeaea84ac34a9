"""Maps of attention weights show the weights, and say how many are zero."""

import pytest
import torch

import omegamax as om
from omegamax import plots


def test_maps_show_the_weights(tmp_path):
    scores = torch.randn(3, 5)
    weights = {"softmax": om.softmax(scores), "sparsemax": om.sparsemax(scores)}
    figure = plots.attention_maps(weights, marked=scores > 0, queries=list("abc"), keys=list("vwxyz"))
    for axes, (name, matrix) in zip(figure.axes, weights.items()):
        drawn = axes.images[0].get_array()
        assert drawn.filled(0).tolist() == matrix.double().tolist()
        assert drawn.mask.sum() == (matrix == 0).sum()
        zeros = 100 * (matrix == 0).double().mean()
        assert axes.get_title(loc="left") == f"{name}: {zeros:.0f}% zeros"
        assert len(axes.collections[0].get_offsets()) == (scores > 0).sum()
    figure.savefig(tmp_path / "maps.png")


@pytest.mark.parametrize("count", [1, 4])
def test_any_number_of_maps(count):
    figure = plots.attention_maps({str(i): torch.zeros(2, 3, requires_grad=True) for i in range(count)})
    assert sum(axes.get_visible() for axes in figure.axes) == count
    figure.draw_without_rendering()


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"one shape, got \[\(2, 3\), \(3, 3\)\]; pick one item"):
        plots.attention_maps({"a": torch.zeros(2, 3), "b": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match="got \\[\\(1, 2, 3\\)\\]"):
        plots.attention_maps({"a": torch.zeros(1, 2, 3)})
    with pytest.raises(ValueError, match="keys must name each of the 3, got 1"):
        plots.attention_maps({"a": torch.zeros(2, 3)}, keys=["one"])
