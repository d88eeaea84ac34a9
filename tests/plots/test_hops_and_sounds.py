"""What the figures of hops over a story and of words in a sound show, read back from the drawn figure."""

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax import plots


def test_hops_have_the_numbers_of_their_weights_and_facts_have_a_colour():
    weights = om.sparsemax(torch.tensor([[2.0, 0.0], [1.5, 3.0], [-1.0, 2.9]]), dim=0)
    figure = plots.memory_hops(weights, ["ada ran", "bo sat", "cleo slept"], facts=[1], title="who sat? bo")
    (axes,) = figure.axes
    written = {(round(text.get_position()[1]), round(text.get_position()[0])): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "0.75", (1, 0): "0.25", (1, 1): "0.55", (2, 1): "0.45"}
    colours = [label.get_color() for label in axes.get_yticklabels()]
    assert colours[0] == colours[2] != colours[1]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["hop 1", "hop 2"]


def test_a_sound_is_above_its_weights_and_both_end_at_the_same_second():
    bands, weights = torch.rand(12, 5), om.sparsemax(torch.randn(2, 4))
    above, below = plots.sound_attention(weights, bands, ["one", "two"], seconds=0.4).axes
    np.testing.assert_allclose(above.images[0].get_array(), bands.T)
    np.testing.assert_allclose(below.images[0].get_array().filled(0), weights)
    # Four steps take 0.4 seconds: second t is at 10 t, and the first step begins at −0.5.
    times = [float(label.get_text()) for label in below.get_xticklabels()]
    np.testing.assert_allclose(below.get_xticks(), [10 * time - 0.5 for time in times])
    assert times[-1] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("bands", "seconds", "message"),
    [(torch.rand(12), 1.0, "bands"), (torch.rand(0, 5), 1.0, "bands"), (torch.rand(12, 5), 0.0, "seconds")],
)
def test_a_sound_that_is_none(bands, seconds, message):
    with pytest.raises(ValueError, match=f"sound_attention: {message}"):
        plots.sound_attention(torch.full((2, 4), 0.25), bands, ["one", "two"], seconds=seconds)
