"""`compat.entmax` against slow oracles, and against the entmax package where it is installed."""

import inspect

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax.compat import entmax as ours

LOSSES = ("sparsemax_loss", "sparsemax_bisect_loss", "entmax15_loss", "entmax_bisect_loss", "normmax_bisect_loss")


def by_bisection(row, omega_gradient_inverse, total=1.0):
    """Solves Σ f(row − τ) = total by plain bisection in float64."""
    low, high = row.min() - 100, row.max() + 100
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if omega_gradient_inverse(row - middle).sum() >= total else (low, middle)
    return omega_gradient_inverse(row - (low + high) / 2)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.7, 2.0, 3.0])
def test_entmax_bisect_solves_its_problem(alpha):
    rows = torch.randn(4, 7, generator=torch.Generator().manual_seed(0))
    expected = torch.stack(
        [by_bisection((alpha - 1) * row, lambda z: z.clamp(min=0) ** (1 / (alpha - 1))) for row in rows.double()]
    )
    torch.testing.assert_close(ours.entmax_bisect(rows.double(), alpha), expected)
    torch.testing.assert_close(ours.EntmaxBisect(alpha, n_iter=3)(rows.double()), expected)


def test_the_special_cases_agree():
    rows = torch.randn(3, 9)
    torch.testing.assert_close(ours.sparsemax(rows, k=2), ours.entmax_bisect(rows, 2.0))
    torch.testing.assert_close(ours.sparsemax_bisect(rows, n_iter=1), ours.SparsemaxBisect()(rows))
    torch.testing.assert_close(ours.entmax15(rows, k=3), ours.entmax_bisect(rows, 1.5))
    torch.testing.assert_close(ours.Entmax15()(rows), ours.entmax15(rows))
    torch.testing.assert_close(ours.Sparsemax()(rows), ours.sparsemax(rows))
    torch.testing.assert_close(ours.NormmaxBisect()(rows), ours.normmax_bisect(rows))
    torch.testing.assert_close(ours.BudgetBisect()(rows), ours.budget_bisect(rows))


@pytest.mark.parametrize("dim", [0, 1, 2, -2])
def test_any_dim(dim):
    scores = torch.randn(3, 4, 5)
    for function in (ours.sparsemax, ours.entmax15, ours.sparsemax_bisect, ours.entmax_bisect, ours.budget_bisect):
        moved = function(scores.movedim(dim, -1)).movedim(-1, dim)
        torch.testing.assert_close(function(scores, dim=dim), moved)


def test_alpha_per_row_and_its_gradient():
    rows = torch.randn(3, 5, dtype=torch.double)
    alpha = torch.tensor([[1.3], [1.5], [2.0]], dtype=torch.double, requires_grad=True)
    each = [ours.entmax_bisect(row, float(a)) for row, a in zip(rows, alpha.detach())]
    torch.testing.assert_close(ours.entmax_bisect(rows, alpha), torch.stack(each))
    assert gradcheck(lambda a: ours.entmax_bisect(rows, a), (alpha,))


@pytest.mark.parametrize("budget", [0.3, 1.0, 2.0, 2.5, 4.0, 6.9])
def test_budget_is_the_projection(budget):
    rows = 1.5 * torch.randn(6, 7, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    found = ours.budget_bisect(rows, budget)
    expected = torch.stack([by_bisection(row, lambda z: z.clamp(0, 1), budget) for row in rows])
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.sum(-1), torch.full((6,), budget, dtype=torch.double))


def test_budget_at_its_edges():
    row = torch.tensor([3.0, -torch.inf, 0.0, 1.0])
    torch.testing.assert_close(ours.budget_bisect(row, 5.0), torch.tensor([1.0, 0.0, 1.0, 1.0]))
    assert ours.budget_bisect(row, 0.0).sum() == 0
    assert ours.budget_bisect(torch.full((3,), -torch.inf), 2.0).sum() == 0
    assert ours.budget_bisect(torch.tensor([1.0, torch.nan]), 1.0).isnan().all()
    assert ours.budget_bisect(torch.zeros(2, 0), 1.0).shape == (2, 0)
    torch.testing.assert_close(ours.budget_bisect(torch.zeros(4), 1.0), torch.full((4,), 0.25))
    with pytest.raises(TypeError, match="budget_bisect: X must be"):
        ours.budget_bisect(torch.tensor([1, 2]))


