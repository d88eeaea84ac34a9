"""Laws that tie operators to each other, to the paper, and to closed forms."""

import numpy as np
import pytest
import torch
from cases import CASES, SMOOTH, normal, smooth_scores
from hypothesis import given
from hypothesis import strategies as st
from oracles.finite_difference import derivative
from oracles.simplex_qp import entmax

import omegamax as om

close = torch.testing.assert_close


def tensor(row):
    return torch.tensor(row, dtype=torch.float64)


# ---------------------------------------------------------------- families

FAMILIES = {
    "Tsallis(1) = Shannon": (om.Tsallis(1.0), om.Shannon()),
    "Tsallis(tensor 1) = Shannon": (om.Tsallis(torch.ones(1).double()), om.Shannon()),
    "Tsallis(2) = SquaredNorm": (om.Tsallis(2.0), om.SquaredNorm()),
    "Tsallis(tensor 1.5) = Tsallis(1.5)": (om.Tsallis(torch.tensor([1.5]).double()), om.Tsallis(1.5)),
    "SquaredPNorm(2) = SquaredNorm": (om.SquaredPNorm(2.0), om.SquaredNorm()),
    "Fused(0) = SquaredNorm": (om.Fused(0.0), om.SquaredNorm()),
    "Oscar(0) = SquaredNorm": (om.Oscar(0.0), om.SquaredNorm()),
    "GroupLasso(0) = SquaredNorm": (om.GroupLasso([0, 0, 1, 1, 2, 2], 0.0), om.SquaredNorm()),
    "Scaled(1) = itself": (om.Scaled(om.Fused(0.3), 1.0), om.Fused(0.3)),
}


@pytest.mark.parametrize("one, other", FAMILIES.values(), ids=FAMILIES.keys())
def test_family_members_that_coincide(one, other, backend):
    """Weights, value, derivative, and number; also on tied and masked rows."""
    scores = normal(8, 6)
    scores[0] = torch.tensor([1.0, 1, 0, 0, 1, -1])
    scores[1, 2:4] = -torch.inf
    scores[2] = 0.0
    direction = normal(8, 6, seed=1)
    results = []
    for smooth in (one, other):
        x = scores.clone().requires_grad_()
        weights, value = smooth.argmax(x), smooth.max(x)
        (gradient,) = torch.autograd.grad((weights * direction).sum() + value.sum(), x)
        results.append((weights, value, gradient, smooth.omega(weights)))
    for a, b in zip(*results):
        close(a, b, atol=1e-12, rtol=1e-12)


def test_near_alpha_one_entmax_is_near_softmax(backend):
    scores = normal(20, 9, scale=2)
    for excess in (1e-3, 1e-6, 1e-9, 1e-12):
        assert float((om.entmax(scores, alpha=1 + excess) - scores.softmax(-1)).abs().max()) < 3 * excess + 1e-14


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0, 2))
def test_fused_is_oscar_of_twice_the_strength_on_two_scores(a, b, strength):
    """|p − q| = 2 max(p, q) − 1 on the simplex."""
    scores = tensor([a, b])
    close(om.fusedmax(scores, strength=strength), om.oscarmax(scores, strength=2 * strength), atol=1e-13, rtol=0)


@pytest.mark.parametrize("operator", [om.fusedmax, om.oscarmax])
def test_a_great_strength_gives_uniform_weights(operator, backend):
    scores = normal(5, 7, scale=3)
    scores[4, 5:] = -torch.inf
    weights = operator(scores, strength=1e4)
    close(weights[:4], torch.full((4, 7), 1 / 7, dtype=torch.float64), atol=1e-11, rtol=0)
    close(weights[4], tensor([0.2] * 5 + [0] * 2), atol=1e-11, rtol=0)


# ---------------------------------------------------------------- the paper


def conjugate(order):
    return np.inf if order == 1 else order / (order - 1)


