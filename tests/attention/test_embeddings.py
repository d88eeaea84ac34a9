"""Positions: where a sequence starts, what a shift does, where a table ends. The formula is a test of the lecture's."""

import pytest
import torch

import omegamax as om

SMALL = {"n_heads": 2, "n_layers": 2, "hidden_size": 16}


def test_start():
    x = torch.randn(2, 7, 5)
    for positions in (om.attention.SinusoidalPositions(), om.attention.LearnedPositions(7, 5)):
        torch.testing.assert_close(positions(x)[:, 3:], positions(x[:, 3:], start=3))


def test_a_shift_is_a_rotation():
    waves = om.attention.SinusoidalPositions()(torch.zeros(50, 6, dtype=torch.float64))
    turn, *_ = torch.linalg.lstsq(waves[:-4], waves[4:])
    torch.testing.assert_close(waves[:-4] @ turn, waves[4:])
    torch.testing.assert_close(turn @ turn.T, torch.eye(6, dtype=torch.float64))


def test_the_end_of_the_table():
    with pytest.raises(ValueError, match="there are 4 positions, got a sequence that ends at 6"):
        om.attention.LearnedPositions(4, 2)(torch.zeros(3, 2), start=3)


def test_order_matters_only_through_them():
    x, order = torch.randn(1, 5, 8), torch.tensor([3, 1, 0, 4, 2])
    without = om.TransformerEncoder(8, **SMALL).eval()
    torch.testing.assert_close(without(x[:, order]).output, without(x).output[:, order], atol=1e-5, rtol=1e-5)
    placed = om.TransformerEncoder(8, **SMALL, positions=om.attention.SinusoidalPositions()).eval()
    assert (placed(x[:, order]).output - placed(x).output[:, order]).abs().max() > 0.1
