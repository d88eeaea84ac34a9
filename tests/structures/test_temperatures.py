"""Temperatures at the ends of the range of numbers: the smallest give the hard maximum, the largest the least Ω."""

import math

import pytest
import torch

import omegamax as om

REGULARIZERS = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.3)]
TINY = [1e-7, 1e-38, 1e-46, 5e-324]
HUGE = [1e7, 1e39, 1e300]

pytestmark = pytest.mark.thinned(3)  # the full round takes all
regularizers = pytest.mark.parametrize("omega", REGULARIZERS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def draws(dtype):
    """Structures with potentials of two items, one of them a thousand times as large as the other."""
    size = torch.tensor([1.0, 1e3], dtype=dtype)
    chain = torch.randn(2, 4, 3, 3, dtype=dtype) * size.reshape(2, 1, 1, 1)
    return [
        (om.Chain(), chain),
        (om.Chain(), om.Chain.from_emissions(chain[:, :, 0], chain[0, 0])),
        (om.Alignment(), torch.randn(2, 5, 6, dtype=dtype) * size.reshape(2, 1, 1)),
        (om.ProjectiveTree(), torch.randn(2, 5, 5, dtype=dtype) * size.reshape(2, 1, 1)),
    ]


def parts(weights):
    return (weights,) if isinstance(weights, torch.Tensor) else tuple(weights)


@pytest.mark.parametrize("gamma", TINY, ids=str)
@dtypes
@regularizers
def test_tiny_ones_give_the_hard_maximum(gamma, dtype, omega, backend):
    for structure, potentials in draws(dtype):
        smooth = om.Scaled(omega, gamma)
        torch.testing.assert_close(
            structure.max(potentials, smooth), structure.max(potentials, om.Hard()), rtol=1e-6, atol=1e-6
        )
        best = structure.map(potentials)
        for found, expected in zip(parts(structure.argmax(potentials, smooth)), parts(best)):
            torch.testing.assert_close(found, expected)
        drawn = structure.sample(potentials, smooth, n_samples=2)
        assert all(torch.equal(part, torch.stack([other] * 2)) for part, other in zip(parts(drawn), parts(best)))
        torch.testing.assert_close(structure.log_prob(potentials, best, smooth), torch.zeros(2, dtype=dtype))


@pytest.mark.parametrize("gamma", HUGE, ids=str)
@dtypes
@regularizers
def test_huge_ones_forget_the_scores(gamma, dtype, omega):
    for structure, potentials in draws(dtype):
        nothing = [torch.zeros_like(part) for part in parts(potentials)]
        flat = nothing[0] if len(nothing) == 1 else type(potentials)(*nothing)
        found = structure.argmax(potentials, om.Scaled(omega, gamma * 1e3))
        for ours, expected in zip(parts(found), parts(structure.argmax(flat, omega))):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
        assert not bool(structure.max(potentials, om.Scaled(omega, gamma)).isnan().any())


@pytest.mark.parametrize("gamma", [*TINY, *HUGE], ids=str)
@regularizers
def test_a_single_structure_has_its_score_at_every_temperature(gamma, omega):
    potentials = torch.tensor([[[[0.1]], [[0.7]]]], dtype=torch.float32, requires_grad=True)
    value = om.Chain().max(potentials, om.Scaled(omega, gamma))
    torch.testing.assert_close(value.detach(), torch.tensor([0.8], dtype=torch.float32))
    (gradient,) = torch.autograd.grad(value.sum(), potentials)
    torch.testing.assert_close(gradient, torch.ones_like(potentials))


@pytest.mark.parametrize("gamma", TINY, ids=str)
@regularizers
def test_forbidden_parts_and_ties(gamma, omega):
    potentials = torch.zeros(2, 3, 2, 2, dtype=torch.float32)
    potentials[1] = -torch.inf
    found = om.Chain().argmax(potentials, om.Scaled(omega, gamma))
    assert bool(found.isfinite().all()) and bool((found[1] == 0).all())
    assert om.Chain().max(potentials, om.Scaled(omega, gamma)).tolist() == pytest.approx([0.0, -math.inf], abs=1e-6)


@pytest.mark.parametrize("gamma", TINY, ids=str)
@regularizers
def test_soft_dtw(gamma, omega, backend):
    x, y = torch.randn(2, 5, 2, dtype=torch.float32), torch.randn(2, 6, 2, dtype=torch.float32)
    expected = om.soft_dtw(x, y, regularizer=om.Hard())
    points = x.clone().requires_grad_()
    value = om.soft_dtw(points, y, gamma, regularizer=omega)
    torch.testing.assert_close(value.detach(), expected)
    (gradient,) = torch.autograd.grad(value.sum(), points)
    assert bool(gradient.isfinite().all())
    path = om.soft_dtw_alignment(x, y, regularizer=om.Hard())
    torch.testing.assert_close(om.soft_dtw_alignment(x, y, gamma, regularizer=omega), path)
    costs = torch.cdist(x, y).square()
    torch.testing.assert_close(
        om.structures.soft_dtw_from_costs(costs, gamma, regularizer=omega), expected, rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(om.soft_dtw(x, y, torch.tensor(gamma, dtype=torch.float64), regularizer=omega), expected)


@pytest.mark.parametrize("gamma", TINY, ids=str)
def test_losses(gamma):
    potentials = torch.randn(2, 4, 3, 3, dtype=torch.float32)
    gold = om.Chain().map(torch.randn(2, 4, 3, 3, dtype=torch.float32))
    smooth, hard = om.CRFLoss(om.Chain(), gamma=gamma), om.PerceptronLoss(om.Chain())
    torch.testing.assert_close(smooth(potentials, gold), hard(potentials, gold), rtol=1e-5, atol=1e-5)


def test_one_item_does_not_change_another():
    potentials = torch.randn(2, 4, 3, 3, dtype=torch.float32)
    smooth = om.Scaled(om.Shannon(), 1e-7)
    alone = om.Chain().argmax(1e-7 * potentials[:1], smooth)
    beside = torch.stack([1e-7 * potentials[0], 1e30 * potentials[1]])
    torch.testing.assert_close(om.Chain().argmax(beside, smooth)[:1], alone)
