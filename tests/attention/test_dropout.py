"""Dropout by 16 bits for an element: its law, its scale, its derivative, and where PyTorch's is taken."""

from __future__ import annotations

import math

import pytest
import torch

from omegamax.attention.dropout import Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 499), (7, 11, 13, 199)])
def test_drops_each_place_of_a_word_with_the_probability(probability, shape):
    torch.manual_seed(0)
    dropped = dropout(torch.ones(shape), probability).flatten() == 0
    for place in range(4):  # four elements share a draw of 64 bits
        share = dropped[place::4].double().mean()
        deviation = math.sqrt(probability * (1 - probability) / len(dropped[place::4]))
        assert abs(share - probability) < 5 * deviation
    neighbours = (dropped[:-1] & dropped[1:]).double().mean()
    assert abs(neighbours - probability**2) < 5 / math.sqrt(len(dropped))


def test_keeps_the_mean_and_scales_the_gradient_as_the_value():
    torch.manual_seed(1)
    values = torch.randn(50, 61).mT.requires_grad_()  # not contiguous
    output = dropout(values, 0.3)
    assert output.shape == values.shape
    kept = output != 0
    torch.testing.assert_close(output[kept], values[kept] / 0.7, rtol=2e-5, atol=0)  # p is a multiple of 2^-16
    (gradient,) = torch.autograd.grad(output.sum(), values)
    torch.testing.assert_close(gradient, kept.to(values.dtype) / 0.7, rtol=2e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_keeps_the_type_and_repeats_with_the_seed(dtype):
    values = torch.ones(33, dtype=dtype)
    torch.manual_seed(2)
    first = dropout(values, 0.5)
    torch.manual_seed(2)
    assert first.dtype is dtype and torch.equal(first, dropout(values, 0.5))


def test_nothing_is_dropped_outside_of_training_or_with_probability_zero():
    values = torch.randn(5)
    assert dropout(values, 0.5, training=False) is values and dropout(values, 0.0) is values
    assert Dropout(0.5).eval()(values) is values
    assert not dropout(values, 1.0).any()
    assert dropout(values[:0], 0.5).shape == (0,)


@pytest.mark.parametrize("probability", [-0.1, 1.5])
def test_a_probability_lies_between_zero_and_one(probability):
    with pytest.raises(ValueError, match="probability"):
        dropout(torch.ones(3), probability)


def test_transforms_and_graphs_take_that_of_torch():
    values = torch.ones(64, 8)
    rows = torch.func.vmap(lambda x: dropout(x, 0.5), randomness="different")(values)
    assert len({tuple(row.tolist()) for row in rows}) > 1
    compiled = torch.compile(lambda x: dropout(x, 0.5), fullgraph=True, backend="eager")
    assert set(compiled(values).unique().tolist()) == {0.0, 2.0}
