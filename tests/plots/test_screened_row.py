"""The picture of a screened row tells the truth: bounds hold, and no key with weight is left out."""

import pytest
import torch

import omegamax as om
from omegamax import plots
from omegamax.plots.screened_row import screen_row


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_bounds_hold_and_candidates_hold_the_support(alpha, spread):
    generator = torch.Generator().manual_seed(int(10 * alpha))
    for n_keys, size in ((50, 16), (300, 64), (7, 3)):
        query, key = (torch.randn(*shape, size, generator=generator).double() for shape in ((), (n_keys,)))
        query *= spread
        row = screen_row(query, key, alpha=alpha)
        in_float32 = (query.float() / size**0.5) @ key.float().T
        for scores in (row.scores, in_float32):
            assert ((scores - row.estimates).abs() <= row.errors).all()
        found = om.sparse_attention_with_weights(query[None], key, torch.eye(n_keys).double(), om.Tsallis(alpha))
        torch.testing.assert_close(found.output[0], row.weights)
        assert row.candidates[row.weights > 0].all() and row.candidates.sum() < n_keys + (spread < 1)
        lowest = row.scores[row.weights > 0].min()
        assert row.threshold <= lowest and lowest > row.scores.max() - 1 / (alpha - 1)


def test_one_wide_feature_makes_wide_bounds():
    """The levels are those of the largest entry, so the others are rounded coarsely."""
    query, key = torch.ones(8), torch.rand(20, 8)
    wide = key.clone()
    wide[:, 0] *= 100
    assert screen_row(query, wide).errors.mean() > 20 * screen_row(query, key).errors.mean()
    assert ((screen_row(query, wide).scores - screen_row(query, wide).estimates).abs() > 0).any()


def test_rows_without_spread_can_be_drawn():
    for query, key in ((torch.zeros(4), torch.randn(5, 4)), (torch.ones(1), torch.ones(1, 1))):
        plots.screened_row(query, key).draw_without_rendering()
    plots.screened_row([1, 2], [[3, 4], [5, 6]]).draw_without_rendering()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"screened_row: query must have the shape \(size,\) and key \(K, size\), got"):
        plots.screened_row(torch.randn(2, 4), torch.randn(5, 4))
    with pytest.raises(ValueError, match="screened_row: query must have"):
        plots.screened_row(torch.randn(3), torch.randn(5, 4))
    with pytest.raises(ValueError, match="alpha must be above 1, got 1; at 1 every key has weight"):
        plots.screened_row(torch.randn(4), torch.randn(5, 4), alpha=1)
