"""What holds for every structure that is a dynamic program, against enumeration and against its textbook recursion."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
import structure_cases
import torch
from public_names import public_names
from structure_cases import like, parts_of
from structure_cases.laws import (
    OTHERS,
    REGULARIZERS,
    dot,
    key,
    leaves,
    listed,
    members,
    names,
    numpy_parts,
    regularizers,
    smooth_max_of,
    structures,
)
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.inference.hypergraphs.sweeps import outside

pytestmark = pytest.mark.thinned(3)  # the full round takes all


@structures
def test_enumeration_is_complete(case, backend):
    potentials = case.potentials()
    counts = case.structure.count(potentials, **case.options())
    every = case.structure.enumerate(potentials, **case.options())
    for item, lengths in enumerate(case.lengths):
        expected = {key(y) for y in members(case, potentials, item)}
        found = {key(y) for y in zip(*(part.numpy() for part in parts_of(every[item])))}
        assert found == expected
        assert counts[item] == len(expected)
        assert case.n_members is None or len(expected) == case.n_members(*lengths)


@structures
@pytest.mark.parametrize("omega", REGULARIZERS + OTHERS, ids=names)
def test_value_is_the_recursion(case, omega, backend):
    potentials = case.potentials()
    value = case.structure.max(potentials, omega, **case.options())
    for item, lengths in enumerate(case.lengths):
        expected = case.recursion(smooth_max_of(omega), numpy_parts(potentials, item), *lengths)
        assert value[item].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


@structures
def test_hard_and_shannon_against_all_structures(case, backend):
    potentials = case.potentials()
    hard = case.structure.max(potentials, om.Hard(), **case.options())
    shannon = case.structure.max(potentials, om.Shannon(), **case.options())
    best = parts_of(case.structure.map(potentials, **case.options()))
    expected = parts_of(case.structure.argmax(potentials, om.Shannon(), **case.options()))
    entropy = case.structure.entropy(potentials, **case.options())
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        scores = np.array([dot(y, numpy_parts(potentials, item)) for y in every])
        assert hard[item].item() == pytest.approx(scores.max())
        assert shannon[item].item() == pytest.approx(np.logaddexp.reduce(scores))
        assert dot([part[item].numpy() for part in best], numpy_parts(potentials, item)) == pytest.approx(scores.max())
        p = np.exp(scores - np.logaddexp.reduce(scores))
        for component, part in enumerate(expected):
            mean = sum(weight * y[component] for weight, y in zip(p, every))
            np.testing.assert_allclose(part[item].numpy(), mean, atol=1e-12)
        assert entropy[item].item() == pytest.approx(-(p * np.log(p)).sum())


@structures
@regularizers
@pytest.mark.slow
def test_expected_structure_is_the_mean_of_the_random_walk(case, omega, backend):
    potentials = case.potentials()
    weights = parts_of(case.structure.argmax(potentials, omega, **case.options()))
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        prob = _log_probs(case, potentials, every, omega, item).exp()
        assert prob.sum().item() == pytest.approx(1)
        for part, components in zip(weights, zip(*every)):
            mean = np.tensordot(prob.numpy(), np.stack(components), 1)
            np.testing.assert_allclose(part[item].numpy(), mean, atol=1e-10)


def _log_probs(case, potentials, every, omega, item):
    """Of all members of one item, as a batch in which that item is repeated."""
    repeated = [part[item].expand(len(every), *part.shape[1:]) for part in parts_of(potentials)]
    chosen = [torch.from_numpy(np.stack(components)) for components in zip(*every)]
    options = replace(case, lengths=[case.lengths[item]] * len(every)).options()
    return case.structure.log_prob(like(potentials, repeated), like(potentials, chosen), omega, **options)


@structures
def test_topk_lists_all_structures_in_order(case, backend):
    potentials = case.potentials()
    most = max(case.structure.count(potentials, **case.options()))
    found, scores = case.structure.topk(potentials, most + 2, **case.options())
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        expected = sorted((dot(y, numpy_parts(potentials, item)) for y in every), reverse=True)
        np.testing.assert_allclose(scores[item, : len(every)].numpy(), expected, atol=1e-12)
        assert (scores[item, len(every) :] == -torch.inf).all()
        there = listed(found, item)[: len(every)]
        assert {key(y) for y in there} == {key(y) for y in every}
        np.testing.assert_allclose([dot(y, numpy_parts(potentials, item)) for y in there], expected, atol=1e-12)


@structures
@pytest.mark.parametrize("omega", [om.SquaredNorm(), om.Tsallis(1.5)], ids=names)
def test_support_is_ranked_and_sums_to_one(case, omega, backend):
    potentials = case.potentials()
    found, probabilities, complete = case.structure.support(potentials, omega, **case.options())
    weights = parts_of(case.structure.argmax(potentials, omega, **case.options()))
    assert complete.all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(len(case.lengths), dtype=torch.float64))
    assert (probabilities.diff(dim=-1) <= 0).all()
    for part, weight in zip(parts_of(found), weights):
        p = probabilities.reshape(*probabilities.shape, *(1,) * (part.dim() - 2))
        torch.testing.assert_close((p * part).sum(1), weight)
    cut = case.structure.support(potentials, om.Shannon(), limit=1, **case.options())
    assert cut.complete.tolist() == [n == 1 for n in case.structure.count(potentials, **case.options())]


@structures
def test_marginal_is_sparsemax_over_all_structures(case, backend):
    potentials = case.potentials()
    found = case.structure.marginal(potentials, om.SquaredNorm(), **case.options())
    assert found.complete.all()
    for item in range(len(case.lengths)):
        every = members(case, potentials, item)
        scores = torch.tensor([dot(y, numpy_parts(potentials, item)) for y in every], dtype=torch.float64)
        p = om.sparsemax(scores).numpy()
        ours = found.probabilities[item].numpy()
        np.testing.assert_allclose(np.sort(ours[ours > 0]), np.sort(p[p > 0]), atol=1e-12)
        for component, part in enumerate(parts_of(found.weights)):
            mean = sum(weight * y[component] for weight, y in zip(p, every))
            np.testing.assert_allclose(part[item].numpy(), mean, atol=1e-12)


@structures
@regularizers
@pytest.mark.thinned(10)
def test_derivatives(case, omega, backend):
    potentials = case.potentials(1)
    options = case.options()

    def value(*parts):
        return case.structure.max(like(potentials, parts), omega, **options)

    def marginals(*parts):
        return parts_of(case.structure.argmax(like(potentials, parts), omega, **options))

    assert gradcheck(value, leaves(potentials), fast_mode=True)
    assert gradcheck(marginals, leaves(potentials), fast_mode=True)
    assert gradgradcheck(value, leaves(potentials), fast_mode=True)
    assert gradcheck(value, leaves(potentials), fast_mode=True, check_forward_ad=True, check_backward_ad=False)
    assert gradcheck(marginals, leaves(potentials), fast_mode=True, check_forward_ad=True, check_backward_ad=False)


@structures
def test_a_third_derivative_raises(case):
    parts = leaves(case.potentials())
    weights = parts_of(case.structure.argmax(like(case.potentials(), parts), om.Shannon(), **case.options()))
    (first,) = torch.autograd.grad(weights[0].square().sum(), parts[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate once"):
        first.sum().backward()


@structures
@pytest.mark.parametrize("learn", ["alpha", "gamma"])
@pytest.mark.thinned(5)
def test_parameters_of_omega_learn(case, learn):
    potentials = case.potentials()

    def build(parameter):
        return om.Tsallis(parameter) if learn == "alpha" else om.Scaled(om.SquaredNorm(), parameter)

    def value(parameter, *parts):
        return case.structure.max(like(potentials, parts), build(parameter), **case.options())

    def marginals(parameter, *parts):
        return parts_of(case.structure.argmax(like(potentials, parts), build(parameter), **case.options()))

    parameter = torch.tensor(1.4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(value, (parameter, *leaves(potentials)), fast_mode=True)
    assert gradcheck(marginals, (parameter, *leaves(potentials)), fast_mode=True)


@structures
@regularizers
def test_value_is_linear_minus_omega_on_edges(case, omega):
    """DP_Ω = <E, θ> − Ω_DP(E), and what flows into a node flows out."""
    potentials = case.potentials()
    problem = case.structure.bind(potentials, case.options().get("lengths"))
    program = LatticeProgram(problem.lattice, omega, problem.goals)
    value, state = program.value(problem.parts)
    topology = problem.lattice.topology
    edges, visits, _ = outside(topology, state[0], None, omega, problem.goals)
    smoothed = om.Smoothed(case.structure, omega)
    omega_of_edges = smoothed.omega(potentials, target_edges=edges, **case.options())
    linear = torch.where(edges > 0, edges * problem.scores_of_edges(), 0).sum(1)
    torch.testing.assert_close(linear - omega_of_edges, value)
    inflow = torch.zeros_like(visits).index_add(1, topology.heads(), edges)
    outflow = torch.zeros_like(visits)
    for tail in topology.tails:
        outflow = outflow.index_add(1, tail, edges)
    goal = torch.zeros_like(visits).scatter(1, problem.goals.unsqueeze(1), 1)
    inner = slice(topology.first_head, topology.n_nodes)
    torch.testing.assert_close(inflow[:, inner], (outflow + goal)[:, inner])
    if problem.lattice.parts_are_edges:
        weights = like(potentials, problem.lattice.sum_over_edges(edges, problem.parts))
        torch.testing.assert_close(smoothed.omega(weights, **case.options()), omega_of_edges)


@structures
@regularizers
def test_convex_and_increasing(case, omega):
    first, second = case.potentials(1), case.potentials(2)
    middle = like(first, [(a + b) / 2 for a, b in zip(parts_of(first), parts_of(second))])
    above = like(first, [torch.maximum(a, b) for a, b in zip(parts_of(first), parts_of(second))])
    at = [case.structure.max(p, omega, **case.options()) for p in (first, second, middle, above)]
    assert (at[2] <= (at[0] + at[1]) / 2 + 1e-12).all()
    assert (at[3] >= torch.maximum(at[0], at[1]) - 1e-12).all()


@structures
@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0])
def test_bounds_on_the_smoothing(case, gamma):
    """0 ≤ DP_Ω − DP ≤ (heads in a derivation) · U."""
    potentials, d = case.potentials(), case.largest_degree
    hard = case.structure.max(potentials, om.Hard(), **case.options())
    for omega, bound in [(om.Shannon(), np.log(d)), (om.SquaredNorm(), (d - 1) / (2 * d))]:
        gap = case.structure.max(potentials, om.Scaled(omega, gamma), **case.options()) - hard
        assert (gap >= -1e-12).all() and (gap <= gamma * bound * case.most_heads + 1e-12).all()


@structures
def test_only_shannon_is_associative(case):
    """DP_Ω is max_Ω over all structures for Shannon, and not for the squared norm."""
    potentials = like(case.potentials(), [0.2 * part for part in parts_of(case.potentials())])
    differs = False
    for omega in (om.Shannon(), om.SquaredNorm()):
        value = case.structure.max(potentials, omega, **case.options())
        for item in range(len(case.lengths)):
            scores = [dot(y, numpy_parts(potentials, item)) for y in members(case, potentials, item)]
            same = value[item].item() == pytest.approx(smooth_max_of(omega)(scores), abs=1e-9)
            assert same or isinstance(omega, om.SquaredNorm)
            differs |= not same
    assert differs != isinstance(case.structure, om.structures.Table)  # a table is one maximum


@structures
@regularizers
@pytest.mark.thinned(5)
def test_sampled_frequencies(case, omega):
    potentials = case.potentials()
    generator = torch.Generator().manual_seed(7)
    n_samples = 4000
    drawn = case.structure.sample(potentials, omega, n_samples=n_samples, generator=generator, **case.options())
    weights = case.structure.argmax(potentials, omega, **case.options())
    for found, weight in zip(parts_of(drawn), parts_of(weights)):
        most = found.amax(0).clamp(min=1)
        error = (found.mean(0) - weight).abs() / most
        assert error.max() < 5 * 0.5 / n_samples**0.5
        assert (found.sum(0)[weight == 0] == 0).all()


@structures
def test_sampling_repeats_with_the_generator(case):
    potentials = case.potentials()
    draws = [
        case.structure.sample(potentials, n_samples=5, generator=torch.Generator().manual_seed(3), **case.options())
        for _ in range(2)
    ]
    for first, second in zip(*(parts_of(draw) for draw in draws)):
        assert torch.equal(first, second)


@structures
def test_kl(case):
    first, second = case.potentials(1), case.potentials(2)
    found = case.structure.kl(first, second, **case.options())
    assert case.structure.kl(first, first, **case.options()).abs().max() < 1e-9
    for item in range(len(case.lengths)):
        every = members(case, first, item)
        logs = []
        for potentials in (first, second):
            scores = np.array([dot(y, numpy_parts(potentials, item)) for y in every])
            logs.append(scores - np.logaddexp.reduce(scores))
        assert found[item].item() == pytest.approx((np.exp(logs[0]) * (logs[0] - logs[1])).sum(), abs=1e-10)


def test_every_structure_has_a_row():
    classes = {
        thing for thing in public_names().values() if isinstance(thing, type) and issubclass(thing, om.Structure)
    }
    rows = {type(case.structure) for case in (*structure_cases.CASES, *structure_cases.ORACLE_CASES)}
    assert rows == {found for found in classes if not inspect.isabstract(found)}
