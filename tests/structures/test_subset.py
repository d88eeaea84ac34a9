"""Subsets and budgets: special cases that have closed forms, large sizes, targets, messages."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import omegamax as om


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_one_of_n_is_the_simplex(backend):
    scores = draw(3, 9)
    for structure in (om.Subset(1), om.Budget(1, 1)):
        torch.testing.assert_close(structure.argmax(scores), om.softmax(scores))
        torch.testing.assert_close(structure.max(scores), scores.logsumexp(-1))
        torch.testing.assert_close(structure.sparsemap(scores).marginals, om.sparsemax(scores))


def test_any_number_is_independent_choices(backend):
    scores = draw(3, 9)
    torch.testing.assert_close(om.Budget(0, 9).argmax(scores), scores.sigmoid())
    torch.testing.assert_close(om.Budget(0, 99).max(scores), torch.nn.functional.softplus(scores).sum(-1))
    assert torch.equal(om.Budget(0, 9).map(scores), (scores > 0).double())
    torch.testing.assert_close(om.Budget(0, 9).sparsemap(scores).marginals, scores.clamp(0, 1))


def test_all_of_n(backend):
    scores = draw(3, 5)
    for omega in (om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)):
        torch.testing.assert_close(om.Subset(5).max(scores, omega), scores.sum(-1))
        assert torch.equal(om.Subset(5).argmax(scores, omega), torch.ones_like(scores))


@pytest.mark.parametrize("k", [1, 3, 50, 99])
def test_the_best_are_the_largest(k, backend):
    scores = draw(20, 100)
    expected = torch.zeros_like(scores).scatter(1, scores.topk(k).indices, 1)
    assert torch.equal(om.Subset(k).map(scores), expected)
    torch.testing.assert_close(om.Subset(k).max(scores, om.Hard()), scores.topk(k).values.sum(1))


def test_ties_go_to_the_lowest_index(backend):
    assert om.Subset(2).map(torch.tensor([1.0, 0.0, 1.0, 1.0])).tolist() == [1, 0, 1, 0]
    assert om.Budget(1, 3).map(torch.zeros(4)).tolist() == [1, 0, 0, 0]
    assert om.Budget(0, 3).map(torch.tensor([0.0, -0.0, 2.0])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_a_thousand_entries(scale, backend):
    """Marginals sum to k, and their odds are exp θ_i times a ratio of symmetric polynomials of the others."""
    if backend == "reference" and scale > 1:
        pytest.skip("one scale is enough for the slow engine")
    scores = scale * draw(2, 1000 if backend == "native" else 60)
    k = 17
    marginals = om.Subset(k).argmax(scores)
    assert marginals.min() >= 0 and marginals.max() <= 1 + 1e-12
    torch.testing.assert_close(marginals.sum(-1), torch.full((2,), float(k), dtype=torch.float64))
    i = int(scores[0].topk(k + 1).indices[-1])
    without = torch.cat([scores[0, :i], scores[0, i + 1 :]])
    odds = scores[0, i] + om.Subset(k - 1).max(without) - om.Subset(k).max(without)
    torch.testing.assert_close(marginals[0, i], odds.sigmoid(), rtol=1e-8, atol=1e-12)


def test_counts_are_exact():
    assert om.Subset(500).count(torch.zeros(1000)) == math.comb(1000, 500)
    assert om.Budget(2, 4).count(torch.zeros(2, 9)) == [sum(math.comb(9, c) for c in (2, 3, 4))] * 2


def test_too_few_entries(backend):
    """An item with fewer than lo entries has no structure; the others are not affected."""
    scores, lengths = draw(3, 4).requires_grad_(), torch.tensor([2, 3, 4])
    for structure in (om.Subset(3), om.Budget(3, 9)):
        for omega in (om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)):
            value = structure.max(scores, omega, lengths=lengths)
            marginals = structure.argmax(scores, omega, lengths=lengths)
            assert value[0] == -torch.inf and torch.isfinite(value[1:]).all()
            assert (marginals[0] == 0).all() and (marginals[1, :3] == 1).all() and marginals[1, 3] == 0
            (slope,) = torch.autograd.grad(marginals.square().sum(), scores)
            assert (slope[0] == 0).all() and not slope.isnan().any()
        assert structure.count(scores, lengths=lengths)[0] == 0
    for omega in (om.Hard(), om.Shannon()):
        assert om.Subset(5).max(scores, omega).tolist() == [-torch.inf] * 3
        assert (om.Subset(5).argmax(scores, omega) == 0).all()


@given(st.integers(1, 12), st.data())
def test_marginals_are_derivatives(n, data):
    lo = data.draw(st.integers(0, n))
    hi = data.draw(st.integers(max(lo, 1), n + 2))
    structure = om.Budget(lo, hi)
    scores = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)).requires_grad_()
    for omega in (om.Shannon(), om.SquaredNorm()):
        (slope,) = torch.autograd.grad(structure.max(scores, omega), scores)
        torch.testing.assert_close(slope, structure.argmax(scores, omega).detach())
        assert gradcheck(lambda s, omega=omega: structure.argmax(s, omega), scores, fast_mode=True)


def test_indices_there_and_back():
    budget = om.Budget(0, 3)
    structure = budget.map(torch.tensor([[1.0, -1.0, 2.0, 3.0], [-1.0, -1.0, -1.0, 5.0]]))
    assert budget.indices(structure).tolist() == [[0, 2, 3], [3, -1, -1]]
    assert torch.equal(budget.from_indices(budget.indices(structure), 4), structure)
    assert om.Subset.from_indices(torch.tensor([2, 0]), 4, dtype=torch.float64).dtype == torch.float64
    assert om.Subset(2).log_prob(
        torch.zeros(4), om.Subset.from_indices(torch.tensor([2, 0]), 4)
    ).item() == pytest.approx(-math.log(6))
    assert om.Budget(0, 1).log_prob(torch.zeros(3), torch.zeros(3)).item() == pytest.approx(-math.log(4))


def test_messages():
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="Subset: k must be at least 1"):
            om.Subset(wrong)
    with pytest.raises(TypeError, match="Subset: k must be an int"):
        om.Subset(1.5)
    for wrong in ((2, 1), (-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="0 ≤ lo ≤ hi"):
            om.Budget(*wrong)
    with pytest.raises(TypeError, match="lo must be an int"):
        om.Budget(True, 2)
    with pytest.raises(ValueError, match=r"potentials must have the shape \(\.\.\., N\)"):
        om.Subset(1).map(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"Budget\.from_indices: indices must be distinct"):
        om.Budget.from_indices(torch.tensor([1, 1]), 3)
    with pytest.raises(ValueError, match="between 0 and 2"):
        om.Subset.from_indices(torch.tensor([3]), 3)
    with pytest.raises(TypeError, match="integer"):
        om.Subset.from_indices([1], 3)
