"""Factor graphs: LP-SparseMAP against local polytopes written out, gradients, cycles, names."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from oracles.local_polytope_qp import solve
from structure_cases.graph_hulls import assignments, hulls_of
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om


def graph(write):
    builder = om.FactorGraphBuilder()
    write(builder)
    return builder.build()


def potentials(made, *batch, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    variables = scale * torch.randn(*batch, made.n_entries, generator=generator, dtype=torch.float64)
    if not made.n_scores:
        return variables
    return om.structures.FactorGraphScores(
        variables, scale * torch.randn(*batch, made.n_scores, generator=generator, dtype=torch.float64)
    )


def both(weights):
    return (weights,) if isinstance(weights, torch.Tensor) else tuple(weights)


def expected(made, given, item):
    variables, factors = (*both(given), torch.zeros(len(both(given)[0]), 0))[:2]
    return solve(variables[item].numpy(), factors[item].double().numpy(), hulls_of(made))


SINGLE = {
    "xor": lambda b: b.xor(b.binary("x", 5)),
    "negated xor": lambda b: b.xor([~x if k % 2 else x for k, x in enumerate(b.binary("x", 5))]),
    "at most one": lambda b: b.at_most_one(b.binary("x", 5)),
    "or": lambda b: b.or_(b.binary("x", 4)),
    "budget": lambda b: b.budget(b.binary("x", 5), 2, 3),
    "negated budget": lambda b: b.budget(~b.binary("x", 5), 1, 2),
    "pair": lambda b: b.pair(*b.binary("x", 2)),
    "negated pair": lambda b: b.pair(~b.binary("x"), b.binary("y")),
    "dense": lambda b: b.dense(b.variable("t", 3, 2)),
    "dense of three": lambda b: b.dense([b.variable("a", 2), b.variable("b", 3), b.variable("c", 2)]),
    "sequence": lambda b: b.sequence(b.variable("t", 3, 3)),
    "tree": lambda b: b.tree(b.binary("arcs", (4, 4))),
    "tree with roots": lambda b: b.tree(b.binary("arcs", (4, 4)), om.ProjectiveTree(single_root=False)),
    "arborescence": lambda b: b.tree(b.binary("arcs", (4, 4)), om.Arborescence()),
    "nothing": lambda b: (b.binary("x", 2), b.variable("t", 3)),
}
SINGLES = pytest.mark.parametrize("name", SINGLE)


@SINGLES
@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
@pytest.mark.thinned(5)
def test_one_factor_is_sparsemap(name, scale):
    made = graph(SINGLE[name])
    given = potentials(made, 3, scale=scale)
    found = made.sparsemap(given)
    assert (found.n_iterations <= 8).all() and found.primal_residual.max() < 1e-12
    for item in range(3):
        for part, right in zip(both(found.marginals), expected(made, given, item)):
            np.testing.assert_allclose(part[item].numpy(), right, atol=1e-8)


def cyclic(b):
    x, t = b.binary("x", 4), b.variable("t", 3, 3)
    b.sequence(t, name="sequence")
    b.budget([each[1] for each in t], 1, 2)
    b.dense([t[0], t[2]], name="table")
    b.pair(x[0], ~x[1], name="pair")
    b.xor([x[0], x[1], t[1][0]])
    b.or_([x[2], ~t[2][2], x[1]])
    b.at_most_one([x[2], x[3], x[0]])


def tree_and_budget(b):
    arcs = b.binary("arcs", (4, 4))
    b.tree(arcs)
    b.budget(arcs[1:, 2], 0, 1)
    b.at_most_one(arcs[1, 1:])
    b.pair(arcs[0, 1], arcs[1, 2], name="grandparent")


def without_cycles(b):
    x, t = b.binary("x", 3), b.variable("t", 3, 3)
    b.sequence(t, name="sequence")
    b.xor([x[0], ~x[1], t[1][2]])
    b.pair(x[1], x[2], name="pair")
    b.budget([t[0][0], t[0][1]], 0, 1)


CYCLIC = {"logic and sequence": cyclic, "tree and budget": tree_and_budget}


@pytest.mark.parametrize("name", CYCLIC)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.thinned(3)
def test_cyclic_graphs(name, scale):
    made = graph(CYCLIC[name])
    given = potentials(made, 2, scale=scale, seed=1)
    found = made.sparsemap(given)
    assert found.primal_residual.max() < 1e-9 and found.dual_residual.max() < 1e-9
    for item in range(2):
        for part, right in zip(both(found.marginals), expected(made, given, item)):
            np.testing.assert_allclose(part[item].numpy(), right, atol=1e-8)


def test_without_cycles_it_is_sparsemap_of_the_assignments():
    made = graph(without_cycles)
    assert made.why_no_hypergraph is None
    given = potentials(made, 4)
    found, by_vertices = made.sparsemap(given), om.structures.DynamicProgram.sparsemap(made, given)
    for part, right in zip(both(found.marginals), both(by_vertices.marginals)):
        torch.testing.assert_close(part, right, atol=1e-10, rtol=0)


def as_potentials(*parts):
    return parts[0] if len(parts) == 1 else om.structures.FactorGraphScores(*parts)


@pytest.mark.parametrize("name", ["or", "negated pair", "dense", "sequence"])
@pytest.mark.thinned(4)
def test_gradcheck(name):
    made = graph(SINGLE[name])
    inputs = tuple(part.requires_grad_() for part in both(potentials(made, 1, seed=3)))

    def marginals(*parts):
        return both(made.sparsemap(as_potentials(*parts)).marginals)

    assert gradcheck(marginals, inputs, fast_mode=True)
    assert gradgradcheck(marginals, inputs, fast_mode=True)
    assert gradgradcheck(lambda *parts: om.SparseMAP(made).max(as_potentials(*parts)), inputs, fast_mode=True)


@pytest.mark.parametrize("write", [*CYCLIC.values(), without_cycles])
@pytest.mark.slow
def test_derivatives_of_joined_factors(write):
    """Along random directions: affine between faces, so that differences are exact, and the same in both modes."""
    made = graph(write)
    given = both(potentials(made, 3, seed=3))
    ahead, across = (both(potentials(made, 3, seed=seed)) for seed in (11, 12))

    def marginals(*parts):
        return both(made.sparsemap(as_potentials(*parts)).marginals)

    step = 1e-6
    plus = marginals(*(p + step * d for p, d in zip(given, ahead)))
    minus = marginals(*(p - step * d for p, d in zip(given, ahead)))
    _, along = torch.func.jvp(marginals, given, ahead)
    for found, p, m in zip(along, plus, minus):
        torch.testing.assert_close(found, (p - m) / (2 * step), atol=1e-7, rtol=0)
    inputs = tuple(part.clone().requires_grad_() for part in given)
    pulled = torch.autograd.grad(marginals(*inputs), inputs, across)
    one = sum((a * b).sum() for a, b in zip(along, across))
    torch.testing.assert_close(sum((a * b).sum() for a, b in zip(pulled, ahead)), one)
    value = om.SparseMAP(made).max(as_potentials(*inputs)).sum()
    for found, right in zip(torch.autograd.grad(value, inputs), marginals(*given)):
        torch.testing.assert_close(found, right)


def matching(n):
    def write(b):
        x = b.binary("x", (n, n))
        for line in (*x, *x.T):
            b.xor(line)

    return graph(write)


@pytest.mark.slow
def test_derivatives_at_constant_scores():
    made = matching(3)
    scores = torch.full((2, 9), 0.3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda s: made.sparsemap(s).marginals, (scores,))
    jacobian = torch.autograd.functional.jacobian(lambda s: made.sparsemap(s).marginals, scores[:1].detach())
    centre = torch.eye(3).double() - 1 / 3
    torch.testing.assert_close(jacobian[0, :, 0], torch.kron(centre, centre))  # rows and columns keep their sums
    arcs = graph(tree_and_budget)
    constant = torch.full((1, 16), 0.2, dtype=torch.float64, requires_grad=True)
    score = torch.full((1, 1), 0.1, dtype=torch.float64)
    assert gradcheck(
        lambda s: arcs.sparsemap(om.structures.FactorGraphScores(s, score)).marginals.variables, (constant,)
    )


def test_matching_by_xor_factors():
    made, n = matching(5), 5
    scores = potentials(made, 4, seed=2)
    every = np.stack([np.eye(n)[list(order)].ravel() for order in itertools.permutations(range(n))])
    found = made.sparsemap(scores).marginals.numpy()
    for item in range(4):
        gradient = scores[item].numpy() - found[item]
        assert (every @ gradient).max() - found[item] @ gradient < 1e-9
    best = made.map(scores)
    assert torch.equal(best, best.round())
    for item in range(4):
        assert (every @ scores[item].numpy()).max() == pytest.approx((best[item] @ scores[item]).item())


def test_what_all_scores_have_in_common_costs_no_iterations():
    def square(b):
        x = b.binary("x", (3, 3))
        for line in (*x, *x.T):
            b.xor(line)

    made = graph(square)
    given = potentials(made, 4)
    raised = made.sparsemap(given + 1000)
    assert (raised.n_iterations <= 50).all()
    torch.testing.assert_close(raised.marginals, made.sparsemap(given).marginals, atol=1e-11, rtol=0)


def test_a_cycle_is_named_and_sparsemap_recommended():
    made = graph(cyclic)
    given = potentials(made, 2)
    for ask in (made.max, made.argmax, made.entropy, made.sample, made.count, lambda p: made.topk(p, 2)):
        with pytest.raises(
            ValueError, match=r"got a cycle: xor_4 – x\[0\] – pair – x\[1\] – xor_4; use sparsemap, or map"
        ):
            ask(given)
    with pytest.raises(ValueError, match="'tree_0' over a ProjectiveTree"):
        graph(SINGLE["tree"]).max(torch.zeros(16))


@pytest.mark.slow
def test_lp_map_bounds_the_best_assignment():
    made = graph(cyclic)
    given = potentials(made, 6, seed=5)
    value = made.max(given, om.Hard())
    found = made.map(given)
    every = assignments(made)
    tight = 0
    for item in range(6):
        variables, factors = given.variables[item].numpy(), given.factors[item].numpy()
        best = max(y @ variables + n @ factors for y, n in every)
        assert value[item] >= best - 1e-6
        if torch.equal(found.variables[item], found.variables[item].round()):
            tight += 1
            assert value[item].item() == pytest.approx(best, abs=1e-6)
    assert tight


def test_thirty_binaries_without_enumeration():
    made = graph(lambda b: (b.xor(b.binary("x", 30)), b.budget(b.binary("y", 30), 10, 12), b.or_(b.binary("z", 30))))
    scores = potentials(made, 2)
    x, y, z = scores.split(30, -1)
    torch.testing.assert_close(made.argmax(scores)[:, :30], x.softmax(-1))
    torch.testing.assert_close(made.argmax(scores, om.Hard()), made.map(scores))
    assert made.count(scores)[0] == 30 * sum(math.comb(30, k) for k in (10, 11, 12)) * (2**30 - 1)
    log_all = torch.nn.functional.softplus(z).sum(-1)
    log_or = log_all + torch.log(-torch.expm1(-log_all))
    budget = om.FactorGraphBuilder()
    budget.budget(budget.binary("y", 30), 10, 12)
    log_budget = budget.build().max(y)
    torch.testing.assert_close(made.max(scores), x.logsumexp(-1) + log_budget + log_or)
    torch.testing.assert_close(made.map(scores)[:, 30:60].sum(-1).clamp(10, 12), made.map(scores)[:, 30:60].sum(-1))


def test_names():
    builder = om.FactorGraphBuilder()
    x, t = builder.binary("x", (2, 2)), builder.variable("t", 3)
    builder.pair(x[0, 0], t[1], name="pair")
    builder.sequence([t, builder.variable("u", 3)], name="chain")
    made = builder.build()
    given = made.scores(
        {"x": torch.ones(5, 2, 2), "t": torch.arange(3.0)}, {"pair": torch.tensor(2.0), "chain.end": torch.ones(3)}
    )
    assert given.variables.shape == (5, 10) and given.factors.shape == (5, 16)
    read = made.named(given)
    assert torch.equal(read["x"], torch.ones(5, 2, 2)) and torch.equal(read["t"], torch.arange(3.0).expand(5, 3))
    assert torch.equal(read["pair"], torch.full((5,), 2.0)) and not read["u"].any()
    assert torch.equal(read["chain.end"], torch.ones(5, 3)) and read["chain.transitions"].shape == (5, 3, 3)
    with pytest.raises(ValueError, match="names must be of"):
        made.scores({"y": torch.ones(1)})
    with pytest.raises(ValueError, match=r"'x' must have the shape \(..., 2, 2\)"):
        made.scores({"x": torch.ones(4)})


def test_equal_graphs_are_equal():
    assert matching(3) == matching(3) and hash(matching(3)) == hash(matching(3))
    assert matching(3) != matching(2)
    with pytest.raises(AttributeError):
        matching(2).factors = ()
