"""Entropic transport: against a plain Sinkhorn in NumPy, its laws, its derivatives, its edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from structure_cases import like, matchings, parts_of
from structure_cases.laws import leaves
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

matching_cases = pytest.mark.parametrize("case", matchings.CASES, ids=str)


def plain(theta, n_steps=20_000):
    """Alternating normalisation of a square; of a rectangle the columns only where they are too full, r ≤ c."""
    r, c = theta.shape
    u, v = np.zeros(r), np.zeros(c)
    for _ in range(n_steps):
        u = -np.logaddexp.reduce(theta + v, axis=1)
        v = -np.logaddexp.reduce(theta + u[:, None], axis=0)
        v = v if r == c else np.minimum(v, 0)
    return np.exp(theta + u[:, None] + v)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5), (5, 2)])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 10.0])
@pytest.mark.slow
def test_equals_plain_sinkhorn(shape, gamma, backend):
    scores = torch.randn(2, *shape, dtype=torch.float64)
    found = om.Matching().sinkhorn(scores, gamma).numpy()
    for item in range(2):
        theta = scores[item].numpy() / gamma
        expected = plain(theta) if shape[0] <= shape[1] else plain(theta.T).T
        np.testing.assert_allclose(found[item], expected, atol=1e-8)


@matching_cases
@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_no_better_plan(case, gamma, backend):
    """In the polytope, and optimal: better than mixtures of it with the mean of random matchings."""
    potentials, smooth = case.potentials(), om.Sinkhorn(gamma)
    plan, value = smooth.argmax(potentials, **case.options()), smooth.max(potentials, **case.options())

    def worth(weights):
        linear = sum((w * p).flatten(1).sum(1) for w, p in zip(parts_of(weights), parts_of(potentials)))
        return linear - smooth.omega(weights)

    torch.testing.assert_close(worth(plan), value, rtol=1e-8, atol=1e-8)
    for item, lengths in enumerate(case.lengths):
        r, c = lengths
        pairs, *alone = (part[item] for part in parts_of(plan))
        sums = pairs.sum(1) + (alone[0] if alone else 0), pairs.sum(0) + (alone[1] if alone else 0)
        for side, n, exact in ((sums[0], r, bool(alone) or r <= c), (sums[1], c, bool(alone) or c <= r)):
            assert (side[n:] == 0).all() and (side[:n] <= 1 + 1e-9).all()
            assert not exact or (side[:n] - 1).abs().max() < 1e-9
    for seed in range(5):
        other = case.structure.map(case.potentials(seed + 10), **case.options())
        for step in (0.01, 0.1, 1.0):
            mixed = like(plan, [(1 - step) * a + step * b for a, b in zip(parts_of(plan), parts_of(other))])
            assert (worth(mixed) <= value + 1e-9).all()


@matching_cases
@pytest.mark.thinned(4)
def test_derivatives(case, backend):
    potentials, smooth = case.potentials(3), om.Sinkhorn(0.8)

    def plan(*parts):
        return parts_of(smooth.argmax(like(potentials, parts), **case.options()))

    def value(*parts):
        return smooth.max(like(potentials, parts), **case.options())

    for part, expected in zip(
        torch.autograd.grad(value(*(given := leaves(potentials))).sum(), given), parts_of(plan(*leaves(potentials)))
    ):
        torch.testing.assert_close(part, expected.detach(), rtol=1e-7, atol=1e-8)
    assert gradcheck(value, leaves(potentials), fast_mode=True)
    assert gradcheck(plan, leaves(potentials), fast_mode=True)
    assert gradgradcheck(plan, leaves(potentials), fast_mode=True)
    assert gradcheck(plan, leaves(potentials), fast_mode=True, check_forward_ad=True, check_backward_ad=False)


@pytest.mark.slow
def test_derivatives_where_pairs_are_forbidden():
    scores = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]]).bool()  # two blocks that only touch

    def plan(scores):
        return om.Matching().sinkhorn(scores, mask=mask)

    assert plan(scores)[0, 2, 0] == 0  # in no matching, though allowed
    assert gradcheck(plan, scores) and gradgradcheck(plan, scores, fast_mode=True)


def test_gamma_learns():
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    gamma = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda s, g: om.Matching().sinkhorn(s, g), (scores, gamma))
    assert gradcheck(lambda s, g: om.Sinkhorn(g).max(s), (scores, gamma))


def test_a_small_temperature_gives_the_best_matching(backend):
    scores = torch.randn(6, 8, 8, dtype=torch.float64)
    for gamma in (1e-3, 1e-6, 1e-30):
        torch.testing.assert_close(
            om.Matching().sinkhorn(scores, gamma),
            om.Matching().map(scores),
            rtol=0,
            atol=1e-3 if gamma > 1e-4 else 1e-9,
        )
    uniform = om.Matching().sinkhorn(scores, 1e9)
    torch.testing.assert_close(uniform, torch.full_like(uniform, 1 / 8), rtol=1e-6, atol=1e-6)


def test_random_masks(backend):
    """Whatever is forbidden, sums are right where there is a matching, and all is zero where there is none."""
    scores, mask = torch.randn(60, 5, 5, dtype=torch.float64, requires_grad=True), torch.rand(60, 5, 5) < 0.45
    plan = om.Matching().sinkhorn(scores, mask=mask)
    exists = om.Matching().max(scores.detach(), om.Hard(), mask=mask) > -torch.inf
    assert exists.any() and not exists.all()
    assert (om.Sinkhorn().max(scores, mask=mask)[~exists] == -torch.inf).all()
    expected = exists.double().unsqueeze(1).expand(60, 5)
    torch.testing.assert_close(plan.sum(1), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(plan.sum(2), expected, rtol=0, atol=1e-9)
    assert (plan[~mask] == 0).all()
    (slope,) = torch.autograd.grad(plan.square().sum(), scores)
    assert torch.isfinite(slope).all() and (slope[~exists] == 0).all()


def test_rows_that_must_be_matched():
    scores = om.Matching.with_null(torch.zeros(2, 2), rows=torch.tensor([-torch.inf, 0.0]), columns=-torch.inf)
    plan = om.Matching().sinkhorn(scores)  # both columns need a row, so both rows are matched
    torch.testing.assert_close(plan.pairs, torch.full((2, 2), 0.5))
    assert (plan.rows == 0).all() and (plan.columns == 0).all()


def test_items_do_not_depend_on_each_other(backend):
    scores = torch.randn(4, 6, 6, dtype=torch.float64) * torch.tensor([0.1, 1, 10, 100.0])[:, None, None]
    spoiled = scores.clone()
    spoiled[1, 0, 0] = torch.nan
    plan = om.Matching().sinkhorn(spoiled)
    assert plan[1].isnan().all() and om.Sinkhorn().max(spoiled)[1].isnan()
    for item in (0, 2, 3):
        torch.testing.assert_close(plan[item], om.Matching().sinkhorn(scores[item]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_and_shapes(dtype):
    scores = torch.randn(2, 3, 4, 5).to(dtype)
    plan = om.Matching().sinkhorn(scores)
    assert plan.dtype == dtype and plan.shape == scores.shape
    torch.testing.assert_close(plan, om.Matching().sinkhorn(scores.double()).to(dtype))
    assert om.Matching().sinkhorn(scores[:0]).shape == (0, 3, 4, 5)
    assert om.Sinkhorn().max(scores[0, 0]).shape == ()


def test_as_a_smooth_max():
    smooth, scores = om.Sinkhorn(0.5), torch.randn(2, 3, 3, dtype=torch.float64)
    value, weights = smooth.max_and_argmax(scores)
    direction = torch.randn_like(scores)
    product = torch.func.jvp(smooth.argmax, (scores,), (direction,))[1]
    leaf = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad(smooth.argmax(leaf), leaf, direction)
    torch.testing.assert_close(product, expected)
    torch.testing.assert_close((smooth.max(scores), smooth.argmax(scores)), (value, weights))
    assert (smooth.omega(om.Matching().map(scores)) == 0).all() and smooth.event_ndim == 2
    each = torch.func.vmap(smooth.argmax)(scores)
    torch.testing.assert_close(each, weights)


@matching_cases
def test_its_loss(case):
    """Zero at its own plan, its gradient is the plan less the target; targets are matchings or plans."""
    smooth, potentials = om.Sinkhorn(0.5), case.potentials()
    loss = om.FenchelYoungLoss(smooth, reduction="none")
    plan = smooth.argmax(potentials, **case.options())
    assert loss(potentials, plan, **case.options()).abs().max() < 1e-8
    gold = case.structure.map(case.potentials(1), **case.options())
    parts = leaves(potentials)
    found = loss(like(potentials, parts), gold, **case.options())
    assert (found >= 0).all()
    for slope, p, y in zip(torch.autograd.grad(found.sum(), parts), parts_of(plan), parts_of(gold)):
        torch.testing.assert_close(slope, p - y, rtol=1e-7, atol=1e-8)


def test_stopping_early_warns():
    with pytest.warns(RuntimeWarning, match=r"max_iter=1 .*tolerance 1.0e-10"):
        om.Matching().sinkhorn(10 * torch.randn(5, 5), max_iter=1)


def test_messages():
    with pytest.raises(ValueError, match="gamma"):
        om.Matching().sinkhorn(torch.zeros(2, 2), gamma=0)
    with pytest.raises(ValueError, match="gamma must be a single number"):
        om.Sinkhorn(torch.ones(2))
    with pytest.raises(ValueError, match="max_iter"):
        om.Sinkhorn(max_iter=0)
