"""The public proximal operators: against quadratic programs, their Jacobians, and twice differentiable."""

import numpy as np
import pytest
import torch
from cases import normal
from hypothesis import given
from hypothesis import strategies as st
from oracles import isotonic_qp
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om
from omegamax.operators.proximal import GroupNorm, Monotone, OrderedL1, OscarNorm, TotalVariation

close = torch.testing.assert_close
GROUPS = [0, 0, 1, 1, 2]
OWL = torch.tensor([1.0, 0.6, 0.6, 0.2, 0.0], dtype=torch.float64)

PROXES = {
    "project_simplex": lambda x, dim=-1: om.project_simplex(x, dim),
    "prox_tv1d": lambda x, dim=-1: om.prox_tv1d(x, 0.3, dim),
    "prox_oscar": lambda x, dim=-1: om.prox_oscar(x, 0.1, dim),
    "prox_owl": lambda x, dim=-1: om.prox_owl(x, OWL.to(x.dtype) if x.is_floating_point() else OWL, dim),
    "prox_group": lambda x, dim=-1: om.prox_group(x, GROUPS, 0.4, dim),
    "isotonic": lambda x, dim=-1: om.isotonic_regression(x, dim),
    "antitonic": lambda x, dim=-1: om.isotonic_regression(x, dim, increasing=False),
}
LEARNABLE = {
    "prox_tv1d": lambda x, s: om.prox_tv1d(x, s),
    "prox_oscar": lambda x, s: om.prox_oscar(x, s),
    "prox_group": lambda x, s: om.prox_group(x, GROUPS, s),
}
every = pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES.keys())


def tensor(row):
    return torch.tensor(row, dtype=torch.float64)


def smooth_rows(prox, count=3):
    """Rows where no small move changes which entries of the solution are equal in size or zero."""
    found, seed = [], 0
    moves = 2e-3 * torch.cat([torch.zeros(1, 5), torch.eye(5), -torch.eye(5)]).double()
    while len(found) < count:
        row, seed = normal(5, seed=seed), seed + 1
        y = prox(row + moves).abs()
        pattern = torch.cat([y > 0, ((y.unsqueeze(-1) - y.unsqueeze(-2)).abs() < 1e-7).flatten(-2)], -1)
        if bool((pattern == pattern[0]).all()):
            found.append(row)
    return torch.stack(found)


# ---------------------------------------------------------------- the problem is solved


def test_total_variation(backend):
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.sampled_from([0.0, 1e-3, 0.1, 1.0, 30.0]))
    def law(x, strength):
        expected = isotonic_qp.total_variation(x, strength)
        close(om.prox_tv1d(tensor(x), strength), tensor(expected), atol=1e-9, rtol=0)

    law()


def test_isotonic(backend):
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=12))
    def law(x):
        close(om.isotonic_regression(tensor(x)), tensor(isotonic_qp.isotonic(x)), atol=1e-9, rtol=0)
        falling = -isotonic_qp.isotonic([-t for t in x])
        close(om.isotonic_regression(tensor(x), increasing=False), tensor(falling), atol=1e-9, rtol=0)

    law()


def test_ordered_l1_and_oscar(backend):
    @given(
        st.lists(st.floats(-3, 3), min_size=1, max_size=4),
        st.lists(st.floats(0, 1), min_size=4, max_size=4),
        st.floats(0, 1),
    )
    def law(x, weights, strength):
        weights = sorted(weights[: len(x)], reverse=True)
        close(om.prox_owl(tensor(x), tensor(weights)), tensor(isotonic_qp.ordered_l1(x, weights)), atol=1e-14, rtol=0)
        pairs = [strength * (len(x) - 1 - i) for i in range(len(x))]
        close(om.prox_oscar(tensor(x), strength), tensor(isotonic_qp.ordered_l1(x, pairs)), atol=1e-14, rtol=0)

    law()


def test_group(backend):
    for seed in range(20):
        x = normal(5, seed=seed)
        expected = isotonic_qp.group_shrinkage(x.numpy(), GROUPS, 0.7)
        close(om.prox_group(x, GROUPS, 0.7), tensor(expected), atol=1e-14, rtol=0)


