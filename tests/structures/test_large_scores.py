"""float32 potentials that are large, or add up to something large, against the same potentials in float64."""

import math

import pytest
import torch

import omegamax as om
from omegamax.inference.hypergraphs.centring import centred
from omegamax.inference.hypergraphs.sweeps import inside

REGULARIZERS = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(1.2)]
OFFSET = -4.2e7  # float32 numbers of this size are 4 apart

pytestmark = pytest.mark.thinned(3)  # the full round takes all
regularizers = pytest.mark.parametrize("omega", REGULARIZERS, ids=str)


def double(potentials):
    if isinstance(potentials, torch.Tensor):
        return potentials.double()
    return type(potentials)(*(part.double() for part in potentials))


def parts(potentials):
    return (potentials,) if isinstance(potentials, torch.Tensor) else tuple(potentials)


def assert_same(found, expected, atol=3e-6):
    for ours, theirs in zip(parts(found), parts(expected)):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=atol)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32)


def dense_chain():
    potentials = normal(6, 3, 3)
    potentials[3] = OFFSET  # carries nothing but must not destroy what the places before it say
    return om.Chain(), potentials


def factored_chain():
    potentials = om.Chain.from_emissions(normal(12, 3), normal(3, 3), torch.full((3,), OFFSET, dtype=torch.float32))
    return om.Chain(), potentials


def semi_markov():
    potentials = normal(5, 3, 2, 2)
    potentials[1] += OFFSET
    return om.SemiMarkov(3), potentials


def alignment():
    scores = normal(40, 9)
    scores[0, 0] = OFFSET
    return om.Alignment(), scores


def banded_alignment():
    _, scores = alignment()
    return om.Alignment(band=om.structures.SakoeChiba(3)), scores[:9]


def tree():
    return om.ConstituencyTree(), normal(6, 6, 2) + 1e5


def dependencies():
    return om.ProjectiveTree(), normal(5, 5) + 1e5


def ctc():
    potentials = om.CTC.from_log_probs(normal(8, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 3]]))
    return om.CTC(), potentials._replace(emissions=potentials.emissions + OFFSET)


CASES = [dense_chain, factored_chain, semi_markov, alignment, banded_alignment, tree, dependencies, ctc]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


@cases
@regularizers
def test_weights(case, omega, backend):
    structure, potentials = case()
    assert_same(structure.argmax(potentials, omega), structure.argmax(double(potentials), omega))


@cases
@regularizers
def test_support_agrees_with_argmax(case, omega, backend):
    structure, potentials = case()
    expected = structure.argmax(potentials, omega)
    support = structure.support(potentials, omega, limit=2_000)
    if not bool(support.complete.all()):
        pytest.skip("too many structures")
    for listed, marginal in zip(parts(support.structures), parts(expected)):
        share = support.probabilities.reshape(
            *support.probabilities.shape, *(1,) * (listed.dim() - support.probabilities.dim())
        )
        mean = (share * listed).sum(support.probabilities.dim() - 1)
        torch.testing.assert_close(mean, marginal, rtol=0, atol=1e-4)


@cases
@pytest.mark.parametrize("gamma", [0.3, 7.0], ids=str)
def test_scores_divided_by_a_temperature(case, gamma, backend):
    structure, potentials = case()
    for omega in om.Scaled(om.Shannon(), gamma), om.Scaled(om.SquaredNorm(), torch.tensor(gamma, dtype=torch.float64)):
        assert_same(structure.argmax(potentials, omega), structure.argmax(double(potentials), omega), atol=1e-5)


@cases
def test_numbers_of_the_distribution(case, backend):
    structure, potentials = case()
    best, wide = structure.map(potentials), double(potentials)
    for omega in (om.Shannon(), om.SquaredNorm(), om.Tsallis(1.2)):
        found = structure.log_prob(potentials, best, omega)
        torch.testing.assert_close(found.double(), structure.log_prob(wide, double(best), omega), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(structure.entropy(potentials).double(), structure.entropy(wide), rtol=1e-5, atol=1e-5)


@cases
def test_best_structures(case, backend):
    structure, potentials = case()
    top = structure.topk(potentials, 3)
    assert_same(top.structures, structure.topk(double(potentials), 3).structures)
    n_lead = top.scores.dim()
    first = [part.select(n_lead - 1, 0) for part in parts(top.structures)]
    assert_same(structure.map(potentials), double(type(potentials)(*first) if len(first) > 1 else first[0]))


@cases
def test_gradient_of_the_weights(case, backend):
    structure, potentials = case()
    for omega in (om.Shannon(), om.SquaredNorm()):
        given = [part.clone().requires_grad_() for part in parts(potentials)]
        wide = [part.double().requires_grad_() for part in parts(potentials)]
        direction = torch.randn(given[0].shape, dtype=torch.float64)
        found = []
        for leaves in (given, wide):
            weights = parts(structure.argmax(leaves[0] if len(leaves) == 1 else type(potentials)(*leaves), omega))
            found.append(torch.autograd.grad((weights[0].double() * direction).sum(), leaves))
        for ours, theirs in zip(*found):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(100_000, 1), (1, 100_000)], ids=str)
