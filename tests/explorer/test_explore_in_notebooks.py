"""`plots.explore` and `plots.explore_row`: what a notebook shows, and what the page is given."""

import base64
import html
import json
import re
from urllib.parse import parse_qs

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax import plots


def data_of(frame):
    shown = html.unescape(re.search(r'srcdoc="([^"]*)"', frame._repr_html_())[1])
    return json.loads(re.search(r'id="omegamax-data">(.*?)</script>', shown, re.DOTALL)[1])


def decoded(part):
    """The weights of a page, dense again."""
    counts = np.frombuffer(base64.b64decode(part["counts"]), "<u4")
    columns = np.frombuffer(base64.b64decode(part["column_numbers"]), "<u2")
    weights = np.frombuffer(base64.b64decode(part["weights"]), "<f4")
    dense = np.zeros((len(counts), len(part["columns"])), dtype=np.float32)
    dense[np.repeat(np.arange(len(counts)), counts), columns] = weights
    return torch.from_numpy(dense.reshape(part["layers"], part["heads"], len(part["rows"]), -1))


def test_the_page_holds_the_weights_bit_for_bit():
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float32)
    maps = {"softmax": om.softmax(scores), "sparsemax": om.sparsemax(scores)}
    data = data_of(plots.explore(maps, list("abcd"), ["<b>", "x", "</script>", "\u05d0", "z"]))
    assert data["view"] == "attention" and data["embed"] is True
    models = data["attention"]["inputs"][0]["models"]
    for (name, weights), model in zip(maps.items(), models):
        (part,) = model["parts"]
        assert model["normalizer"] == name
        assert part["columns"] == ["<b>", "x", "</script>", "\u05d0", "z"]
        assert part["exact_zeros"] is True
        assert torch.equal(decoded(part), weights)


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (2, 3, 4, 5)])
def test_heads_and_layers_may_be_left_out(shape):
    (part,) = data_of(plots.explore(torch.rand(shape)))["attention"]["inputs"][0]["models"][0]["parts"]
    assert [part["layers"], part["heads"], part["rows"], part["columns"]] == [
        *(1, 1, *shape)[-4:-2],
        ["1", "2", "3", "4"],
        ["1", "2", "3", "4", "5"],
    ]


def test_zeros_of_softmax_are_not_called_exact():
    weights = om.softmax(torch.tensor([[0.0, -200.0]], dtype=torch.float32))
    (part,) = data_of(plots.explore({"softmax": weights}))["attention"]["inputs"][0]["models"][0]["parts"]
    assert part["exact_zeros"] is False


@pytest.mark.parametrize("wrong", [torch.rand(3), torch.rand(2, 2, 2, 2, 2), torch.eye(2).long(), "weights", {}])
def test_weights_of_other_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match="explore: weights must"):
        plots.explore(wrong)


def test_tokens_must_fit():
    with pytest.raises(ValueError, match="explore: columns must name each of the 3, got 2"):
        plots.explore(torch.rand(2, 3), ["a", "b"], ["x", "y"])


def test_a_row_is_written_as_the_page_reads_it():
    frame = plots.explore_row([0.25, -torch.inf, -1.0], ["new york", "b", ""], operators=["fusedmax"], gamma=0.5)
    data = data_of(frame)
    assert data["view"] == "row"
    assert parse_qs(data["state"]) == {
        "t": ["new·york b ·"], "s": ["0.2500 0 -1.0000"], "m": ["1"], "g": ["0.5"], "v": ["fusedmax"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scores": torch.rand(2, 2)}, "one row of 1 to 400 numbers, got \\(2, 2\\)"),
        ({"scores": []}, "one row of 1 to 400"),
        ({"scores": [float("nan")]}, "finite or −inf"),
        ({"scores": [1.0], "tokens": ["a", "b"]}, "tokens must name each of the 1, got 2"),
        ({"scores": [1.0], "operators": ["sparse"]}, "operators must be among hardmax"),
        ({"scores": [1.0], "gamma": 0.0}, "gamma must be from 0.05 to 5, got 0.0"),
    ],
)
def test_rows_that_are_none_are_refused(given, said):
    with pytest.raises(ValueError, match=f"explore_row: .*{said}"):
        plots.explore_row(**given)


def test_a_frame_can_be_saved(tmp_path):
    frame = plots.explore_row([1.0, 0.0])
    frame.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and '"embed":true' not in page
    assert 'sandbox="allow-scripts' in frame._repr_html_() and "allow-same-origin" not in frame._repr_html_()
