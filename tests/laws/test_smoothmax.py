"""What every smoothed maximum obeys, each law once over the table."""

import numpy as np
import pytest
import torch
from cases import CASES, HARD, SMOOTH, SOFTMAX, SPARSEMAX, groups_of, normal, smooth_scores
from hypothesis import given
from hypothesis import strategies as st
from oracles import multiplier
from oracles.finite_difference import jacobian
from oracles.simplex_qp import by_orderings, entmax
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

every = pytest.mark.parametrize("case", CASES, ids=str)
smooth = pytest.mark.parametrize("case", SMOOTH, ids=str)
rows = st.lists(st.floats(-4, 4), min_size=1, max_size=9)


def tensor(row):
    return torch.tensor(row, dtype=torch.float64)


def dense_jacobian(case, row):
    """J column by column, from the derivative of argmax."""
    return torch.autograd.functional.jacobian(case.regularizer(len(row)).argmax, row)


# ---------------------------------------------------------------- the problem is solved


@every
def test_weights_lie_in_the_simplex(case, backend):
    @given(rows)
    def law(row):
        weights = case(tensor(row))
        assert bool((weights >= 0).all())
        assert abs(float(weights.sum()) - 1) <= 4 * len(row) * 2.3e-16

    law()


@every
def test_no_point_of_the_simplex_is_better(case, backend):
    @given(rows, st.integers(0, 1000))
    def law(row, seed):
        n = len(row)
        value = case.regularizer(n).max(tensor(row))
        points = np.random.default_rng(seed).dirichlet(np.full(n, 0.3), size=20)
        points = np.concatenate([points, np.eye(n), np.full((1, n), 1 / n)])
        best = max(p @ np.array(row) - case.numpy_omega(p) for p in points)
        assert float(value) >= best - 1e-10

    law()


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weights_alone_are_the_weights_beside_the_value(case, dtype, backend):
    for n in (1, 6, 200):
        scores = normal(5, n, seed=n).to(dtype)
        scores[1, : n // 2] = scores[2] = -torch.inf
        scores[3, -1] = torch.nan
        smooth = case.regularizer(n)
        expected = smooth.max_and_argmax(scores).weights
        for alone in (smooth, om.Scaled(smooth, 1.0)):
            assert torch.equal(alone.argmax(scores).nan_to_num(2), expected.nan_to_num(2))
        per_row = om.Scaled(smooth, torch.ones(5, 1, dtype=dtype))  # which shifts the scores, in their own precision
        torch.testing.assert_close(per_row.argmax(scores), expected, equal_nan=True)
        assert case(scores[:0]).shape == (0, n)


@every
def test_weights_and_value_agree_with_an_oracle(case, backend):
    for seed, n in enumerate([1, 2, 3, 4, 5, 5]):
        row = normal(n, seed=seed, scale=[1.0, 0.3, 2.0][seed % 3])
        smooth = case.regularizer(n)
        expected = by_oracle(case, row.numpy())
        torch.testing.assert_close(smooth.argmax(row), tensor(expected.astype(np.float64)), atol=1e-12, rtol=0)
        best = expected @ row.numpy() - case.numpy_omega(expected)
        assert float(smooth.max(row)) == pytest.approx(best, abs=1e-12)


def by_oracle(case, x):
    if case is HARD:
        return np.eye(len(x))[np.argmax(x)]
    if case is SOFTMAX:
        return entmax(x, 1.0)
    if case.registered.startswith("entmax"):
        return entmax(x, case.options.get("alpha", 1.5))
    if case.quadratic:
        return by_orderings(x, lambda p: case.numpy_omega(p) - 0.5 * (p @ p - 1))
    if case.grouped:
        return multiplier.groupmax(x, groups_of(len(x)), case.options["strength"])
    if case.registered == "normmax":
        return multiplier.normmax(x, case.options["alpha"])
    return multiplier.sqpnormmax(x, case.options["p"])


@every
@pytest.mark.thinned(2)
def test_value_is_the_objective_at_the_weights(case, backend):
    @given(rows)
    def law(row):
        smooth = case.regularizer(len(row))
        weights = smooth.argmax(tensor(row)).numpy()
        objective = weights @ np.array(row) - case.numpy_omega(weights)
        assert float(smooth.max(tensor(row))) == pytest.approx(objective, abs=1e-12)
        assert float(smooth.omega(tensor(weights))) == pytest.approx(case.numpy_omega(weights), abs=1e-12)

    law()


# ---------------------------------------------------------------- derivatives


@every
def test_gradient_of_max_is_argmax(case, backend):
    scores = normal(7, 5).requires_grad_()
    smooth = case.regularizer(5)
    (gradient,) = torch.autograd.grad(smooth.max(scores).sum(), scores)
    assert torch.equal(gradient, smooth.argmax(scores))


@every
def test_gradcheck(case, backend):
    scores = smooth_scores(case, 3, 5).requires_grad_()
    smooth = case.regularizer(5)
    assert gradcheck(smooth.max, (scores,), check_forward_ad=True)
    assert gradcheck(smooth.argmax, (scores,), check_forward_ad=True)


@every
def test_gradgradcheck(case, backend):
    scores = smooth_scores(case, 2, 5).requires_grad_()
    smooth = case.regularizer(5)
    assert gradgradcheck(smooth.max, (scores,))
    assert gradgradcheck(smooth.argmax, (scores,))


@smooth
def test_jacobian_is_symmetric_positive_semidefinite_and_centred(case, backend):
    for row in smooth_scores(case, 4, 6, seed=1):
        jac = dense_jacobian(case, row)
        torch.testing.assert_close(jac, jac.T, atol=1e-13, rtol=1e-12)
        torch.testing.assert_close(jac.sum(-1), torch.zeros(6).double(), atol=1e-12, rtol=0)
        assert float(torch.linalg.eigvalsh(jac).min()) > -1e-12
        by_differences = jacobian(lambda x: case(tensor(x)).numpy(), row.numpy(), 1e-3)
        torch.testing.assert_close(jac, tensor(by_differences), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("case", [c for c in SMOOTH if c.hessian], ids=str)
def test_jacobian_solves_the_equation_of_proposition_1(case, backend):
    """(I + A (B − I)) J = A, A the Jacobian of the projection onto the simplex, B the Hessian of Ω."""
    for row in smooth_scores(case, 4, 5, seed=2):
        p = case(row).numpy()
        s = p > 0
        a = np.diag(s.astype(float)) - np.outer(s, s) / s.sum()
        b = np.eye(5)
        b[np.ix_(s, s)] = case.hessian(p[s], np.flatnonzero(s))
        jac = dense_jacobian(case, row).numpy()
        np.testing.assert_allclose((np.eye(5) + a @ (b - np.eye(5))) @ jac, a, atol=1e-11)


# ---------------------------------------------------------------- invariances and limits


@every
def test_a_shift_moves_the_value_and_not_the_weights(case, backend):
    @given(rows, st.floats(-10, 10))
    def law(row, shift):
        smooth = case.regularizer(len(row))
        weights, moved = smooth.argmax(tensor(row)), smooth.argmax(tensor(row) + shift)
        if case is not HARD:  # rounding of the shift may break a tie
            torch.testing.assert_close(moved, weights, atol=1e-6 if case.name == "entmax(3.0)" else 1e-11, rtol=0)
        value = smooth.max(tensor(row)) + shift
        torch.testing.assert_close(smooth.max(tensor(row) + shift), value, atol=1e-12, rtol=1e-12)

    law()


@pytest.mark.parametrize("case", [c for c in CASES if c.symmetric], ids=str)
def test_a_permutation_of_the_scores_permutes_the_weights(case, backend):
    scores = normal(8)  # no ties
    order = torch.randperm(8)
    torch.testing.assert_close(case(scores[order]), case(scores)[order], atol=1e-15, rtol=1e-14)


@pytest.mark.parametrize("case", [c for c in CASES if not c.symmetric], ids=str)
def test_operators_that_see_order_say_so(case):
    scores = tensor([1.0, -1.0, 0.9, -0.9])
    order = [0, 2, 1, 3]
    assert not torch.allclose(case(scores[order]), case(scores)[order])
    assert not case.regularizer(4).symmetric


@every
def test_a_small_gamma_gives_the_hard_argmax(case, backend):
    scores = normal(6, 7, seed=3)
    hard = torch.nn.functional.one_hot(scores.argmax(-1), 7).double()
    torch.testing.assert_close(case(scores, gamma=1e-4), hard, atol=1e-12, rtol=0)
    value = om.smooth_max(scores, case.regularizer(7), gamma=1e-4)
    torch.testing.assert_close(value, scores.amax(-1), atol=1e-3, rtol=0)


@smooth
def test_a_large_gamma_gives_the_minimiser_of_omega(case, backend):
    """The uniform weights by symmetry; for the group lasso too, where all groups have the same size."""
    weights = case(normal(6, 8, seed=4), gamma=1e9)
    torch.testing.assert_close(weights, torch.full((6, 8), 1 / 8).double(), atol=1e-6, rtol=0)


@every
def test_gamma_scales_scores_and_value(case, backend):
    """γ max_Ω(θ/γ), and the same with one γ per row."""
    scores, gamma = normal(5, 6), torch.tensor([0.1, 0.5, 1.0, 2.0, 30.0]).double().unsqueeze(-1)
    for row, g in zip(scores, gamma):
        best = om.smooth_argmax(row, case.regularizer(6), gamma=float(g)).numpy()
        objective = best @ row.numpy() - float(g) * case.numpy_omega(best)
        assert float(om.smooth_max(row, case.regularizer(6), gamma=float(g))) == pytest.approx(objective, abs=1e-12)
    together = om.smooth_argmax(scores, case.regularizer(6), gamma=gamma)
    alone = torch.stack([case(row, gamma=float(g)) for row, g in zip(scores, gamma)])
    torch.testing.assert_close(together, alone, atol=1e-14, rtol=1e-13)


@every
@pytest.mark.parametrize("gamma", [0.6, torch.tensor([[0.6], [2.0]], dtype=torch.float64)], ids=["number", "tensor"])
def test_the_contract_of_a_scaled_maximum(case, gamma, backend):
    """The problem at θ/γ: its weights, its value times γ, its Jacobian over γ, all three from one method or several."""
    scores, direction = normal(2, 5), normal(2, 5, seed=1)
    inner = case.regularizer(5)
    scaled = om.Scaled(inner, gamma)
    weights, value, certificate = inner.solve(scores / gamma)
    along = torch.func.jvp(scaled.argmax, (scores,), (direction,))[1]
    expected = inner.hessian_product(certificate, direction) / gamma
    torch.testing.assert_close(along, expected, atol=1e-12, rtol=1e-10)
    value = value * (gamma.squeeze(-1) if isinstance(gamma, torch.Tensor) else gamma)
    torch.testing.assert_close((weights, value), (scaled.argmax(scores), scaled.max(scores)), atol=1e-14, rtol=1e-13)
    torch.testing.assert_close(scaled.max_and_argmax(scores), (value, weights), atol=1e-14, rtol=1e-13)


@every
def test_max_is_monotone_in_every_score(case, backend):
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.floats(0, 2), st.integers(0, 5))
    def law(row, rise, at):
        smooth, at = case.regularizer(len(row)), at % len(row)
        higher = [t + rise * (i == at) for i, t in enumerate(row)]
        assert float(smooth.max(tensor(higher))) >= float(smooth.max(tensor(row))) - 1e-12

    law()


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.registered.startswith(("fused", "oscar", "group"))], ids=str
)
def test_omega_vanishes_at_corners_so_max_omega_bounds_max(case, backend):
    smooth, scores = case.regularizer(4), normal(20, 4)
    torch.testing.assert_close(smooth.omega(torch.eye(4).double()), torch.zeros(4).double(), atol=1e-15, rtol=0)
    assert bool((smooth.max(scores) >= scores.amax(-1) - 1e-15).all())


