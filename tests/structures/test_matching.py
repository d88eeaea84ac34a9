"""Matchings: the best against enumeration, targets, messages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from structure_cases import like, matchings, parts_of
from structure_cases.laws import dot, key, leaves, members, numpy_parts
from torch.autograd import gradcheck

import omegamax as om

matching_cases = pytest.mark.parametrize("case", matchings.CASES, ids=str)


@matching_cases
def test_members_are_as_many_as_the_closed_form(case):
    potentials = case.potentials()
    for item, lengths in enumerate(case.lengths):
        every = members(case, potentials, item)
        assert len({key(y) for y in every}) == len(every) == case.n_members(*lengths)


@matching_cases
def test_the_best_of_all(case, backend):
    potentials = case.potentials()
    best = parts_of(case.structure.map(potentials, **case.options()))
    value = case.structure.max(potentials, om.Hard(), **case.options())
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        scores = [dot(y, numpy_parts(potentials, item)) for y in every]
        assert value[item].item() == pytest.approx(max(scores))
        assert key([part[item].numpy() for part in best]) == key(every[int(np.argmax(scores))])


@matching_cases
def test_the_gradient_of_the_best_score(case, backend):
    potentials = case.potentials()
    parts = leaves(potentials)
    value = case.structure.max(like(potentials, parts), om.Hard(), **case.options())
    best = parts_of(case.structure.map(potentials, **case.options()))
    for found, expected in zip(torch.autograd.grad(value.sum(), parts, create_graph=True), best):
        assert torch.equal(found, expected)
    assert gradcheck(lambda *p: case.structure.max(like(potentials, p), om.Hard(), **case.options()), parts)


@matching_cases
def test_nothing_feasible_and_nan(case, backend):
    potentials = case.potentials()
    first, *rest = parts_of(potentials)
    forbidden = torch.where(torch.arange(len(first))[:, None, None] == 0, -torch.inf, first)
    rest = [torch.where(torch.arange(len(first))[:, None] == 0, -torch.inf, part) for part in rest]
    first_leaf = forbidden.clone().requires_grad_()
    value = case.structure.max(like(potentials, [first_leaf, *rest]), om.Hard(), **case.options())
    best = parts_of(case.structure.map(like(potentials, [forbidden, *rest]), **case.options()))
    assert value[0] == -torch.inf and torch.isfinite(value[1:]).all()
    assert all((part[0] == 0).all() for part in best)
    (slope,) = torch.autograd.grad(value[1:].sum(), first_leaf)
    assert (slope[0] == 0).all() and not slope.isnan().any()


def test_masks_forbid(backend):
    scores = torch.randn(40, 4, 5, dtype=torch.float64)
    mask = torch.rand(40, 4, 5) < 0.5
    value, best = om.Matching().max(scores, om.Hard(), mask=mask), om.Matching().map(scores, mask=mask)
    assert (best[~mask] == 0).all()
    for item in range(40):
        allowed = [
            sum(float(scores[item, row, column]) for row, column in enumerate(columns))
            for columns in itertools.permutations(range(5), 4)
            if all(mask[item, row, column] for row, column in enumerate(columns))
        ]
        assert value[item].item() == pytest.approx(max(allowed, default=-np.inf))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_types(dtype, backend):
    scores = torch.randn(2, 3, 4, 5).to(dtype)
    best = om.Matching().map(scores)
    assert best.dtype == dtype and best.shape == scores.shape
    assert torch.equal(best, om.Matching().map(scores.double()).to(dtype))
    assert om.Matching().max(scores[0, 0], om.Hard()).shape == ()


def test_null_in_words():
    scores = torch.tensor([[2.0, 1.0], [1.9, -5.0]])
    matching = om.Matching()
    assert matching.permutation(matching.map(scores)).tolist() == [1, 0]
    alone = matching.map(matching.with_null(scores))
    assert matching.permutation(alone).tolist() == [1, 0]
    assert matching.permutation(matching.map(matching.with_null(scores, rows=1.5))).tolist() == [0, -1]
    must = matching.with_null(torch.tensor([[-1.0]]), rows=-torch.inf)
    assert matching.map(must).pairs.tolist() == [[1.0]]
    dear = matching.map(matching.with_null(-torch.ones(2, 3)))
    assert dear.pairs.sum() == 0 and dear.rows.tolist() == [1, 1] and dear.columns.tolist() == [1, 1, 1]


@given(st.permutations(range(6)), st.integers(0, 6))
def test_permutations_there_and_back(order, n_alone):
    columns = torch.tensor([order, order[::-1]])
    columns[:, 6 - n_alone :] = -1
    pairs = om.Matching.from_permutation(columns, 8)
    assert pairs.shape == (2, 6, 8) and torch.equal(om.Matching.permutation(pairs), columns)
    nullable = om.Matching.nullable_from_permutation(columns, 8)
    assert torch.equal(om.Matching.permutation(nullable), columns)
    assert (nullable.pairs.sum(-1) + nullable.rows == 1).all()
    assert (nullable.pairs.sum(-2) + nullable.columns == 1).all()


def test_nullable_targets_end_at_the_lengths():
    lengths = torch.tensor([2, 3]), torch.tensor([4, 1])
    target = om.Matching.nullable_from_permutation(torch.tensor([[1, 0, -1], [-1, 0, -1]]), 4, lengths=lengths)
    assert target.rows.tolist() == [[0, 0, 0], [1, 0, 1]]
    assert target.columns.tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]


def test_messages():
    matching, scores = om.Matching(), torch.randn(3, 3)
    with pytest.raises(ValueError, match=r"#P-hard.*sparsemap.*sinkhorn"):
        matching.max(scores)
    for question in (matching.argmax, matching.entropy):
        with pytest.raises(ValueError, match="regularizer must be Hard"):
            question(scores)
    with pytest.raises(ValueError, match="random walk of a dynamic program"):
        matching.log_prob(scores, matching.map(scores), om.Hard())
    with pytest.raises(ValueError, match=r"\(\.\.\., R, C\)"):
        matching.map(torch.randn(3))
    with pytest.raises(ValueError, match="no size zero"):
        matching.map(torch.randn(0, 3))
    with pytest.raises(ValueError, match="rows must have the shape"):
        matching.map(om.structures.NullableScores(scores, torch.zeros(2), torch.zeros(3)))
    with pytest.raises(ValueError, match="lengths must be 2 Tensors"):
        matching.map(scores, lengths=torch.tensor(3))
    with pytest.raises(ValueError, match="distinct"):
        matching.from_permutation(torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        matching.from_permutation(torch.tensor([0, 2]))
    with pytest.raises(TypeError, match="integer"):
        matching.from_permutation(torch.tensor([0.0, 1.0]))
    with pytest.raises(TypeError, match="integer"):
        matching.from_permutation([0, 1])
    for extra in (torch.zeros(2), torch.zeros(3), (0.0,)):  # a tensor of two would be taken apart
        with pytest.raises(TypeError, match=r"extra must be a pair \(rows, columns\)"):
            matching.sparsemap(scores, extra=extra)
    with pytest.raises(ValueError, match=r"gamma must be a single number, got shape \(2,\)"):
        matching.sinkhorn(scores, torch.ones(2))
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        matching.sinkhorn(scores, max_iter=0)
    for question in (matching.sinkhorn, matching.sparsemap):
        with pytest.raises(ValueError, match="atol must be at least 0, got -1"):
            question(scores, atol=-1.0)
        with pytest.raises(TypeError, match="atol must be a number, got NoneType"):
            question(scores, atol=None)


def test_inside_transforms():
    scores = torch.randn(2, 3, 3, dtype=torch.float64)
    gradient = torch.func.grad(lambda s: om.Matching().max(s, om.Hard()).sum())(scores)
    assert torch.equal(gradient, om.Matching().map(scores))


def test_an_accepted_gap_leaves_the_marginals_near():
    scores = 0.1 * torch.randn(4, 6, 7)
    best = om.SparseMAP(om.Matching()).argmax(scores)
    near = om.SparseMAP(om.Matching(), atol=0.05).argmax(scores)
    found = om.Matching().sparsemap(scores, atol=0.05)
    torch.testing.assert_close(near, found.marginals)
    assert 1e-3 < float(found.gap.max()) <= 0.05
    distance = (near - best).square().sum((1, 2)).sqrt()
    assert bool((distance <= (2 * found.gap).sqrt() + 1e-6).all()) and float(distance.max()) > 1e-3
    with pytest.raises(ValueError, match="atol"):
        om.SparseMAP(om.Matching(), atol=-1.0).argmax(scores)


def test_small_float32_scores_with_a_repeated_row_come_to_an_end():
    """Square and nearly flat: mu is solved for, and taken apart until rounding leaves a row with nothing."""
    scipy = pytest.importorskip("scipy.optimize")
    generator = torch.Generator().manual_seed(0)
    for place in range(22):
        n = 11 + place % 6
        rows = torch.relu(0.05 * torch.randn(n, 64, generator=generator, dtype=torch.float32))
        rows[n - 1] = rows[0]
        columns = torch.relu(0.05 * torch.randn(n, 64, generator=generator, dtype=torch.float32))
        scores = rows @ columns.T
        mean = om.SparseMAP(om.Matching()).argmax(scores.double())  # it warns where it stops early
        left = scores.double() - mean
        best = left[scipy.linear_sum_assignment(-left.numpy())].sum()
        assert float(best - (left * mean).sum()) < 1e-10
