"""SparseMAP as an object with a gap: how far value and mean may be from the exact ones."""

import pytest
import torch

import omegamax as om


@pytest.mark.parametrize("atol", [1e-3, 0.1, 1.0])
def test_value_and_mean_are_within_the_gap(atol):
    scores = 0.3 * torch.randn(3, 13, 13, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact, early = om.SparseMAP(om.Arborescence()), om.SparseMAP(om.Arborescence(), atol=atol)
    value, mean = exact.max_and_argmax(scores)
    early_value, early_mean = early.max_and_argmax(scores)
    assert bool((early_value <= value + 1e-9).all()) and bool((early_value >= value - atol - 1e-9).all())
    distance = (mean - early_mean).flatten(1).norm(dim=1)
    assert bool((distance <= (2 * atol) ** 0.5 + 1e-6).all())
    assert float(distance.max()) > 0  # the search did end earlier


def test_losses_use_the_gap():
    tree = om.Arborescence()
    scores = 0.1 * torch.randn(2, 9, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores.requires_grad_()
    heads = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7]] * 2)
    exact = om.SparseMAPLoss(tree, reduction="none")(scores, heads)
    early = om.FenchelYoungLoss(om.SparseMAP(tree, atol=0.05), reduction="none")(scores, heads)
    assert bool((early <= exact + 1e-9).all()) and bool((early >= exact - 0.05 - 1e-9).all())
    assert not torch.equal(early, exact)
    gradient = torch.autograd.grad(early.sum(), scores)[0]
    wanted = torch.autograd.grad(exact.sum(), scores)[0]
    assert bool(((gradient - wanted).flatten(1).norm(dim=1) <= 0.1**0.5).all())


def test_a_negative_gap_is_refused():
    with pytest.raises(ValueError, match="SparseMAP: atol"):
        om.SparseMAP(om.Matching(), atol=-1.0)
