"""Any differentiable Ω: the dedicated operators again, a certified gap, and a warning with the true gap."""

import numpy as np
import pytest
import torch
from cases import normal
from oracles.simplex_qp import by_programming
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

close = torch.testing.assert_close


def ridge(p):
    return 0.5 * (p.square().sum(-1) - 1)


def negentropy(p):
    return torch.xlogy(p, p).sum(-1)


def square_norm(order):
    return lambda p: 0.5 * (p.pow(order).sum(-1).pow(2 / order) - 1)


def tilted(p):
    """An Ω of no family: not separable, not symmetric."""
    return 0.5 * p.square().sum(-1) + 0.3 * (p[..., 1:] - p[..., :-1]).square().sum(-1) + 0.1 * torch.exp(p[..., 0])


PAIRS = {
    "half squared norm": (ridge, om.SquaredNorm()),
    "negentropy": (negentropy, om.Shannon()),
    "squared 1.5-norm": (square_norm(1.5), om.SquaredPNorm(1.5)),
    "squared 1.2-norm": (square_norm(1.2), om.SquaredPNorm(1.2)),
    "norm": (lambda p: p.square().sum(-1).sqrt() - 1, om.NormEntropy(2.0)),
}
pairs = pytest.mark.parametrize("fn, dedicated", PAIRS.values(), ids=PAIRS.keys())


@pairs
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.thinned(5)
def test_reproduces_the_dedicated_operator(fn, dedicated, scale):
    smooth, scores = om.Differentiable(fn), normal(20, 12, scale=scale)
    direction = normal(20, 12, seed=1)
    results = []
    for operator in (smooth, dedicated):
        x = scores.clone().requires_grad_()
        weights, value = operator.argmax(x), operator.max(x)
        (gradient,) = torch.autograd.grad((weights * direction).sum() + value.sum(), x)
        results.append((weights.detach(), value.detach(), gradient))
    (weights, value, gradient), (right, best, slope) = results
    close(weights, right, atol=1e-6, rtol=0)
    close(value, best, atol=1e-6, rtol=0)
    settled = ~((right > 0) & (right < 1e-5)).any(-1)  # a weight about to vanish has a derivative about to jump
    assert int(settled.sum()) >= 10 or scale == 10
    close(gradient[settled], slope[settled], atol=1e-6, rtol=1e-6)
    assert torch.equal(smooth.gap(scores, results[0][0]) < 1e-6, torch.ones(20, dtype=torch.bool))


@pairs
def test_float32_and_half(fn, dedicated):
    for dtype, atol in ((torch.float32, 2e-4), (torch.bfloat16, 1e-2)):
        scores = normal(10, 8, dtype=dtype)
        weights = om.Differentiable(fn).argmax(scores)
        assert weights.dtype is dtype
        close(weights.float(), dedicated.argmax(scores).float(), atol=atol, rtol=0)


