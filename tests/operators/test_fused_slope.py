"""The derivative of fusedmax by its strength, where neighbours of equal weight are two segments."""

import torch
from cases import normal

import omegamax as om


def test_slope_of_tied_scores_by_differences():
    """Two equal scores between a higher and a lower one keep their level: what one side takes, the other gives."""
    scores = (2 * normal(200, 70, scale=0.6, seed=4)).round() / 2
    along = normal(200, 70, seed=1)
    strength = torch.full((200, 1), 0.05, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad((om.Fused(strength).argmax(scores) * along).sum(), strength)
    high, here, low = (om.Fused(0.05 + step).argmax(scores) for step in (1e-6, 0.0, -1e-6))
    straight = (high - 2 * here + low).abs().amax(-1) < 1e-12  # no change of support or segments between the points
    assert int(straight.sum()) > 150
    expected = ((high - low) * along).sum(-1) / 2e-6
    torch.testing.assert_close(slope[straight, 0], expected[straight], atol=1e-6, rtol=0)
