"""Laws of Fenchel–Young losses on rows: every operator of the table, every kind of target."""

import cases
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import cross_entropy, one_hot

import omegamax as om

pytestmark = pytest.mark.thinned(2)  # the full round takes all

N, C = 5, 6
operators = pytest.mark.parametrize("case", cases.CASES, ids=str)
smooth_ones = pytest.mark.parametrize("case", cases.SMOOTH, ids=str)
one_each = pytest.mark.parametrize("case", cases.ONE_EACH, ids=str)
REMOVED = [True, False, True, True, False, True]  # classes 1 and 4 are out


def loss_of(case, *scores_and_target, **keywords):
    n_classes = scores_and_target[0].shape[-1]
    return om.fenchel_young_loss(*scores_and_target, case.regularizer(n_classes), **keywords)


def classes(seed=0, n=N, c=C):
    return torch.randint(0, c, (n,), generator=cases.generator(seed))


def distributions(seed=0, n=N, c=C):
    return cases.normal(n, c, seed=seed + 99).softmax(-1)


@operators
@pytest.mark.parametrize("soft", [False, True])
def test_value_is_the_definition(case, soft):
    scores = cases.normal(N, C, seed=3)
    target = distributions() if soft else classes()
    y = target if soft else one_hot(target, C).double()
    found = loss_of(case, scores, target, reduction="none")
    for row in range(N):
        value, omega = case.regularizer(C).max(scores[row]), case.numpy_omega(y[row].numpy())
        expected = value + omega - (scores[row] * y[row]).sum()
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-10)


@operators
def test_never_negative_and_zero_at_its_own_weights(case):
    scores = cases.normal(50, C, seed=1)
    weights = case(scores)
    own = loss_of(case, scores, weights, reduction="none")
    assert (own >= 0).all() and own.max() < 1e-12
    other = loss_of(case, scores, distributions(n=50), reduction="none")
    assert (other > 1e-6).all()
    assert (loss_of(case, scores, classes(n=50), reduction="none") >= 0).all()


@smooth_ones
@given(seed=st.integers(0, 999))
@pytest.mark.thinned(3)
def test_zero_only_at_its_own_weights(case, seed):
    """For a 1-strongly convex Ω in the Euclidean norm (not Tsallis above 2, nor the p-norms) L ≥ ½ ‖p − y‖²."""
    scores, target = cases.normal(4, C, seed=seed), distributions(seed, 4)
    losses = loss_of(case, scores, target, reduction="none")
    away = (case(scores) - target).square().sum(-1)
    strongly_convex = case.registered not in ("sqpnormmax", "normmax") and case.options.get("alpha", 1) <= 2
    bound = 0.5 if strongly_convex else 0.0
    assert (losses >= bound * away - 1e-12).all() and (losses > 0).all()


@operators
@pytest.mark.parametrize("soft", [False, True])
def test_gradient_is_weights_minus_target(case, soft):
    scores = cases.normal(N, C, seed=2).requires_grad_()
    target = distributions() if soft else classes()
    y = target if soft else one_hot(target, C)
    factor = torch.arange(1.0, N + 1).double()
    (grad,) = torch.autograd.grad((factor * loss_of(case, scores, target, reduction="none")).sum(), scores)
    torch.testing.assert_close(grad, factor[:, None] * (case(scores.detach()) - y), rtol=0, atol=1e-14)


@smooth_ones
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.thinned(3)
def test_derivatives(case, soft, backend):
    scores = cases.smooth_scores(case, 2, C).requires_grad_()
    target = distributions(n=2) if soft else classes(n=2)

    def loss(x):
        return loss_of(case, x, target, reduction="none")

    assert gradcheck(loss, scores)
    assert gradgradcheck(loss, scores)


@one_each
def test_gradient_reaches_soft_targets(case):
    """∂L/∂y = ∇Ω(y) − θ, along the simplex."""
    scores = cases.normal(2, C)
    logits = cases.normal(2, C, seed=5).requires_grad_()
    assert gradcheck(lambda z: loss_of(case, scores, z.softmax(-1), reduction="none"), logits)


