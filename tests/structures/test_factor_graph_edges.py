"""Factor graphs at their edges: −inf, NaN, infeasible items, large scores, types, shapes, masks, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from oracles import local_polytope_qp
from structure_cases.factor_graphs import factor_tree, xor_matching
from structure_cases.graph_hulls import hulls_of

import omegamax as om

MATCHING = xor_matching()


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


def test_forbidden_variables_are_exactly_zero():
    scores = zeros(2, 9)
    scores[0, [0, 4, 8]] = -torch.inf
    found = MATCHING.sparsemap(scores).marginals
    torch.testing.assert_close(found[0].reshape(3, 3), (0.5 * (1 - torch.eye(3))).double())
    masked = MATCHING.sparsemap(zeros(2, 9), mask=scores > -torch.inf).marginals
    assert torch.equal(found, masked)


def test_forbidden_and_negated():
    builder = om.FactorGraphBuilder()
    x = builder.binary("x", 3)
    builder.xor([~x[0], x[1], x[2]])
    scores = torch.tensor([[-torch.inf, 2.0, 2.0], [0.3, 0.2, -torch.inf]], dtype=torch.float64)
    found = builder.build().sparsemap(scores).marginals
    assert found[0].tolist() == [0.0, 0.0, 0.0]  # ~x₀ is the one
    torch.testing.assert_close(found[1], torch.tensor([0.25, 0.25, 0.0]).double())  # x₀ = x₁


def test_a_forbidden_pair_and_table_cell():
    builder = om.FactorGraphBuilder()
    t = builder.variable("t", 2, 2)
    builder.dense(t, name="table")
    x = builder.binary("x", 2)
    builder.pair(*x, name="pair")
    builder.at_most_one([x[0], t[0][0]])
    graph = builder.build()
    never = -torch.inf
    given = graph.scores(
        {"t": zeros(3, 2, 2), "x": torch.ones(3, 2).double()},
        {"table": torch.tensor([[never, 0.0], [0.0, never]]).double(), "pair": torch.tensor(never).double()},
    )
    found = graph.named(graph.sparsemap(given).marginals)
    torch.testing.assert_close(found["t"][:, 0], 1 - found["t"][:, 1])  # the two differ
    assert (found["x"].sum(-1) <= 1 + 1e-12).all() and not found["pair"].any()
    leaf = given.variables.clone().requires_grad_()
    (grad,) = torch.autograd.grad(
        graph.sparsemap(om.structures.FactorGraphScores(leaf, given.factors)).marginals[0][:, 4].sum(), leaf
    )
    assert grad.isfinite().all()


def test_infeasible_items():
    scores = zeros(3, 3, 3)
    scores[0, 0] = -torch.inf  # a row without any
    scores[1, :2, 1:] = -torch.inf  # two rows that only fit the first column: no factor notices alone
    scores = scores.reshape(3, 9).requires_grad_()
    found = MATCHING.sparsemap(scores).marginals
    assert not found[:2].any() and torch.allclose(found[2], torch.full((9,), 1 / 3).double())
    value = om.SparseMAP(MATCHING).max(scores)
    assert value[:2].tolist() == [-torch.inf] * 2 and value[2].item() == pytest.approx(-0.5)
    (grad,) = torch.autograd.grad(found.square().sum(), scores)
    assert not grad[:2].any() and grad.isfinite().all()
    assert MATCHING.max(scores.detach(), om.Hard())[:2].tolist() == [-torch.inf] * 2
    assert not MATCHING.map(scores.detach())[:2].any()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.thinned(2)
def test_bad_scores_stay_in_their_item(bad):
    clean = torch.randn(3, 9, dtype=torch.float64)
    spoiled = clean.clone()
    spoiled[1, 4] = bad
    found, expected = MATCHING.sparsemap(spoiled), MATCHING.sparsemap(clean)
    assert found.marginals[1].isnan().all() and om.SparseMAP(MATCHING).max(spoiled)[1].isnan()
    assert torch.equal(found.marginals[[0, 2]], expected.marginals[[0, 2]])
    assert MATCHING.map(spoiled)[1].isnan().all()


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e30])
def test_large_scores_give_the_best(scale):
    scores = torch.randn(3, 9, dtype=torch.float64) * scale
    torch.testing.assert_close(MATCHING.sparsemap(scores).marginals, MATCHING.map(scores / scale))


def test_large_ties():
    scores = 1e30 * torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]]).double()
    half = torch.tensor([[0.5, 0.5, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0]]).double()
    torch.testing.assert_close(MATCHING.sparsemap(scores).marginals, half, atol=1e-8, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype):
    scores = torch.randn(2, 9).to(dtype)
    found = MATCHING.sparsemap(scores)
    assert found.marginals.dtype is dtype and found.primal_residual.dtype is torch.float64
    torch.testing.assert_close(
        found.marginals.double(), MATCHING.sparsemap(scores.double()).marginals, atol=4e-3, rtol=0
    )


def test_shapes():
    scores = torch.randn(2, 3, 9, dtype=torch.float64)
    found = MATCHING.sparsemap(scores)
    assert found.marginals.shape == (2, 3, 9) and found.n_iterations.shape == (2, 3)
    torch.testing.assert_close(MATCHING.sparsemap(scores[1, 2]).marginals, found.marginals[1, 2])
    transposed = scores.transpose(0, 1)
    torch.testing.assert_close(MATCHING.sparsemap(transposed).marginals, found.marginals.transpose(0, 1))
    assert MATCHING.sparsemap(zeros(0, 9)).marginals.shape == (0, 9)
    assert MATCHING.map(zeros(0, 9)).shape == (0, 9)


def test_one_tensor_means_factor_scores_of_zero():
    graph = factor_tree()
    scores = torch.randn(2, 9, dtype=torch.float64)
    pair = om.structures.FactorGraphScores(scores, zeros(2, 10))
    torch.testing.assert_close(graph.max(scores), graph.max(pair))
    torch.testing.assert_close(graph.sparsemap(scores).marginals, graph.sparsemap(pair).marginals.variables)
    torch.testing.assert_close(
        graph.sparsemap(scores, extra=zeros(2, 10)).marginals.variables, graph.sparsemap(scores).marginals
    )


def test_one_more_thread_changes_nothing():
    scores = torch.randn(4, 9, dtype=torch.float64)
    threads = torch.get_num_threads()
    found = []
    for n in (1, 2):
        torch.set_num_threads(n)
        found.append(MATCHING.sparsemap(scores).marginals)
    torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_max_iter_warns_once():
    scores = 5 * torch.randn(4, 9, dtype=torch.float64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        MATCHING.sparsemap(scores, max_iter=2)
    assert len(said) == 1
    assert "stopped after max_iter=2 iterations with a primal residual of" in str(said[0].message)
    assert "tolerance 1e-09; raise max_iter or atol" in str(said[0].message)


def test_inside_vmap_it_says_why_not():
    with pytest.raises(RuntimeError, match="put the batch into the leading axes"):
        torch.vmap(lambda s: MATCHING.sparsemap(s).marginals)(zeros(2, 9))
    jacobian = torch.func.jacrev(lambda s: MATCHING.sparsemap(s).marginals)(zeros(9) + 0.1)
    torch.testing.assert_close(jacobian, jacobian.T)


def error(kind, match):
    return pytest.raises(kind, match=match)


def test_errors_of_the_builder():
    builder = om.FactorGraphBuilder()
    with error(ValueError, "has at least one variable, got none"):
        builder.build()
    x, t = builder.binary("x", 2), builder.variable("t", 3)
    with error(ValueError, "names must differ, got 'x' again"):
        builder.binary("x")
    with error(TypeError, "a name must be a string"):
        builder.binary(3)
    with error(ValueError, "n_values must be a positive int"):
        builder.variable("u", 0)
    with error(ValueError, "shape of a block must be positive"):
        builder.binary("u", (2, 0))
    with error(TypeError, r"write variable\[k\] for one of its 3 values"):
        builder.xor([x[0], t])
    with error(TypeError, "'x\\[0\\]' is binary"):
        x[0][1]
    with error(IndexError, "values 0 to 2, got 3"):
        t[3]
    with error(ValueError, "at least one variable, got none"):
        builder.xor(x[:0])
    with error(ValueError, "sees a variable once"):
        builder.or_([x[0], ~x[0]])
    with error(ValueError, "0 ≤ lo ≤ hi, got 2 and 1"):
        builder.budget(x, 2, 1)
    with error(TypeError, "takes multi-valued variables"):
        builder.sequence(x)
    with error(ValueError, "same number of values"):
        builder.sequence([t, builder.variable("u", 2)])
    with error(TypeError, "structure must be a Structure"):
        builder.factor(3, x)
    with error(TypeError, "not negated"):
        builder.factor(om.ProjectiveTree(), ~x)
    with error(TypeError, "takes variables and literals, got int"):
        builder.xor(np.array([3], dtype=object))


def test_names_of_scores_are_names_too():
    builder = om.FactorGraphBuilder()
    tags = builder.variable("tags", 2, 3)
    builder.sequence(tags, name="tagging")
    with pytest.raises(ValueError, match=r"names must differ, got 'tagging\.start' again"):
        builder.binary("tagging.start")
    builder.binary("other.end")
    with pytest.raises(ValueError, match=r"names must differ, got 'other\.end' again"):
        builder.sequence(tags, name="other")
    assert builder.build().n_scores == 8  # what was refused left nothing behind


def test_a_name_that_is_made_up_is_a_free_one():
    builder = om.FactorGraphBuilder()
    x = builder.binary("x", 3)
    builder.xor(x, name="xor_1")
    builder.xor(x[:2])
    assert [factor.name for factor in builder.build().factors] == ["xor_1", "xor_2"]


def test_errors_of_potentials():
    with error(ValueError, r"\(..., 9 entries of variables\)"):
        MATCHING.sparsemap(zeros(8))
    with error(TypeError, "or FactorGraphScores, got list"):
        MATCHING.sparsemap([1.0])
    with error(ValueError, "one Tensor where no factor has scores"):
        MATCHING.sparsemap(om.structures.FactorGraphScores(zeros(9), zeros(1)))
    with error(ValueError, "max_iter must be at least 1"):
        MATCHING.sparsemap(zeros(9), max_iter=0)
    with error(ValueError, "takes at least one tensor"):
        MATCHING.scores({})
    with error(ValueError, "lengths must be"):
        MATCHING.sparsemap(zeros(9), lengths=torch.tensor(3))
    with error(ValueError, "atol must be at least 0"):
        MATCHING.sparsemap(zeros(9), atol=float("nan"))
    block = MATCHING.blocks[0].name
    with error(TypeError, f"'{block}' must be a Tensor, got list"):
        MATCHING.scores({block: [[0.0] * 3] * 3})
    builder = om.FactorGraphBuilder()
    builder.sequence(builder.variable("tags", 2, 3), name="tagging")
    with error(ValueError, r"the batch axes must broadcast, got \[\(2,\), \(3,\)\]"):
        builder.build().scores({"tags": zeros(2, 3, 2)}, {"tagging.start": zeros(3, 2)})


def test_any_structure_is_a_factor():
    """A polytope of a user's: exactly two neighbouring places on a ring are on."""
    ring = torch.eye(5).double() + torch.eye(5).double().roll(1, 1)

    def best(scores):
        return ring[(ring @ scores).argmax()]

    builder = om.FactorGraphBuilder()
    x = builder.binary("x", 5)
    builder.factor(om.Polytope.from_oracle(best), x)
    builder.at_most_one([x[0], x[2]])
    graph = builder.build()
    scores = torch.tensor([0.9, 0.1, 0.8, -0.3, 0.2]).double()
    found = graph.sparsemap(scores)
    assert found.marginals[0] + found.marginals[2] <= 1 + 1e-12
    assert found.marginals.sum().item() == pytest.approx(2)
    torch.testing.assert_close(
        om.SparseMAP(graph).max(scores), found.marginals @ scores - 0.5 * found.marginals @ found.marginals
    )


