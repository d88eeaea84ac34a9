"""Soft sorting and ranking against the vertices of the permutahedron, written out."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import normal
from oracles import vertex_qp
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

SQUARED, SHANNON = om.SquaredNorm(), om.Shannon()
BOTH = pytest.mark.parametrize("regularizer", [SQUARED, SHANNON], ids=["squared", "entropic"])


def vertices(weights):
    return np.array(sorted(set(itertools.permutations(weights))), dtype=float)


def closest(z, weights):
    """The Euclidean projection of z onto the hull of all permutations of the weights."""
    corners = vertices(weights)
    return torch.from_numpy(vertex_qp.solve(corners, corners @ np.asarray(z)))


def check_entropic(point, z, weights):
    """The point is in the hull, and no vertex lies where Σ m log(m / exp(z)) − m falls."""
    ordered, corners = point.sort(descending=True).values.cumsum(0), np.sort(weights)[::-1].cumsum()
    assert (ordered.numpy() <= corners + 1e-9).all() and math.isclose(ordered[-1], corners[-1], abs_tol=1e-9)
    slope = point.log().numpy() - np.asarray(z)
    assert (vertices(weights) @ slope >= point.numpy() @ slope - 1e-8).all()


@pytest.mark.parametrize("gamma", [0.05, 0.7, 3.0, 50.0])
@pytest.mark.parametrize("descending", [False, True])
def test_ranks_are_projections(backend, gamma, descending):
    for row in (normal(5, seed=1), torch.tensor([1.0, 1.0, 0.0, 2.0]).double(), normal(1), normal(2, seed=3)):
        sign, n = (-1 if descending else 1), len(row)
        z = sign * row / gamma
        found = om.soft_rank(row, gamma=gamma, descending=descending)
        torch.testing.assert_close(found, closest(z, range(1, n + 1)), atol=1e-9, rtol=0)
        entropic = om.soft_rank(row, gamma=gamma, descending=descending, regularizer=SHANNON)
        check_entropic(entropic, z, range(1, n + 1))
    hard = om.soft_rank(normal(6), gamma=1e-6, descending=descending)
    place = normal(6).argsort(descending=descending).argsort() + 1
    torch.testing.assert_close(hard, place.double(), atol=0, rtol=0)


@pytest.mark.parametrize("gamma", [0.05, 0.7, 3.0, 50.0])
def test_sorted_rows_are_projections(backend, gamma):
    for row in (normal(5, seed=2), torch.tensor([1.0, 1.0, 0.0, 2.0]).double(), normal(1)):
        n = len(row)
        anchors = torch.arange(1.0, n + 1).double() / gamma
        torch.testing.assert_close(om.soft_sort(row, gamma=gamma), closest(anchors, row.tolist()), atol=1e-9, rtol=0)
        entropic = om.soft_sort(row, gamma=gamma, regularizer=SHANNON)
        if gamma > 0.1:
            check_entropic(entropic.exp(), anchors, row.exp().tolist())
        for regularizer in (SQUARED, SHANNON):
            rising = om.soft_sort(row, gamma=gamma, regularizer=regularizer)
            falling = om.soft_sort(row, gamma=gamma, regularizer=regularizer, descending=True)
            assert torch.equal(falling, rising.flip(-1)) and (rising.diff() >= -1e-12).all()
    torch.testing.assert_close(om.soft_sort(normal(7), gamma=1e-7), normal(7).sort().values, atol=0, rtol=0)


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_topk_masks_are_projections(backend, k):
    row = normal(5, seed=4)
    wanted = [1.0] * min(k, 5) + [0.0] * max(0, 5 - k)
    for gamma in (0.1, 1.0, 10.0):
        torch.testing.assert_close(
            om.soft_topk_mask(row, k, gamma=gamma), closest(row / gamma, wanted), atol=1e-9, rtol=0
        )
        check_entropic(om.soft_topk_mask(row, k, gamma=gamma, regularizer=SHANNON), row / gamma, wanted)
    if k == 1:  # these are maps that we have
        torch.testing.assert_close(om.soft_topk_mask(row, 1), om.sparsemax(row))
        torch.testing.assert_close(om.soft_topk_mask(row, 1, regularizer=SHANNON), om.softmax(row))


@pytest.mark.slow
@BOTH
def test_first_and_second_derivatives(backend, regularizer):
    rows = normal(2, 5, seed=5).requires_grad_()
    gamma = torch.tensor([[0.4], [1.5]], dtype=torch.double, requires_grad=True)
    maps = {
        "rank": lambda x, g: om.soft_rank(x, gamma=g, regularizer=regularizer),
        "sort": lambda x, g: om.soft_sort(x, gamma=g, regularizer=regularizer, descending=True),
        "mask": lambda x, g: om.soft_topk_mask(x, 2, gamma=g, regularizer=regularizer),
        "quantile": lambda x, g: om.soft_quantile(x, 0.3, gamma=g, regularizer=regularizer),
    }
    for name, function in maps.items():
        assert gradcheck(function, (rows, gamma)), name
        assert gradgradcheck(function, (rows, gamma)), name


@BOTH
def test_masked_entries_are_removed(backend, regularizer):
    row, keep = normal(6, seed=6), torch.tensor([True, False, True, True, False, True])
    options = {"gamma": 0.6, "regularizer": regularizer}
    for out in ({"mask": keep}, {}):
        given = row if out else torch.where(keep, row, -torch.inf)
        ranks = om.soft_rank(given, **options, **out)
        torch.testing.assert_close(ranks[keep], om.soft_rank(row[keep], **options))
        assert (ranks[~keep] == 0).all()
        chosen = om.soft_topk_mask(given, 2, **options, **out)
        torch.testing.assert_close(chosen[keep], om.soft_topk_mask(row[keep], 2, **options))
        assert (chosen[~keep] == 0).all()
        rising = om.soft_sort(given, **options, **out)
        torch.testing.assert_close(rising[2:], om.soft_sort(row[keep], **options))
        assert (rising[:2] == -torch.inf).all()
        quantile = om.soft_quantile(given, 0.4, **options, **out)
        torch.testing.assert_close(quantile, om.soft_quantile(row[keep], 0.4, **options))
    leaf = row.clone().requires_grad_()
    om.soft_sort(leaf, mask=keep, **options)[2:].square().sum().backward()
    assert leaf.grad.isfinite().all() and (leaf.grad[~keep] == 0).all() and (leaf.grad[keep] != 0).any()


@BOTH
def test_edges(backend, regularizer):
    options = {"regularizer": regularizer}
    nothing = torch.full((2, 3), -torch.inf)
    assert (om.soft_rank(nothing, **options) == 0).all() and (om.soft_topk_mask(nothing, 2, **options) == 0).all()
    assert (om.soft_sort(nothing, **options) == -torch.inf).all() and om.soft_quantile(
        nothing, 0.5, **options
    ).isnan().all()
    bad = torch.tensor([[1.0, torch.nan], [1.0, torch.inf], [1.0, 2.0]])
    for found in (om.soft_rank(bad, **options), om.soft_sort(bad, **options), om.soft_topk_mask(bad, 1, **options)):
        assert found[:2].isnan().all() and found[2].isfinite().all()
    assert om.soft_quantile(bad, 0.5, **options).isnan().tolist() == [True, True, False]
    empty = torch.zeros(2, 0)
    assert om.soft_rank(empty, **options).shape == om.soft_sort(empty, **options).shape == (2, 0)
    assert om.soft_quantile(empty, 0.5, **options).isnan().all()
    tied = om.soft_rank(torch.tensor([2.0, 1.0, 2.0, 2.0]), gamma=1e-3, **options)
    assert tied[0] == tied[2] == tied[3] and abs(float(tied[0]) - 3) < 1e-4 and abs(float(tied[1]) - 1) < 1e-4
    half = torch.tensor([0.5, 2.0, 1.0], dtype=torch.bfloat16)
    assert om.soft_sort(half, gamma=0.01, **options).dtype is torch.bfloat16


@BOTH
def test_any_dim_batch_and_layout(backend, regularizer):
    x = normal(3, 4, 5, seed=7)
    gamma = 0.2 + normal(3, 1, 5, seed=8).abs()
    for function in (om.soft_rank, om.soft_sort, lambda *a, **k: om.soft_topk_mask(a[0], 2, **k)):
        along = function(x, dim=1, gamma=gamma, regularizer=regularizer)
        for i, j in itertools.product(range(3), range(5)):
            alone = function(x[i, :, j], gamma=float(gamma[i, 0, j]), regularizer=regularizer)
            torch.testing.assert_close(along[i, :, j], alone)
    many = om.soft_quantile(x, torch.tensor([0.0, 0.25, 1.0]).double(), 1, gamma=0.3, regularizer=regularizer)
    assert many.shape == (3, 3, 5)
    assert om.soft_quantile(x, 0.5, 1, keepdim=True).shape == (3, 1, 5)
    hard = om.soft_quantile(x, torch.tensor([0.1, 0.5]).double(), -1, gamma=1e-9, regularizer=regularizer)
    torch.testing.assert_close(hard, torch.quantile(x, torch.tensor([0.1, 0.5]).double(), -1))


@pytest.mark.slow
@BOTH
def test_transforms_and_traces(regularizer):
    x = normal(3, 5, seed=9)
    rank = lambda row: om.soft_rank(row, gamma=0.7, regularizer=regularizer)  # noqa: E731
    torch.testing.assert_close(torch.func.vmap(rank)(x), rank(x))
    plain = torch.autograd.functional.jacobian(rank, x[0])
    torch.testing.assert_close(torch.func.jacrev(rank)(x[0]), plain)
    torch.testing.assert_close(torch.func.jacfwd(rank)(x[0]), plain)


def test_wrong_arguments_say_what_to_do():
    with pytest.raises(ValueError, match=r"soft_rank: regularizer must be SquaredNorm\(\) or Shannon\(\), got Tsallis"):
        om.soft_rank(torch.zeros(3), regularizer=om.Tsallis(1.5))
    with pytest.raises(ValueError, match="k must be"):
        om.soft_topk_mask(torch.zeros(3), 0)
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        om.soft_quantile(torch.zeros(3), 1.5)
    with pytest.raises(ValueError, match="gamma"):
        om.soft_sort(torch.zeros(3), gamma=0.0)
    with pytest.raises(TypeError, match="x must be"):
        om.soft_sort(torch.zeros(3, dtype=torch.long))
