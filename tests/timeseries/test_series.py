"""Reading of time series: every form gives the same numbers, and what is wrong is named."""

import numpy as np
import pytest
import torch

from omegamax.timeseries import as_series


def test_every_form_of_the_same_series():
    x = np.random.default_rng(0).normal(size=(3, 5, 2))
    expected = torch.from_numpy(x)
    forms = [
        (x, "last"),
        (x.transpose(0, 2, 1), "first"),
        (list(x), "last"),
        ([each.T for each in x], "first"),
        (x.tolist(), "last"),
        (torch.from_numpy(x), "last"),
        (x[:, ::-1][:, ::-1], "last"),
        (x.astype(">f8"), "last"),
    ]
    for form, channels in forms:
        found = as_series("me", form, channels=channels)
        assert torch.equal(found.values, expected) and found.lengths.tolist() == [5, 5, 5]


def test_one_channel():
    for form in ([[1.0, 2.0], [3.0, 4.0]], np.array([[1, 2], [3, 4]]), [np.array([1, 2]), torch.tensor([3.0, 4.0])]):
        assert as_series("me", form).values.squeeze(-1).tolist() == [[1, 2], [3, 4]]


def test_types():
    assert as_series("me", np.zeros((1, 2), np.float32)).values.dtype == torch.float32
    assert as_series("me", torch.zeros(1, 2, dtype=torch.bfloat16)).values.dtype == torch.float32
    assert as_series("me", np.zeros((1, 2), np.uint16)).values.dtype == torch.float64
    assert as_series("me", [np.zeros(2, np.float32), np.zeros(3)]).values.dtype == torch.float64
    assert as_series("me", torch.zeros(1, 2, requires_grad=True)).values.requires_grad is False
    assert as_series("me", torch.zeros(1, 2)).from_torch and not as_series("me", np.zeros((1, 2))).from_torch


def test_padding_of_nan_at_the_end():
    x = np.full((2, 4, 2), np.nan)
    x[0, :3], x[1, :1] = 1.0, 2.0
    found = as_series("me", x)
    assert found.lengths.tolist() == [3, 1]
    assert found.values.shape == (2, 3, 2) and (found.values[1, 1:] == 0).all()
    in_list = as_series("me", [x[0], x[1, :2]])
    assert torch.equal(found.values, in_list.values) and torch.equal(found.lengths, in_list.lengths)


def test_no_series():
    assert len(as_series("me", [])) == 0 and len(as_series("me", np.zeros((0, 5)))) == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([[1.0, float("nan"), 2.0]], "got NaN in series 0 of x at time 1, channel 0"),
        ([[1.0], [2.0, float("inf")]], "got inf in series 1 of x at time 1, channel 0"),
        (np.array([[[1.0, 2.0], [3.0, np.nan]]]), "got NaN in series 0 of x at time 1, channel 1"),
        ([[1.0], [float("nan")]], "series 1 of x with NaN only"),
        ([np.zeros(3), np.zeros(0)], "got shape \\(0, 1\\) for series 1"),
        ([np.zeros((3, 2)), np.zeros((3, 3))], "got 2 in series 0 and 3 in series 1"),
        (np.zeros(5), "got shape \\(5,\\)"),
        ([1.0, 2.0], "got a list of numbers"),
        ([np.zeros((2, 2, 2))], "got shape \\(2, 2, 2\\) for series 0"),
    ],
    ids=str,
)
def test_wrong_values_are_named(data, expected):
    with pytest.raises(ValueError, match=f"^me: .*{expected}.*; "):
        as_series("me", data)


@pytest.mark.parametrize(
    "data", [[["a", "b"]], np.array([["1.0"]]), [[None]], np.zeros((1, 2), complex), {1: 2}], ids=str
)
def test_wrong_kinds_are_named(data):
    with pytest.raises(TypeError, match=r"^me: .*must hold .*; "):
        as_series("me", data)


def test_channels_must_be_named():
    with pytest.raises(ValueError, match='channels must be "last" or "first", got 1'):
        as_series("me", np.zeros((1, 2)), channels=1)