@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm()], ids=str)
def test_a_certain_alignment_has_weight_one(shape, omega):
    scores = normal(*shape)
    assert bool((om.Alignment().argmax(scores, omega) == 1).all())


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm()], ids=str)
def test_long_alignments(omega):
    scores = normal(700, 3000)
    assert_same(om.Alignment().argmax(scores, omega), om.Alignment().argmax(scores.double(), omega))


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)], ids=str)
def test_one_tag_is_visited_at_every_place_of_a_long_chain(omega):
    chain, n = om.Chain(), 30_000
    dense = chain.argmax(normal(n, 3, 3), omega)
    factored = chain.argmax(chain.from_emissions(normal(n, 3), normal(3, 3)), omega)
    for visits in (dense.sum((-1, -2)), factored.emissions.sum(-1)):
        torch.testing.assert_close(visits, torch.ones(n, dtype=torch.float32), rtol=0, atol=1e-6)


def test_log_prob_of_a_long_chain_under_the_squared_norm(backend):
    chain, potentials = om.Chain(), normal(800, 2, 2)
    best = chain.map(potentials)
    found = chain.log_prob(potentials, best, om.SquaredNorm())
    expected = chain.log_prob(potentials.double(), best.double(), om.SquaredNorm())
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-4)


def test_the_loss_of_a_long_chain_is_a_difference_of_large_numbers():
    n = 20_000
    emissions = normal(1, n, 3)
    tags = emissions.argmax(-1)
    emissions = emissions + 20 * torch.nn.functional.one_hot(tags, 3)  # the value is about 400,000, the loss tiny
    potentials = om.Chain.from_emissions(emissions, torch.zeros(3, 3, dtype=torch.float32))
    gold = om.Chain.factored_from_tags(tags, 3, dtype=torch.float32)
    found, expected = (
        om.CRFLoss(om.Chain())(p, g) for p, g in ((potentials, gold), (double(potentials), double(gold)))
    )
    assert abs(float(found) - float(expected)) < 2e-3  # the values are 0.03 apart in float32


def test_soft_dtw_of_points_far_away():
    x, y = 0.1 * normal(1, 30, 2), 0.1 * normal(1, 20, 2)
    y[:, 0] += 6e3
    for omega in om.Shannon(), om.SquaredNorm():
        points, wide = x.clone().requires_grad_(), x.double().requires_grad_()
        (found,) = torch.autograd.grad(om.soft_dtw(points, y, regularizer=omega).sum(), points)
        (expected,) = torch.autograd.grad(om.soft_dtw(wide, y.double(), regularizer=omega).sum(), wide)
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-3)


def test_scores_beyond_the_digits_of_a_double():
    chain, potentials = om.Chain(), torch.randn(5, 3, 3, dtype=torch.float64)
    far = potentials.clone()
    far[2] = 1e30
    near = potentials.clone()
    near[2] = 0.0
    found, expected = chain.support(far, om.Shannon()), chain.support(near, om.Shannon())
    torch.testing.assert_close(found.probabilities, expected.probabilities)


def test_centred_scores_have_the_same_local_weights():
    chain, potentials = om.Chain(), torch.randn(1, 4, 3, 3, dtype=torch.float64)
    lattice = chain.lattice(((4, 3, 3),))
    scores = lattice.scores_of_edges((potentials,))
    moved = scores + 1e9 * (torch.arange(scores.shape[1]) < 3)  # the first tags
    relative = centred(lattice.topology, moved)
    assert (
        relative.best is not None
        and float(relative.scores.max()) <= 0
        and math.isclose(float(relative.best.max()), 1e9, rel_tol=1e-6)
    )
    for omega in om.Shannon(), om.SquaredNorm():
        ours, theirs = (inside(lattice.topology, s, omega).backpointers for s in (relative.scores, scores))
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