@one_each
@given(seed=st.integers(0, 999))
def test_convex_along_segments(case, seed):
    a, b = cases.normal(3, C, seed=seed, scale=2), cases.normal(3, C, seed=seed + 1, scale=2)
    target = classes(seed, 3)
    losses = [loss_of(case, x, target, reduction="none") for x in (a, 0.7 * a + 0.3 * b, b)]
    assert (losses[1] <= 0.7 * losses[0] + 0.3 * losses[2] + 1e-12).all()


@operators
def test_removed_classes_are_as_if_they_were_not_there(case):
    scores = cases.normal(4, C)
    kept = [i for i, there in enumerate(REMOVED) if there]
    target = torch.tensor([0, 2, 3, 5])
    small = om.fenchel_young_loss(scores[:, kept], torch.tensor([0, 1, 2, 3]), case.regularizer(kept), reduction="none")
    mask = torch.tensor(REMOVED)
    leaf = scores.clone().requires_grad_()
    found = loss_of(case, leaf, target, mask=mask, reduction="none")
    torch.testing.assert_close(found, small)
    found.sum().backward()
    assert leaf.grad.isfinite().all() and (leaf.grad[:, ~mask] == 0).all()
    holes = torch.where(mask, scores, -torch.inf)
    assert torch.equal(loss_of(case, holes, target, reduction="none"), found)
    soft = torch.zeros(4, C).double()
    soft[:, kept] = distributions(c=4, n=4)
    expected = om.fenchel_young_loss(scores[:, kept], soft[:, kept], case.regularizer(kept), reduction="none")
    torch.testing.assert_close(loss_of(case, holes, soft, reduction="none"), expected)


@operators
def test_a_target_that_is_out_costs_infinity_and_has_a_gradient(case):
    scores = cases.normal(3, C)
    scores[0, 2] = -torch.inf  # the target
    scores[1] = -torch.inf  # everything
    scores.requires_grad_()
    target = torch.tensor([2, 2, 2])
    losses = loss_of(case, scores, target, reduction="none")
    assert losses[:2].tolist() == [torch.inf, torch.inf] and losses[2].isfinite()
    losses.sum().backward()
    weights = case(scores.detach())
    torch.testing.assert_close(scores.grad[0], weights[0] - one_hot(target[0], C))
    assert (scores.grad[1] == 0).all() and scores.grad[2].isfinite().all()


@operators
def test_nan_stays_in_its_row(case):
    scores = cases.normal(3, C)
    scores[1, 0] = torch.nan
    scores.requires_grad_()
    losses = loss_of(case, scores, classes(n=3), reduction="none")
    assert losses.isnan().tolist() == [False, True, False]
    losses[0].backward()
    assert scores.grad[0].isfinite().all()


@operators
def test_large_scores_lose_no_digits(case):
    scores = cases.normal(N, C, dtype=torch.float32)
    losses = loss_of(case, scores, classes(), reduction="none")
    shifted = ((scores + 2.0**14) - 2.0**14, scores + 2.0**14)  # the same after rounding
    near, far = (loss_of(case, x, classes(), reduction="none") for x in shifted)
    torch.testing.assert_close(near, far, rtol=2e-6, atol=2e-6)
    assert (losses - near).abs().max() < 1e-2
    huge = loss_of(case, 1e30 * scores, classes(), reduction="none")
    assert huge.isfinite().all() and (huge >= 0).all()


@one_each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(case, dtype):
    scores = cases.normal(200, C, dtype=dtype).requires_grad_()
    target = classes(n=200)
    found = loss_of(case, scores, target, reduction="sum")
    expected = loss_of(case, scores.float(), target, reduction="sum")
    assert found.dtype is dtype and torch.equal(found, expected.to(dtype))
    found.backward()
    assert scores.grad.dtype is dtype and scores.grad.isfinite().all()