@pytest.mark.parametrize(
    "smooth, order, beta",
    [
        (om.Shannon(), 1, 1.0),
        (om.SquaredNorm(), 2, 1.0),
        (om.SquaredPNorm(1.5), 1.5, 0.5),
        (om.SquaredPNorm(1.1), 1.1, 0.1),
    ],
    ids=str,
)
@pytest.mark.parametrize("gamma", [0.3, 1.0, 4.0])
def test_lipschitz_bounds(smooth, order, beta, gamma, backend):
    """‖Π(x) − Π(y)‖ <= ‖x − y‖_* / (γ β), near and far, and tight within a factor for near pairs."""
    x = normal(400, 4, seed=1)
    for distance in (1e-3, 0.1, 1.0):
        y = x + distance * normal(400, 4, seed=2)
        moved = (om.smooth_argmax(x, smooth, gamma=gamma) - om.smooth_argmax(y, smooth, gamma=gamma)).numpy()
        left = np.linalg.norm(moved, ord=order, axis=-1)
        right = np.linalg.norm((x - y).numpy(), ord=conjugate(order), axis=-1) / (gamma * beta)
        assert (left <= right * (1 + 1e-9) + 1e-12).all()
        assert distance > 0.01 or (left / right).max() > 0.2


def test_two_scores_give_softplus_and_sigmoid(backend):
    t = torch.linspace(-40, 40, 101, dtype=torch.float64)
    pairs = torch.stack([t, torch.zeros_like(t)], -1)
    close(om.smooth_max(pairs, om.Shannon()), torch.nn.functional.softplus(t, threshold=100), atol=1e-15, rtol=1e-14)
    close(om.gate(t, om.Shannon()), torch.sigmoid(t), atol=1e-15, rtol=1e-13)


