"""The Jacobian of Differentiable(fn) where the product of Ω's Hessian with the weights vanishes, entirely or in places.

There a preconditioner made of H p alone is a quotient of rounding errors.
"""

import pytest
import torch
from cases import normal
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

COUPLED = torch.tensor([[1.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
PRIOR = torch.tensor([0.2, 0.4, 0.1, 0.2, 0.1], dtype=torch.float64)
MIXED = normal(5, 5)
MIXED = MIXED @ MIXED.T / 5 + 0.1 * torch.eye(5, dtype=torch.float64)


def norm(order):
    """Positively homogeneous: H p = 0 everywhere."""
    return lambda p: p.pow(order).sum(-1).pow(1 / order)


OMEGAS = {
    **{f"{order}-norm": norm(order) for order in (1.3, 1.5, 3.0)},
    "quadratic and linear": lambda p: 0.5 * (p @ MIXED * p).sum(-1) + 0.1 * p[..., 2] - 0.2 * p[..., 0],
    "divergence from a prior": lambda p: (torch.xlogy(p, p) - p * PRIOR.log()).sum(-1),
    "entropy and squares": lambda p: 0.5 * torch.xlogy(p, p).sum(-1) + 0.25 * p.square().sum(-1),
    "flat in one direction": lambda p: 0.5 * (p[..., :4].square().sum(-1) + torch.xlogy(p[..., 4], p[..., 4])),
}


def coupled(p):
    return 0.5 * (p @ COUPLED * p).sum(-1)


def by_elimination(fn, p):
    """J from the dense optimality conditions on the support: H y + ν 1 = v, Σ y = 0."""
    support = (p > 0).nonzero().flatten()
    size = len(support)
    system = torch.ones(size + 1, size + 1, dtype=p.dtype)
    system[-1, -1] = 0
    hessian = torch.autograd.functional.hessian(fn, p.clamp(min=1e-300))
    system[:size, :size] = hessian[support.unsqueeze(1), support]
    jacobian = torch.zeros(len(p), len(p), dtype=p.dtype)
    jacobian[support.unsqueeze(1), support] = torch.linalg.inv(system)[:size, :size]
    return jacobian


def check(fn, scores):
    smooth = om.Differentiable(fn)
    jacobian = torch.autograd.functional.jacobian(smooth.argmax, scores)
    torch.testing.assert_close(jacobian, by_elimination(fn, smooth.argmax(scores)), atol=1e-9, rtol=1e-9)
    scale = 1 + jacobian.abs().max()
    assert (jacobian - jacobian.T).abs().max() < 1e-12 * scale
    assert jacobian.sum(-1).abs().max() < 1e-12 * scale
    assert torch.linalg.eigvalsh(jacobian).min() > -1e-12 * scale


@pytest.mark.parametrize("fn", OMEGAS.values(), ids=OMEGAS)
@pytest.mark.thinned(4)
def test_is_the_inverse_on_the_face(fn):
    for seed in range(6):
        check(fn, normal(5, seed=seed, scale=(0.3, 1.0)[seed % 2]))
    check(fn, torch.tensor([0.5, 0.5, 0.25, 0.5, 0.25], dtype=torch.float64))


def test_where_an_entry_of_the_gradient_is_zero():
    scores = COUPLED @ torch.tensor([0.3, 0.6, 0.1], dtype=torch.float64)
    assert (COUPLED @ torch.tensor([0.3, 0.6, 0.1], dtype=torch.float64))[0].abs() < 1e-15
    check(coupled, scores)
    assert gradcheck(om.Differentiable(coupled).argmax, (scores.requires_grad_(),), atol=1e-6)


@pytest.mark.slow
def test_second_derivatives_where_an_entry_of_the_gradient_is_zero():
    scores = (COUPLED @ torch.tensor([0.3, 0.6, 0.1], dtype=torch.float64)).requires_grad_()
    assert gradgradcheck(om.Differentiable(coupled).argmax, (scores,), atol=1e-5)


def test_the_jacobian_of_a_norm_by_differences():
    scores = normal(2, 5, scale=0.1).requires_grad_()
    smooth = om.Differentiable(norm(1.5))
    assert gradcheck(smooth.argmax, (scores,), atol=1e-5)