@one_each
def test_batches_and_axes(case):
    scores, target = cases.normal(2, 3, C), classes(n=6).reshape(2, 3)
    losses = loss_of(case, scores, target, reduction="none")
    assert losses.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(losses[i, j], loss_of(case, scores[i, j], target[i, j], reduction="none"))
    smooth = case.regularizer(C)
    moved = om.fenchel_young_loss(scores.movedim(-1, 1), target, smooth, dim=1, reduction="none")
    torch.testing.assert_close(moved, losses)
    turned = om.fenchel_young_loss(scores.mT.contiguous().mT, target, smooth, reduction="none")
    torch.testing.assert_close(turned, losses)
    soft = distributions(n=6).reshape(2, 3, C)
    expected = om.fenchel_young_loss(scores, soft, smooth)
    moved = om.fenchel_young_loss(scores.movedim(-1, 1), soft.movedim(-1, 1), smooth, dim=1)
    torch.testing.assert_close(moved, expected)


@one_each
def test_reductions_weights_and_ignored_rows(case):
    scores, target = cases.normal(N, C).requires_grad_(), classes()
    target[1] = -100
    weight = torch.linspace(0.5, 2, C).double()
    each = loss_of(case, scores, target, reduction="none")
    kept = torch.tensor([True, False, True, True, True])
    assert each[1] == 0
    torch.testing.assert_close(loss_of(case, scores, target, reduction="sum"), each.sum())
    torch.testing.assert_close(loss_of(case, scores, target), each.sum() / 4)
    w = torch.where(kept, weight[target.clamp(min=0)], 0)
    torch.testing.assert_close(loss_of(case, scores, target, weight=weight), (w * each).sum() / w.sum())
    torch.testing.assert_close(loss_of(case, scores, target, weight=weight, reduction="none"), w * each)
    spoiled = torch.where(kept[:, None], scores.detach(), torch.nan).requires_grad_()
    loss_of(case, spoiled, target, weight=weight).backward()
    loss_of(case, scores, target, weight=weight).backward()
    torch.testing.assert_close(spoiled.grad, scores.grad)
    assert (spoiled.grad[1] == 0).all()
    nothing = loss_of(case, scores, torch.full((N,), -100))
    assert nothing == 0 and torch.equal(torch.autograd.grad(nothing, scores)[0], torch.zeros_like(scores))


@one_each
def test_nothing_at_all(case):
    empty, target = torch.zeros(0, C, dtype=torch.float64, requires_grad=True), torch.zeros(0, dtype=torch.long)
    assert loss_of(case, empty, target, reduction="none").shape == (0,)
    loss_of(case, empty, target).backward()
    assert empty.grad.shape == (0, C)


@one_each
def test_one_class_costs_nothing(case):
    scores = cases.normal(3, 1)
    assert (loss_of(case, scores, torch.zeros(3, dtype=torch.long), reduction="none").abs() < 1e-12).all()


@one_each
def test_label_smoothing_is_a_soft_target(case):
    scores, target = cases.normal(N, C), classes()
    soft = 0.9 * one_hot(target, C).double() + 0.1 / C
    torch.testing.assert_close(loss_of(case, scores, target, label_smoothing=0.1), loss_of(case, scores, soft))
    hot = one_hot(target, C).double()
    torch.testing.assert_close(loss_of(case, scores, hot, label_smoothing=0.1), loss_of(case, scores, soft))
    scores[:, 1] = -torch.inf
    found = loss_of(case, scores, torch.full((N,), 2), label_smoothing=0.1)
    assert found.isfinite()


@one_each
def test_transforms_see_the_same_numbers(case):
    scores, target = cases.smooth_scores(case, 3, C), classes(n=3)

    def loss(x, y):
        return loss_of(case, x, y, reduction="none")

    expected = loss(scores, target)
    torch.testing.assert_close(torch.vmap(loss)(scores, target), expected)
    per_row = torch.vmap(torch.func.grad(loss))(scores, target)
    torch.testing.assert_close(per_row, case(scores) - one_hot(target, C))
    direction = cases.normal(3, C, seed=8)
    tangent = torch.func.jvp(lambda x: loss(x, target), (scores,), (direction,))[1]
    torch.testing.assert_close(tangent, (per_row * direction).sum(-1))