def test_figure_2_of_the_paper(backend):
    """max and argmax of [t, 0] in closed form: sparsemax is the hard sigmoid (t + 1)/2, fusedmax a flatter one."""
    t = torch.linspace(-3, 3, 61, dtype=torch.float64)
    close(om.gate(t, om.SquaredNorm()), ((t + 1) / 2).clamp(0, 1), atol=1e-15, rtol=0)
    # With strength 0.4 the two weights stay equal while |t| <= 0.8, then follow (1 + t ∓ 0.8)/2.
    flat = torch.where(t.abs() <= 0.8, 0.5, (0.5 + (t - 0.8 * t.sign()) / 2)).clamp(0, 1)
    close(om.gate(t, om.Fused(0.4)), flat, atol=1e-14, rtol=0)
    assert set(om.gate(tensor([-1.5, -1.0, 1.0, 1.5]), om.SquaredNorm()).tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gate_is_a_map_to_the_unit_interval(case):
    if case.registered == "groupmax":
        smooth = om.GroupLasso([0, 1], 0.2)
    else:
        smooth = case.regularizer(2)
    t = torch.linspace(-5, 5, 41, dtype=torch.float64)
    gate = om.gate(t, smooth, gamma=0.8)
    assert bool(((gate >= 0) & (gate <= 1)).all()) and bool((gate.diff() >= -1e-12).all())
    rest = 1 - gate.flip(0)  # gate(t) + gate(−t) = 1, but a hard tie goes to the first
    close(gate[t != 0], rest[t != 0], atol=1e-12, rtol=0)


def test_a_smaller_gamma_never_enlarges_the_support_of_sparsemax(backend):
    scores = normal(200, 12)
    before = torch.ones(200, 12, dtype=torch.bool)
    for gamma in (10.0, 3.0, 1.0, 0.5, 0.2, 0.05):
        support = om.sparsemax(scores, gamma=gamma) > 0
        assert bool((before | ~support).all())
        before = support


def test_the_published_composition_is_not_oscarmax(backend):
    """On [0.5, −0.5, 0] ranking by |x| before projecting loses: the problem's own value says so."""
    x, strength = tensor([0.5, -0.5, 0.0]), 0.3
    smooth = om.Oscar(strength)
    composed = om.project_simplex(om.prox_oscar(x, strength))
    value_of_composition = float(composed @ x - smooth.omega(composed))
    assert float(smooth.max(x)) > value_of_composition + 1e-3
    positive = x + 1  # with positive scores far from zero the composition is right
    composed = om.project_simplex(om.prox_oscar(positive, 0.05))
    close(om.oscarmax(positive, strength=0.05), composed, atol=1e-13, rtol=0)


def test_projecting_the_group_prox_is_not_groupmax(backend):
    x, groups, strength = tensor([1.0, 0.8, 0.5, -1.0]), [0, 0, 1, 1], 0.5
    smooth = om.GroupLasso(groups, strength)
    composed = om.project_simplex(om.prox_group(x, groups, strength))
    assert float(smooth.max(x)) > float(composed @ x - smooth.omega(composed)) + 1e-3


# ---------------------------------------------------------------- kinks


def test_fusedmax_at_strength_zero_differentiates_as_sparsemax_on_ties(backend):
    scores = tensor([1.0, 1.0, 0.0])
    expected = torch.autograd.functional.jacobian(om.sparsemax, scores)
    close(expected, tensor([[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]]))
    for strength in (0.0, torch.zeros(1, dtype=torch.float64)):
        actual = torch.autograd.functional.jacobian(lambda x: om.fusedmax(x, strength=strength), scores)  # noqa: B023
        close(actual, expected)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_at_ties_and_thresholds_the_derivative_is_finite(case, backend):
    for row in ([0.0] * 4, [1.0, 1, 0, 0], [1.0, 0, 0, 0], [2.0, 2, 2, -torch.inf], [0.5, -0.5, 0.5, -0.5]):
        x = tensor(row).requires_grad_()
        (gradient,) = torch.autograd.grad((case(x) * tensor([1.0, 2, 4, 8])).sum(), x)
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("case", [case for case in SMOOTH if case.quadratic], ids=str)
def test_at_a_kink_the_derivative_is_a_one_sided_limit(case, backend):
    """Among the points nearby, some have the derivative that the kink has."""
    jacobian = torch.func.vmap(torch.func.jacrev(case.regularizer(4).argmax))
    for row in (
        [0.0] * 4,
        [1.0, 1, 0, 0],
        [1.0, 0, 0, 0],
        [0.5, -0.5, 0.5, -0.5],
        [1.0, 0.9, 0.8, 0.7],
        [1.0, 0.5, 0.5, 0],
    ):
        nearby = tensor(row) + torch.cat([torch.zeros(1, 4), 1e-7 * torch.randn(200, 4)]).double()
        at_the_kink, *around = jacobian(nearby)
        assert min(float((at_the_kink - other).abs().max()) for other in around) < 1e-6


# ---------------------------------------------------------------- learning α and strength


@pytest.mark.parametrize("alpha", [1.0001, 1.01, 1.5, 2.0, 3.0, 10.0])
def test_alpha_gradient_matches_differences_of_an_oracle(alpha, backend):
    direction = normal(5, seed=9)
    for row in smooth_scores(CASES[4], 3, 5, alpha=alpha):
        a = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
        (actual,) = torch.autograd.grad((om.entmax(row, alpha=a) * direction).sum(), a)
        moved = derivative(lambda t: entmax(row.numpy(), t), alpha, 2e-5)  # noqa: B023
        assert float(actual) == pytest.approx(moved @ direction.numpy(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("excess", [0.0, 1e-9, 1e-6])
def test_alpha_gradient_at_one_is_the_closed_form(excess, backend):
    """∂p/∂α = −½ p (log² p − Σ p log² p)."""
    scores = normal(6, 5)
    alpha = torch.full((6, 1), 1 + excess, dtype=torch.float64)
    _, actual = torch.func.jvp(lambda a: om.entmax(scores, alpha=a), (alpha,), (torch.ones_like(alpha),))
    p = scores.softmax(-1)
    squares = p.log().square()
    close(actual, -0.5 * p * (squares - (p * squares).sum(-1, keepdim=True)), atol=2 * excess + 1e-12, rtol=0)


def test_alpha_gradient_is_finite_at_all_orders_and_scales(backend):
    for scale in (0.1, 1.0, 10.0, 100.0):
        scores = normal(50, 40, scale=scale)
        alpha = torch.linspace(1, 10, 50, dtype=torch.float64).unsqueeze(-1).requires_grad_()
        weights = om.entmax(scores, alpha=alpha)
        (gradient,) = torch.autograd.grad((weights * normal(50, 40, seed=1)).sum(), alpha)
        assert bool(gradient.isfinite().all())