def test_an_omega_of_no_family():
    smooth = om.Differentiable(tilted)
    for seed in range(3):
        row = normal(4, seed=seed)
        expected = by_programming(row.numpy(), lambda p: float(tilted(torch.tensor(p))))
        close(smooth.argmax(row), torch.tensor(expected), atol=2e-6, rtol=0)
        value = expected @ row.numpy() - float(tilted(torch.tensor(expected)))
        assert float(smooth.max(row)) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    "fn", [ridge, negentropy, square_norm(1.5), tilted], ids=["ridge", "entropy", "pnorm", "tilted"]
)
@pytest.mark.thinned(4)
def test_backward_is_proposition_1(fn):
    """Dense: J = S − S11'S / 1'S1 with S the inverse Hessian on the support."""
    smooth = om.Differentiable(fn)
    for seed in range(3):
        row = normal(5, seed=seed, scale=0.5)
        jacobian = torch.autograd.functional.jacobian(smooth.argmax, row)
        p = smooth.argmax(row)
        s = p > 0
        hessian = torch.autograd.functional.hessian(fn, p.clamp(min=1e-300))[s][:, s]
        inverse = np.linalg.inv(hessian.numpy())
        ones = inverse.sum(-1, keepdims=True)
        expected = torch.zeros(5, 5).double()
        index = s.nonzero().flatten()
        expected[index.unsqueeze(-1), index] = torch.from_numpy(inverse - ones @ ones.T / ones.sum())
        close(jacobian, expected, atol=1e-8, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("fn", [ridge, negentropy, tilted], ids=["ridge", "entropy", "tilted"])
def test_derivatives_of_both_orders(fn):
    smooth = om.Differentiable(fn)
    scores = torch.tensor([[0.3, 0.1, -0.1, 0.15], [0.2, -0.3, 0.25, 0.05]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(smooth.max, (scores,), atol=1e-6)
    assert gradcheck(smooth.argmax, (scores,), atol=1e-6)
    assert gradgradcheck(smooth.argmax, (scores,), atol=1e-5, rtol=1e-3)
    expected = torch.autograd.functional.jacobian(smooth.argmax, scores[0].detach())
    close(torch.func.jacrev(smooth.argmax)(scores[0].detach()), expected, atol=1e-9, rtol=1e-8)
    close(torch.func.jacfwd(smooth.argmax)(scores[0].detach()), expected, atol=1e-9, rtol=1e-8)
    close(torch.func.hessian(smooth.max)(scores[0].detach()), expected, atol=1e-9, rtol=1e-8)


@pairs
@pytest.mark.thinned(2)
def test_masks_and_edges(fn, dedicated):
    smooth = om.Differentiable(fn)
    scores = normal(7, 6)
    scores[0, 2] = -torch.inf
    scores[1] = -torch.inf
    scores[2, 1:] = -torch.inf
    scores[3, 4], scores[4, 0] = torch.nan, torch.inf
    scores[5] = 0.5
    x = scores.clone().requires_grad_()
    weights, value = smooth.argmax(x), smooth.max(x)
    close(weights, dedicated.argmax(scores), atol=1e-6, rtol=0, equal_nan=True)
    close(value, dedicated.max(scores), atol=1e-6, rtol=1e-6, equal_nan=True)
    (gradient,) = torch.autograd.grad((weights[[0, 1, 2, 5, 6]] * normal(5, 6, seed=2)).sum(), x)
    assert bool(gradient[[0, 1, 2, 5, 6]].isfinite().all())
    assert gradient[0, 2] == 0 and bool((gradient[1] == 0).all())
    mask = torch.tensor([True, False, True, True, False, True])
    removed = smooth.argmax(normal(6)[mask])
    close(smooth.argmax(normal(6), mask=mask)[mask], removed, atol=1e-8, rtol=0)
    for shape in ((0, 4), (3, 0), (1,), (2, 1)):
        assert smooth.argmax(normal(*shape)).shape == shape


def test_zeros_are_exact():
    weights = om.Differentiable(ridge).argmax(normal(50, 20))
    assert torch.equal(weights > 0, om.sparsemax(normal(50, 20)) > 0)


def test_the_gap_bounds_the_loss():
    """At any point of the simplex: max − (<p, θ> − Ω(p)) <= gap."""
    smooth, scores = om.Differentiable(negentropy), normal(30, 6)
    points = torch.distributions.Dirichlet(torch.ones(6).double()).sample((30,))
    loss = smooth.max(scores) - ((points * scores).sum(-1) - negentropy(points))
    assert bool((loss <= smooth.gap(scores, points) + 1e-12).all()) and bool((loss > 1e-3).any())


def test_stopping_early_warns_with_gap_and_tolerance():
    smooth = om.Differentiable(negentropy, max_iter=1)
    with pytest.warns(UserWarning, match=r"duality gap of .*e.*tolerance .*e.*raise max_iter"):
        weights = smooth.argmax(normal(3, 40, scale=5))
    close(weights.sum(-1), torch.ones(3).double())


def test_a_looser_tolerance_is_honoured():
    scores = normal(5, 30)
    loose = om.Differentiable(negentropy, rtol=1e-2)
    gap = loose.gap(scores, loose.argmax(scores))
    assert bool((gap <= 1e-2 * (1 + scores.abs().amax(-1) + 10)).all())


def test_a_tensor_inside_fn_that_would_not_learn_is_refused():
    slope = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    smooth, scores = om.Differentiable(lambda p: slope * p.square().sum(-1)), normal(4)
    for call in (smooth.argmax, smooth.max):
        with pytest.raises(RuntimeError, match="must not hold tensors that learn"):
            call(scores)
        with pytest.raises(RuntimeError, match="must not hold tensors that learn"):
            call(scores.clone().requires_grad_())
    with torch.no_grad():
        smooth.argmax(scores)
    om.Differentiable(lambda p: slope.detach() * p.square().sum(-1)).argmax(scores.requires_grad_()).sum().backward()


@pytest.mark.parametrize("gamma", [0.2, 5.0])
def test_temperature(gamma):
    scores = normal(6, 7)
    actual = om.smooth_argmax(scores, om.Differentiable(ridge), gamma=gamma)
    close(actual, om.sparsemax(scores, gamma=gamma), atol=1e-6, rtol=0)


def test_gates_and_dims():
    t = torch.linspace(-2, 2, 9, dtype=torch.float64)
    close(om.gate(t, om.Differentiable(ridge)), om.gate(t, om.SquaredNorm()), atol=1e-6, rtol=0)
    scores = normal(5, 3)
    close(om.smooth_argmax(scores, om.Differentiable(ridge), 0), om.sparsemax(scores, 0), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "stopped",
    [
        lambda: om.smooth_argmax(normal(2, 9), om.Differentiable(lambda p: p.square().sum(-1), max_iter=1)),
        lambda: om.Matching().sparsemap(normal(5, 5), max_iter=1),
    ],
)
def test_a_warning_points_at_the_line_that_called(stopped):
    with pytest.warns(UserWarning, match="stopped after") as caught:
        stopped()
    assert {warning.filename for warning in caught} == {__file__}
