"""The Jacobian of Differentiable(fn) where the product of Ω's Hessian with the weights vanishes, entirely or in places.

There a preconditioner made of H p alone is a quotient of rounding errors.
"""

import numpy as np
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
@pytest.mark.thinned(8)
@pytest.mark.slow
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


@pytest.mark.slow
def test_the_jacobian_of_a_norm_by_differences():
    scores = normal(2, 5, scale=0.1).requires_grad_()
    smooth = om.Differentiable(norm(1.5))
    assert gradcheck(smooth.argmax, (scores,), atol=1e-5)


def norm_by_threshold(scores, direction, order):
    """Weights and J v of the norm of an order: p ∝ z^(q−1), z = (θ − ν)+ with Σ z^q = 1 and 1/order + 1/q = 1.

    In extended precision, by bisection and Newton steps; ∂ν = p·v.
    """
    number = np.longdouble
    x, v = (t.numpy().astype(number) for t in (scores - scores.max(), direction))
    q = 1 / (1 - 1 / number(order))
    low, high = number(-1), number(0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (np.maximum(x - middle, 0) ** q).sum() > 1 else (low, middle)
    nu = low
    for _ in range(4):
        z = np.maximum(x - nu, 0)
        nu = nu + ((z**q).sum() - 1) / (q * (z ** (q - 1)).sum())
    z = np.maximum(x - nu, 0)
    w = z ** (q - 1)
    p = w / w.sum()
    moved = np.where(z > 0, (q - 1) * p / np.where(z > 0, z, 1) * (v - (p * v).sum()), 0)
    return p, moved - p * moved.sum()


@pytest.mark.parametrize("order", [1.3, 1.5, 3, 4, 8, 16])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_of_a_norm_by_its_threshold(order, scale):
    """Weights of very different size: H p = 0 and little curvature at some of them."""
    smooth = om.Differentiable(norm(order))
    scores, direction = normal(40, 8, scale=scale), normal(40, 8, seed=1)
    weights = smooth.argmax(scores.requires_grad_())
    (product,) = torch.autograd.grad(weights, scores, direction)
    for row in range(40):
        expected, moved = norm_by_threshold(scores[row].detach(), direction[row], order)
        assert np.abs(weights[row].detach().numpy() - expected).max() < 1e-13
        assert np.abs(product[row].numpy() - moved).max() < 1e-10 * np.abs(moved).max() + 1e-300


@pytest.mark.parametrize("order", [1.3, 1.5, 3, 4, 8])
def test_of_a_sum_of_powers(order):
    """J from its closed form: the inverse of the curvature, less its part along the constant direction."""
    smooth = om.Differentiable(lambda p: p.pow(order).sum(-1))
    scores, direction = normal(20, 6, scale=0.3), normal(20, 6, seed=1)
    weights = smooth.argmax(scores.requires_grad_())
    (product,) = torch.autograd.grad(weights, scores, direction)
    p = weights.detach().numpy().astype(np.longdouble)
    inverse = np.where(p > 0, np.where(p > 0, p, 1) ** (2 - np.longdouble(order)) / (order * (order - 1)), 0)
    nu = (inverse * direction.numpy()).sum(-1, keepdims=True) / inverse.sum(-1, keepdims=True)
    expected = inverse * (direction.numpy() - nu)
    assert (np.abs(product.numpy() - expected) <= 1e-10 * np.abs(expected).max(-1, keepdims=True) + 1e-14).all()


@pytest.mark.slow
def test_of_a_quadratic_form_by_elimination():
    generator = torch.Generator().manual_seed(0)
    for condition in (1e1, 1e4):
        basis = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
        matrix = basis * torch.logspace(0, -float(np.log10(condition)), 6, dtype=torch.float64) @ basis.T
        fn = lambda p, matrix=matrix: 0.5 * (p @ matrix * p).sum(-1)  # noqa: E731
        for seed in range(5):
            scores = matrix @ normal(6, seed=seed).softmax(-1)  # the optimum is that softmax, inside the simplex
            smooth = om.Differentiable(fn)
            jacobian = torch.autograd.functional.jacobian(smooth.argmax, scores)
            expected = by_elimination(fn, smooth.argmax(scores))
            torch.testing.assert_close(jacobian, expected, atol=1e-11 * condition, rtol=1e-10)
