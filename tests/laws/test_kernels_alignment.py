"""The native alignment grid against the generic engine, for every instruction set."""

from __future__ import annotations

import pytest
import torch
from threads import same_with_any_threads

import omegamax as om
from omegamax import routing
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram

pytestmark = pytest.mark.skipif(routing.native is None, reason="the kernels are not built")
SIZES = [(1, 1), (1, 7), (9, 1), (5, 4), (17, 40), (65, 3), (70, 90), (130, 50)]
OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm()]
BANDS = [None, om.structures.SakoeChiba(2), om.structures.Itakura(1.5)]


def sweeps(program, parts, direction):
    """Value, marginals and tangent."""
    value, state = program.value(parts)
    marginals = program.marginals(parts, state)
    tangent = program.tangent(parts, (*state, *marginals.state), (direction,))
    ahead, state = program.value_before_marginals(parts)  # both sweeps at once must give what one after the other gives
    torch.testing.assert_close(ahead, value, rtol=0, atol=0, equal_nan=True)
    at_once = program.marginals(parts, state).parts[0]
    torch.testing.assert_close(at_once, marginals.parts[0], rtol=0, atol=0, equal_nan=True)
    return value, marginals.parts[0], tangent.parts[0]


def both(structure, potentials, lengths, omega, direction):
    problem = structure.bind(potentials, lengths)
    native = structure.compiled_program(problem, omega)
    assert native is not None
    generic = LatticeProgram(problem.lattice, omega, problem.goals)
    return zip(sweeps(native, problem.parts, direction), sweeps(generic, problem.parts, direction))


def some_lengths(batch, m, n):
    """The first item is full."""
    found = torch.randint(1, m + 1, (batch,)), torch.randint(1, n + 1, (batch,))
    found[0][0], found[1][0] = m, n
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.slow
def test_native_is_generic(arch, size, omega, dtype):
    tolerance = 2e-4 if dtype == torch.float32 else 1e-10
    for band in BANDS:
        potentials = torch.randn(3, *size, dtype=dtype)
        potentials[torch.rand(3, *size) < 0.05] = -torch.inf
        direction = torch.randn(3, *size, dtype=dtype)
        lengths = some_lengths(3, *size)
        for found, expected in both(om.Alignment(band=band), potentials, lengths, omega, direction):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("size", [(1, 5), (6, 6), (40, 100), (100, 40), (140, 150)], ids=str)
@pytest.mark.slow
def test_packed_bands(arch, size, omega):
    for band in (om.structures.SakoeChiba(3), om.structures.Itakura(2.0)):
        structure = om.BandedAlignment(band, n_columns=size[1])
        potentials = structure.pack(torch.randn(2, *size, dtype=torch.float64))
        direction = torch.randn_like(potentials)
        for found, expected in both(structure, potentials, None, omega, direction):
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_ties_go_to_the_same_steps(arch, omega):
    potentials = torch.randint(-1, 2, (4, 20, 70)).float()
    value, marginals, _ = both(om.Alignment(), potentials, None, omega, torch.ones(4, 20, 70))  # no derivative at ties
    for found, expected in (value, marginals):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    if isinstance(omega, om.Hard):
        assert torch.equal(om.Alignment().map(potentials), om.Alignment().argmax(potentials, omega))


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf")])
def test_padding_is_not_read(arch, omega, garbage):
    lengths = (torch.tensor([3, 66, 1]), torch.tensor([70, 5, 1]))
    clean, direction = torch.randn(3, 80, 75), torch.randn(3, 80, 75)
    dirty, dirty_direction = clean.clone(), direction.clone()
    for item, (m, n) in enumerate(zip(*lengths)):
        for tensor in (dirty, dirty_direction):
            tensor[item, m:] = garbage
            tensor[item, :, n:] = garbage
    structure = om.Alignment()
    results = []
    for potentials, along in ((clean, direction), (dirty, dirty_direction)):
        problem = structure.bind(potentials, lengths)
        results.append(sweeps(structure.compiled_program(problem, omega), problem.parts, along))
    for first, second in zip(*results):
        assert torch.equal(first, second)
    for item, (m, n) in enumerate(zip(*lengths)):
        assert (results[1][1][item, m:] == 0).all() and (results[1][1][item, :, n:] == 0).all()


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (70, 9)], ids=str)
def test_what_is_not_a_number_stays_in_its_item(arch, omega, size):
    potentials = torch.randn(4, *size)
    clean = om.Alignment().argmax(potentials, omega)
    potentials[0, -1, 0] = torch.nan
    potentials[1, 0, -1] = torch.inf
    potentials[2] = -torch.inf
    value, weights = om.Alignment().max(potentials, omega), om.Alignment().argmax(potentials, omega)
    assert value[:2].isnan().all() and value[2] == -torch.inf and torch.isfinite(value[3])
    assert (weights[2] == 0).all() and weights[:2].isnan().any()
    assert torch.equal(weights[3], clean[3])


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_strides_and_threads(arch, omega):
    base = torch.randn(70, 5, 66)
    views = [base.transpose(0, 1), base[:, :1].transpose(0, 1).expand(3, -1, -1), base.permute(1, 2, 0)]
    for view in views:
        copy = view.contiguous()
        assert torch.equal(om.Alignment().argmax(view, omega), om.Alignment().argmax(copy, omega))
    same_with_any_threads(lambda: om.Alignment().argmax(base, omega))


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_the_scale_is_applied_inside(arch, omega):
    """f(x) = DP(s x) / s, with gradient E(s x) and Hessian product s H(s x) v."""
    structure, x = om.Alignment(), torch.randn(2, 70, 30, dtype=torch.float64)
    direction = torch.randn_like(x)
    for scale in (0.3, -2.0):
        problem = structure.bind(x)
        found = sweeps(structure.compiled_program(problem, omega).scaled(scale), problem.parts, direction)
        at = structure.bind(scale * x)
        value, marginals, tangent = sweeps(structure.compiled_program(at, omega), at.parts, scale * direction)
        for ours, expected in zip(found, (value / scale, marginals, tangent)):
            torch.testing.assert_close(ours, expected)


def test_large_scores(arch):
    potentials = (1e4 * torch.randn(2, 100, 90, dtype=torch.float64)).float()
    for omega in OMEGAS:
        value = om.Alignment().max(potentials, omega)
        exact = om.Alignment().max(potentials.double(), omega)
        torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1)
        assert torch.isfinite(om.Alignment().argmax(potentials, omega)).all()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e2, 1e4, 1e30])
def test_single_precision_agrees_with_double(arch, size):
    """Sums of exponentials keep their precision along paths of any length, and at any size of the scores."""
    potentials = size * torch.randn(2, 300, 280)
    potentials[:, 5, 7:90] = -torch.inf
    value, weights = om.Alignment().max(potentials), om.Alignment().argmax(potentials)
    exact, expected = om.Alignment().max(potentials.double()), om.Alignment().argmax(potentials.double())
    torch.testing.assert_close(value.double(), exact, rtol=2e-6, atol=1e-5)
    if size < 1e4:  # beyond, scores that differ in double are equal in single precision
        torch.testing.assert_close(weights.double(), expected, rtol=1e-3, atol=2e-4 * max(1.0, size / 10))
    assert torch.isfinite(weights).all() and ((weights >= 0) & (weights < 1.001)).all()
    assert (weights[:, 5, 7:90] == 0).all()