def test_budget_differentiates_in_scores_and_budget():
    rows = torch.randn(3, 6, dtype=torch.double, generator=torch.Generator().manual_seed(2), requires_grad=True)
    budget = torch.tensor([[1.3], [2.6], [4.2]], dtype=torch.double, requires_grad=True)
    assert gradcheck(ours.budget_bisect, (rows, budget))
    assert gradgradcheck(lambda x, b: ours.budget_bisect(x, b).square(), (rows, budget))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_zero_at_the_target_and_have_the_right_gradient(name):
    scores = torch.randn(4, 5, dtype=torch.double, requires_grad=True)
    target = torch.tensor([0, 3, 2, 4])
    loss = getattr(ours, name)
    found = loss(scores, target)
    assert found.shape == (4,) and (found >= 0).all()
    won = torch.full((4, 5), -50.0, dtype=torch.double).scatter(1, target[:, None], 50.0)
    torch.testing.assert_close(loss(won, target), torch.zeros(4, dtype=torch.double))
    assert gradcheck(lambda s: loss(s, target), (scores,))


@pytest.mark.parametrize(
    "layer",
    [ours.SparsemaxLoss, ours.SparsemaxBisectLoss, ours.Entmax15Loss, ours.EntmaxBisectLoss, ours.NormmaxBisectLoss],
)
@pytest.mark.parametrize("ignored", [-100, 2])
def test_ignored_targets_cost_nothing(layer, ignored):
    scores, target = torch.randn(4, 5, requires_grad=True), torch.tensor([0, ignored, 1, 4])
    each = layer(ignore_index=ignored, reduction="none")(scores, target)
    assert each[1] == 0 and (each >= 0).all()
    torch.testing.assert_close(layer(ignore_index=ignored)(scores, target), each.sum() / 3)
    total = layer(ignore_index=ignored, reduction="sum")(scores, target)
    torch.testing.assert_close(total, each.sum())
    (grad,) = torch.autograd.grad(total, scores)
    assert grad[1].abs().sum() == 0 and grad[0].abs().sum() > 0
    assert layer(ignore_index=ignored)(scores, torch.full((4,), ignored)) == 0
    with pytest.raises(ValueError, match="reduction must be 'elementwise_mean'"):
        layer(reduction="mean")


def test_alpha_of_a_loss_learns():
    scores, target = torch.randn(3, 4, dtype=torch.double), torch.tensor([0, 1, 3])
    alpha = torch.tensor(1.4, dtype=torch.double, requires_grad=True)
    assert gradcheck(lambda a: ours.entmax_bisect_loss(scores, target, a), (alpha,))
    assert ours.EntmaxBisectLoss(1.4).alpha == 1.4 and ours.NormmaxBisectLoss().alpha == 2


def test_against_the_package():
    theirs = pytest.importorskip("entmax")
    names = [name for name in vars(theirs) if not name.startswith("_") and callable(getattr(theirs, name))]
    assert len(names) >= 22
    for name in names:
        assert list(inspect.signature(getattr(ours, name)).parameters) == list(
            inspect.signature(getattr(theirs, name)).parameters
        )
    scores = torch.randn(4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    target = torch.tensor([1, 0, 5, 2])
    calls = dict.fromkeys(("sparsemax", "entmax15", "sparsemax_bisect", "entmax_bisect"), (scores,))
    calls |= {"normmax_bisect": (scores, 1.7), "budget_bisect": (scores, 2.3)} | dict.fromkeys(LOSSES, (scores, target))
    for name, arguments in calls.items():
        grads = []
        for package in (ours, theirs):
            leaf = arguments[0].clone().requires_grad_()
            value = getattr(package, name)(leaf, *arguments[1:])
            (grad,) = torch.autograd.grad((value * torch.arange(value.numel()).reshape(value.shape)).sum(), leaf)
            grads.append((value.detach(), grad))
        torch.testing.assert_close(grads[0], grads[1], atol=1e-8, rtol=1e-6, msg=name)