@pytest.mark.parametrize("case", cases.LEARNABLE, ids=str)
@pytest.mark.parametrize("soft", [False, True])
def test_parameters_learn(case, soft):
    scores = cases.smooth_scores(case, 2, C).requires_grad_()
    target = distributions(n=2) if soft else classes(n=2)
    parameter = torch.tensor(case.options[case.learnable], dtype=torch.float64, requires_grad=True)

    def loss(x, p):
        return om.fenchel_young_loss(x, target, case.regularizer(C, **{case.learnable: p}), reduction="none")

    assert gradcheck(loss, (scores, parameter))
    gamma = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)

    def tempered(x, p, g):
        smooth = om.Scaled(case.regularizer(C, **{case.learnable: p}), g)
        return om.fenchel_young_loss(x, target, smooth, reduction="none")

    near = (1.3 * scores).detach().requires_grad_()  # as far from kinks as the scores were
    assert gradcheck(tempered, (near, parameter, gamma))


def test_temperature():
    scores, target = cases.normal(N, C), classes()
    for gamma in (0.3, 2.5):
        smooth = om.Scaled(om.Tsallis(1.5), gamma)
        expected = smooth.max(scores) - scores.gather(-1, target[:, None]).squeeze(-1)
        torch.testing.assert_close(om.fenchel_young_loss(scores, target, smooth, reduction="none"), expected)


# ---------------------------------------------------------------- others' numbers


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_shannon_is_cross_entropy(reduction, weighted):
    weight = torch.linspace(0.5, 2, C) if weighted else None
    target = classes(n=24).reshape(4, 6)
    target[0, :3] = -100
    ours = cases.normal(4, C, 6, dtype=torch.float32).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    loss = om.FenchelYoungLoss(om.Shannon(), reduction, weight=weight, dim=1)(ours, target)
    expected = cross_entropy(theirs, target, weight=weight, reduction=reduction)
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_shannon_with_soft_targets_is_cross_entropy_minus_entropy():
    scores, target = cases.normal(N, C), distributions()
    entropy = -(target * target.log()).sum(-1).mean()
    torch.testing.assert_close(om.losses.softmax_loss(scores, target), cross_entropy(scores, target) - entropy)
    hard = classes()
    smoothed = 0.8 * one_hot(hard, C).double() + 0.2 / C
    entropy = -(smoothed * smoothed.log()).sum(-1).mean()
    ours = om.SoftmaxLoss(label_smoothing=0.2)(scores, hard)
    torch.testing.assert_close(ours, cross_entropy(scores, hard, label_smoothing=0.2) - entropy)


def test_the_entmax_package_agrees():
    entmax = pytest.importorskip("entmax")
    scores, target = cases.normal(N, C), classes()
    for ours, theirs in [
        (om.losses.sparsemax_loss, entmax.sparsemax_loss),
        (om.losses.entmax15_loss, entmax.entmax15_loss),
        (
            lambda *a, **k: om.losses.entmax_loss(*a, alpha=1.3, **k),
            lambda x, y: entmax.entmax_bisect_loss(x, y, alpha=1.3),
        ),
    ]:
        torch.testing.assert_close(ours(scores, target, reduction="none"), theirs(scores, target), rtol=1e-6, atol=1e-8)
    theirs = entmax.SparsemaxLoss(ignore_index=int(target[0]))(scores, target)  # a class: -100 is beyond its scatter
    torch.testing.assert_close(om.SparsemaxLoss(ignore_index=int(target[0]))(scores, target), theirs)


def test_sparsemax_loss_is_huber_like_for_two_classes():
    """Martins & Astudillo, 2016: 0 beyond the margin, a square around 0, linear on the wrong side."""
    t = torch.tensor([2.0, 0.5, -0.5, -3.0]).double()
    scores = torch.stack([t, torch.zeros(4)], -1)
    losses = om.losses.sparsemax_loss(scores, torch.zeros(4, dtype=torch.long), reduction="none")
    torch.testing.assert_close(losses, torch.stack([0 * t[0], *((t[1:3] - 1) ** 2 / 4), -t[3]]))
