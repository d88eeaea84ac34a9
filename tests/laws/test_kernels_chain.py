"""The compiled sweeps of chains against the generic engine: every form, Ω, instruction set and edge case."""

from __future__ import annotations

import pytest
import torch
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram

pytestmark = pytest.mark.skipif(routing.native is None, reason="no compiled kernels")
OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)]
LENGTHS = torch.tensor([7, 1, 2, 5, 7])


def scores(scale, forbidden, dtype, *shape):
    found = scale * torch.randn(*shape, dtype=dtype)
    return torch.where(torch.rand(*shape) < forbidden, -torch.inf, found)


def assert_same(potentials, omega, tolerance, lengths=LENGTHS):
    problem = om.Chain().bind(potentials, lengths)
    native = problem.program(omega)
    generic = LatticeProgram(problem.lattice, omega, problem.goals)
    assert not isinstance(native, LatticeProgram)
    value, state = native.value(problem.parts)
    expected, known = generic.value(problem.parts)
    close = {"rtol": tolerance, "equal_nan": True}
    torch.testing.assert_close(value, expected, atol=10 * tolerance, **close)
    weights, swept = native.marginals(problem.parts, state), generic.marginals(problem.parts, known)
    direction = tuple(torch.randn_like(part) for part in problem.parts)
    product = native.tangent(problem.parts, (*state, *weights.state), direction)
    moved = generic.tangent(problem.parts, known + swept.state, direction)
    for found, other in zip(weights.parts, swept.parts):
        torch.testing.assert_close(found, other, atol=tolerance, **close)
    for found, other in zip(product.parts, moved.parts):
        torch.testing.assert_close(found, other, atol=10 * tolerance, **close)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("n_tags", [1, 3, 18])
@pytest.mark.parametrize(
    "scale, dtype", [(1, torch.float64), (1e4, torch.float64), (1, torch.float32), (30, torch.float32)]
)
@pytest.mark.thinned(3)
def test_same_as_the_generic_engine(arch, omega, n_tags, scale, dtype):
    """With forbidden parts, infeasible items, NaN inside and garbage beyond the lengths."""
    tolerance = 1e-9 if dtype == torch.float64 else 3e-4
    for forbidden in (0, 0.4):
        draw = lambda *shape: scores(scale, forbidden, dtype, *shape)  # noqa: B023, E731
        dense = draw(5, 7, n_tags, n_tags)
        dense[1, 2:], dense[3, 3, -1, 0] = torch.nan, torch.nan
        assert_same(dense, omega, tolerance)
        emissions = draw(5, 7, n_tags)
        emissions[1, 2:], emissions[3, 2, n_tags // 2] = torch.inf, torch.inf
        shared = om.Chain.from_emissions(emissions, draw(n_tags, n_tags), draw(n_tags), draw(5, n_tags))
        assert_same(shared, omega, tolerance)
        own = om.Chain.from_emissions(emissions, draw(5, n_tags, n_tags).mT, draw(n_tags))
        assert_same(own, omega, tolerance)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_memory_that_is_not_contiguous(omega):
    dense = torch.randn(3, 3, 5, 7).permute(3, 2, 0, 1)[:5]
    assert_same(dense, omega, 3e-4, lengths=None)
    emissions = torch.randn(4, 6, 5).transpose(0, 2)
    assert_same(om.Chain.from_emissions(emissions, torch.randn(4, 4).T), omega, 3e-4, lengths=None)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_any_number_of_threads_gives_the_same(omega, arch):
    potentials = om.Chain.from_emissions(torch.randn(40, 30, 19), torch.randn(19, 19))
    same_with_any_threads(lambda: (om.Chain().max(potentials, omega), *om.Chain().argmax(potentials, omega)))


def test_ties_go_to_the_lowest_tag(arch):
    best = om.Chain.tags(om.Chain().map(torch.zeros(2, 5, 20, 20)))
    assert (best == 0).all()


def test_faint_columns_are_exact(arch):
    """A tag that is reached only along terms far below the smallest float."""
    transitions = torch.zeros(3, 3)
    transitions[0, 2] = transitions[2, 0] = -300.0
    transitions[1, 2] = -torch.inf
    emissions = torch.tensor([[0.0, -200.0, -torch.inf], [-torch.inf, -torch.inf, 0.0], [0.0, 0.0, -torch.inf]])
    potentials = om.Chain.from_emissions(emissions, transitions)
    weights = om.Chain().argmax(potentials)
    assert weights.emissions[0].tolist() == [1, 0, 0] and weights.emissions[1].tolist() == [0, 0, 1]
    torch.testing.assert_close(weights.transitions[0, 2], torch.tensor(1.0))
    wide = om.Chain.from_emissions(emissions.double(), transitions.double())
    torch.testing.assert_close(om.Chain().max(potentials).double(), om.Chain().max(wide))


def test_long_chains_keep_their_precision(arch):
    """Weights of every place add up to one, and agree with float64, after a thousand places."""
    narrow = om.Chain.from_emissions(3 * torch.randn(2, 1000, 9), torch.randn(9, 9))
    wide = om.structures.FactoredChain(*(part.double() for part in narrow))
    for omega in (om.Shannon(), om.SquaredNorm()):
        found, exact = om.Chain().argmax(narrow, omega), om.Chain().argmax(wide, omega)
        torch.testing.assert_close(found.emissions.sum(-1), torch.ones(2, 1000), atol=1e-4, rtol=0)
        torch.testing.assert_close(found.emissions.double(), exact.emissions, atol=1e-4, rtol=0)


@pytest.mark.parametrize("omega", [om.SquaredNorm(), om.Tsallis(1.5)], ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("n_tags", [5, 40])
def test_directions_do_not_matter_where_there_is_no_weight(arch, omega, n_tags):
    """Not even infinite ones: a part without weight does not move."""
    dense = 3 * torch.randn(2, 9, n_tags, n_tags)
    factored = om.Chain.from_emissions(3 * torch.randn(2, 9, n_tags), torch.randn(n_tags, n_tags))
    for potentials in (dense, factored):
        problem = om.Chain().bind(potentials)
        program = problem.program(omega)
        _, state = program.value(problem.parts)
        weights = program.marginals(problem.parts, state).parts
        assert any((part == 0).any() for part in weights)
        direction = tuple(torch.randn_like(part) for part in weights)
        wild = tuple(torch.where(part > 0, d, torch.inf) for part, d in zip(weights, direction))
        calm = program.tangent(problem.parts, state, direction).parts
        for found, expected in zip(program.tangent(problem.parts, state, wild).parts, calm):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("n_tags", [4, 50])
def test_places_that_the_state_leaves_out(arch, omega, n_tags):
    """Lengths around the places that are computed again, with faint and forbidden transitions."""
    lengths = torch.tensor([1, 2, 7, 8, 9, 15, 16, 17, 18])
    transitions = scores(1, 0.2, torch.float64, n_tags, n_tags)
    transitions[:, 0] -= 900.0
    emissions = torch.randn(9, 18, n_tags, dtype=torch.float64)
    potentials = om.Chain.from_emissions(emissions, transitions, end=torch.randn(n_tags, dtype=torch.float64))
    assert_same(potentials, omega, 1e-9, lengths)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_state_of_factored_chains_is_smaller_than_they_are(omega):
    problem = om.Chain().bind(om.Chain.from_emissions(torch.randn(3, 64, 20), torch.randn(20, 20)))
    _, state = problem.program(omega).value(problem.parts)
    assert sum(tensor.numel() for tensor in state) < 0.9 * problem.parts[0].numel()