def test_groups_may_be_given_three_ways(backend):
    x = normal(4, 5)
    expected = om.prox_group(x, GROUPS, 0.4)
    assert torch.equal(om.prox_group(x, torch.tensor(GROUPS), 0.4), expected)
    assert torch.equal(om.prox_group(x, [[0, 1], [2, 3], [4]], 0.4), expected)
    assert torch.equal(om.prox_group(x, [7, 7, 9, 9, 20], 0.4), expected)


def test_special_cases_of_ordered_l1(backend):
    x = normal(6, 5)
    soft = x.sign() * (x.abs() - 0.5).clamp(min=0)
    close(om.prox_owl(x, torch.full((5,), 0.5).double()), soft, atol=1e-14, rtol=0)
    largest = torch.tensor([0.8, 0, 0, 0, 0]).double()
    ball = x.sign() * 0.8 * om.project_simplex(x.abs() / 0.8)  # Moreau: x minus its projection onto the 1-ball
    close(om.prox_owl(x, largest), torch.where(x.abs().sum(-1, keepdim=True) <= 0.8, 0, x - ball), atol=1e-7, rtol=0)


@every
def test_prox_is_firmly_nonexpansive(prox, backend):
    x, y = normal(200, 5, seed=1), normal(200, 5, seed=2)
    moved = prox(x) - prox(y)
    assert bool((moved.square().sum(-1) <= (moved * (x - y)).sum(-1) + 1e-12).all())


# ---------------------------------------------------------------- derivatives


@every
@pytest.mark.thinned(2)
def test_gradcheck_twice(prox, backend):
    x = smooth_rows(prox).requires_grad_()
    assert gradcheck(prox, (x,), check_forward_ad=True)
    assert gradgradcheck(prox, (x,))
    assert gradgradcheck(lambda x: prox(x).pow(3), (x,))