@every
def test_the_three_faces_agree(case, backend):
    """Function, regularizer and module are one thing."""
    scores, mask = normal(4, 6), torch.rand(4, 6) > 0.3
    for gamma in (1.0, 0.7):
        by_function = case(scores, gamma=gamma, mask=mask)
        by_module = case.module(gamma=gamma, **case.arguments(6))(scores, mask)
        assert torch.equal(by_function, by_module)
        assert torch.equal(by_function, om.smooth_argmax(scores, case.regularizer(6), gamma=gamma, mask=mask))
        assert torch.equal(by_function, om.Scaled(case.regularizer(6), gamma).argmax(scores, mask=mask))


def test_softmax_is_torch_softmax(backend):
    scores = normal(30, 17, scale=5)
    torch.testing.assert_close(SOFTMAX(scores), scores.softmax(-1), atol=1e-15, rtol=1e-14)
    torch.testing.assert_close(om.smooth_max(scores, om.Shannon()), scores.logsumexp(-1), atol=1e-15, rtol=1e-14)


def test_lengths_are_a_mask(backend):
    scores, lengths = normal(4, 6), torch.tensor([1, 6, 3, 2])
    mask = torch.arange(6) < lengths.unsqueeze(-1)
    smooth = SPARSEMAX.regularizer(6)
    assert torch.equal(smooth.argmax(scores, lengths=lengths), smooth.argmax(scores, mask=mask))
    assert torch.equal(smooth.max(scores, lengths=lengths), smooth.max(scores, mask=mask))