def triangle(b):
    """A cycle of three pairs, and a budget over all: small enough for the quadratic program."""
    x = b.binary("x", 4)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        b.pair(x[i], x[j])
    b.budget(x, 1, 3)


def scaled_triangle(scale, batch=3):
    builder = om.FactorGraphBuilder()
    triangle(builder)
    made = builder.build()
    generator = torch.Generator().manual_seed(3)
    parts = (torch.randn(batch, n, generator=generator, dtype=torch.float64) for n in (made.n_entries, made.n_scores))
    return made, om.structures.FactorGraphScores(*(scale * part for part in parts))


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e-6, 1e-3, 1e3, 1e6, 1e12])
@pytest.mark.thinned(3)
def test_the_best_assignment_does_not_depend_on_the_unit_of_the_scores(scale):
    """LP-MAP of c · θ is that of θ; of θ itself it is the linear program over the local polytopes."""
    made, scores = scaled_triangle(1.0)
    _, other = scaled_triangle(scale)
    found, again = made.map(scores), made.map(other)
    for one, two in zip(found, again):
        torch.testing.assert_close(two, one, atol=1e-9, rtol=0)
    for item in range(3):
        variables, factors = (part[item].numpy() for part in scores)
        best = local_polytope_qp.best(variables, factors, hulls_of(made))
        mine = found.variables[item].numpy() @ variables + found.factors[item].numpy() @ factors
        assert abs(best - mine) < 1e-9


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e2, 1e4])
def test_lp_sparsemap_at_any_scale_of_the_scores(scale):
    """What a linear program still finds to win along the gradient bounds the distance to the optimum."""
    made, scores = scaled_triangle(scale)
    found = made.sparsemap(scores)
    assert float(found.primal_residual.max()) < 1e-10
    for item in range(3):
        mean, counts = (part[item].numpy() for part in found.marginals)
        gradient, factors = scores.variables[item].numpy() - mean, scores.factors[item].numpy()
        gap = local_polytope_qp.best(gradient, factors, hulls_of(made)) - mean @ gradient - counts @ factors
        assert abs(gap) < 1e-11 * max(1, scale)


def test_lp_sparsemap_of_very_large_scores_is_the_best_assignment():
    made, scores = scaled_triangle(1e6)
    torch.testing.assert_close(
        made.sparsemap(scores).marginals.variables, made.map(scores).variables, atol=1e-8, rtol=0
    )