@pytest.mark.parametrize("name", LEARNABLE)
def test_strength_learns(name, backend):
    prox = LEARNABLE[name]
    x = smooth_rows(PROXES[name], 2).requires_grad_()
    strength = torch.tensor([[{"prox_tv1d": 0.3, "prox_oscar": 0.1, "prox_group": 0.4}[name]]] * 2).double()
    assert gradcheck(prox, (x, strength.requires_grad_()), check_forward_ad=True)
    assert gradcheck(lambda s: prox(x.detach(), s), (strength,))
    (slope,) = torch.autograd.grad(prox(x, strength).square().sum(), strength, create_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        torch.autograd.grad(slope.sum(), x)


def jacobians(prox, x):
    return torch.func.vmap(torch.func.jacrev(prox))(x)


LEAVES = [
    (TotalVariation(0.3), lambda y: 0.3 * np.abs(np.diff(y)).sum()),
    (OscarNorm(0.1), lambda y: 0.1 * sum(max(abs(y[i]), abs(y[j])) for i in range(5) for j in range(i))),
    (OrderedL1(OWL), lambda y: (OWL.numpy() * np.sort(np.abs(y))[::-1]).sum()),
    (GroupNorm((0, 0, 1, 1, 2), 0.4), lambda y: 0.4 * sum(np.linalg.norm(y[s]) for s in ([0, 1], [2, 3], [4]))),
    (Monotone(), lambda y: 0.0),
]


@pytest.mark.parametrize("leaf, penalty", LEAVES, ids=[type(leaf).__name__ for leaf, _ in LEAVES])
def test_a_prox_is_the_argmax_of_its_own_maximum(leaf, penalty, backend):
    """<y, x> − Ω(y) with Ω = ½‖y‖² + f: the value, Ω from the definition, and the gradient of the value."""
    rows = normal(6, 5).requires_grad_()
    value, solution = leaf.max(rows), leaf.argmax(rows)
    assert torch.equal(torch.autograd.grad(value.sum(), rows)[0], solution)
    for x, y, best in zip(rows.detach().numpy(), solution.detach().numpy(), value.detach().numpy()):
        omega = 0.5 * y @ y + penalty(y)
        assert best == pytest.approx(x @ y - omega, abs=1e-12)
        assert float(leaf.omega(tensor(y))) == pytest.approx(omega, abs=1e-12)


def test_ordered_l1_refuses_to_learn_its_weights_in_forward_mode_too():
    """A tangent of the weights was left out in silence."""
    x = normal(5)
    with pytest.raises(RuntimeError, match="prox_owl: weights must not be differentiated"):
        torch.func.jvp(om.prox_owl, (x, OWL), (x, OWL))


def test_total_variation_jacobian_is_proposition_3(backend):
    """J_ij = 1/|G| if i and j lie in one segment G, else 0."""
    for x in smooth_rows(PROXES["prox_tv1d"], 6):
        y = om.prox_tv1d(x, 0.3).numpy()
        starts = np.concatenate([[True], np.abs(np.diff(y)) > 1e-9]).cumsum()
        same = starts[:, None] == starts[None, :]
        expected = same / same.sum(-1, keepdims=True)
        close(jacobians(PROXES["prox_tv1d"], x.unsqueeze(0))[0], tensor(expected.tolist()), atol=1e-13, rtol=0)


@pytest.mark.parametrize("name", ["prox_oscar", "prox_owl"])
def test_oscar_jacobian_is_proposition_3_with_its_signs(name, backend):
    """J_ij = sign(y_i y_j)/|G| if |y_i| = |y_j| > 0 share a cluster G, else 0."""
    signs = set()
    for x in [*smooth_rows(PROXES[name], 10), tensor([2.0, -1.95, 0.3, -0.2, 1.0])]:
        y = PROXES[name](x).numpy()
        same = (np.abs(np.abs(y)[:, None] - np.abs(y)[None, :]) < 1e-9) & (np.abs(y) > 0)[:, None]
        expected = np.sign(np.outer(y, y)) * same / np.maximum(same.sum(-1, keepdims=True), 1)
        close(jacobians(PROXES[name], x.unsqueeze(0))[0], tensor(expected.tolist()), atol=1e-13, rtol=0)
        signs |= set(np.sign(expected[~np.eye(5, dtype=bool)]).tolist())
    assert signs == {-1.0, 0.0, 1.0}  # the test saw clusters of mixed sign


def test_total_variation_at_strength_zero_is_the_identity_derivative_included(backend):
    x = tensor([1.0, 1.0, 0.0])
    close(torch.autograd.functional.jacobian(lambda x: om.prox_tv1d(x, 0.0), x), torch.eye(3).double())


# ---------------------------------------------------------------- edges


@every
def test_any_dim_and_dtype(prox, backend):
    x = normal(2, 5, 3)
    assert torch.equal(prox(x, 1), prox(x.movedim(1, -1).contiguous()).movedim(-1, 1))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        narrow = normal(4, 5, dtype=dtype)
        assert prox(narrow).dtype is dtype
        if dtype is torch.float32:
            close(prox(narrow).double(), prox(narrow.double()), atol=2e-6, rtol=1e-5)


@every
def test_a_row_that_is_not_finite_is_nan_alone(prox, backend):
    x = normal(4, 5)
    expected = prox(x)
    x[1, 2] = torch.nan
    x[2, 0] = torch.inf
    y = prox(x)
    assert bool(y[1].isnan().all()) and bool(y[2].isnan().all())
    assert torch.equal(y[[0, 3]], expected[[0, 3]])


@pytest.mark.parametrize("name", ["prox_tv1d", "prox_oscar", "isotonic", "antitonic", "project_simplex"])
@pytest.mark.parametrize("shape", [(1,), (0, 4), (3, 0), (0,), (2, 1)], ids=str)
def test_small_sizes(name, shape, backend):
    y = PROXES[name](normal(*shape).requires_grad_())
    assert y.shape == shape
    y.sum().backward()


@pytest.mark.slow
@every
def test_compile_and_export(prox):
    x = smooth_rows(prox, 3).requires_grad_()
    compiled = torch.compile(prox, fullgraph=True, backend="aot_eager")
    close(compiled(x), prox(x), atol=1e-14, rtol=1e-13)
    gradients = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (prox, compiled)]
    close(*gradients, atol=1e-13, rtol=1e-12)
