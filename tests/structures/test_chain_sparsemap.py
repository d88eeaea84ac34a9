"""Chains under SparseMAP: extra transitions, threads, long chains, edges."""

import pytest
import torch
from threads import same_with_any_threads

import omegamax as om


def drawn(batch=4, places=7, tags=3):
    emissions = torch.randn(batch, places, tags, dtype=torch.float64)
    transitions = torch.randn(tags, tags, dtype=torch.float64)
    return emissions, transitions


def test_extra_is_the_factored_form():
    emissions, transitions = drawn()
    start, end = torch.randn(2, 3, dtype=torch.float64)
    chain = om.Chain()
    expected = chain.sparsemap(chain.from_emissions(emissions, transitions)).marginals
    torch.testing.assert_close(chain.sparsemap(emissions, extra=transitions).marginals, expected)
    expected = chain.sparsemap(chain.from_emissions(emissions, transitions, start, end)).marginals
    torch.testing.assert_close(chain.sparsemap(emissions, extra=(transitions, start, end)).marginals, expected)


def test_without_transitions_it_is_sparsemax_at_every_place():
    emissions, transitions = drawn()
    found = om.Chain().sparsemap(emissions, extra=0 * transitions)
    torch.testing.assert_close(found.marginals.emissions, om.sparsemax(emissions))


def test_threads_change_nothing():
    emissions, transitions = drawn(batch=9)

    def compute():
        found = om.Chain().sparsemap(emissions, extra=transitions)
        return found.marginals.emissions, found.structures.emissions

    same_with_any_threads(compute)


def test_many_structures_and_long_chains():
    """Small scores need hundreds of structures; the gap stays at rounding."""
    emissions, transitions = drawn(batch=2, places=40, tags=5)
    found = om.Chain().sparsemap(0.1 * emissions, extra=0.1 * transitions)
    assert found.probabilities.shape[-1] > 60
    assert found.gap.max() < 1e-12
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(2, dtype=torch.float64))


def test_garbage_beyond_the_length():
    emissions, transitions = drawn()
    lengths = torch.tensor([7, 4, 1, 2])
    expected = om.Chain().sparsemap(emissions, extra=transitions, lengths=lengths).marginals.emissions
    spoilt = emissions.clone()
    spoilt[1, 4:], spoilt[2, 1:] = torch.nan, torch.inf
    spoilt.requires_grad_()
    found = om.Chain().sparsemap(spoilt, extra=transitions, lengths=lengths).marginals.emissions
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.square().sum(), spoilt)
    assert gradient.isfinite().all() and not gradient[1, 4:].any()


def test_infeasible_items():
    emissions, transitions = drawn()
    emissions[2] = -torch.inf
    emissions.requires_grad_()
    smooth = om.SparseMAP(om.Chain())
    potentials = om.Chain.from_emissions(emissions, transitions)
    value = smooth.max(potentials)
    assert value[2] == -torch.inf and value[[0, 1, 3]].isfinite().all()
    weights = smooth.argmax(potentials)
    assert not weights.emissions[2].any()
    (gradient,) = torch.autograd.grad(weights.emissions.square().sum(), emissions)
    assert gradient.isfinite().all() and not gradient[2].any()


def gap_by_hand(scores, marginals):
    """max over paths of <g, path> − <g, μ> for g = scores − μ, by Viterbi in a few lines."""
    gradient = scores - marginals
    value = gradient[0, 0]
    for place in gradient[1:]:
        value = (value.unsqueeze(1) + place).amax(0)
    read = gradient.clone()
    read[0, 1:] = 0  # at the first place only row 0 counts
    return float(value.max() - (read * marginals).sum())


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.1])
def test_nearly_flat_scores_of_a_dense_chain(scale):
    """Hundreds of paths get probability. They come from the marginals, solved for at once, and the gap proves these."""
    scores = scale * torch.randn(2, 12, 5, 5, dtype=torch.float64)
    found = om.Chain().sparsemap(scores, lengths=torch.tensor([12, 9]))
    for item, length in enumerate((12, 9)):
        assert abs(gap_by_hand(scores[item, :length], found.marginals[item, :length])) < 1e-12
        assert (found.marginals[item, length:] == 0).all()
    p, paths = found.probabilities, found.structures
    assert (p >= 0).all() and set(paths.unique().tolist()) <= {0.0, 1.0}
    torch.testing.assert_close(p.sum(1), torch.ones(2, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(torch.einsum("bk,bknij->bnij", p, paths), found.marginals, atol=1e-13, rtol=0)
    inflow, outflow = found.marginals[0, 1:-1].sum(-2), found.marginals[0, 2:].sum(-1)
    torch.testing.assert_close(inflow, outflow, atol=1e-13, rtol=0)
    assert int(found.n_iterations.max()) < 1000


def test_forbidden_transitions_stay_so_where_scores_are_flat():
    scores = 0.01 * torch.randn(1, 12, 5, 5, dtype=torch.float64)
    scores[:, :, 1, 2] = scores[:, :, 3, 0] = -torch.inf
    found = om.Chain().sparsemap(scores)
    assert (found.marginals[scores == -torch.inf] == 0).all() and float(found.gap) < 1e-12
    finite = torch.where(scores == -torch.inf, -1e6, scores)
    assert abs(gap_by_hand(finite[0], found.marginals[0])) < 1e-9


@pytest.mark.parametrize(
    ("structure", "shape"), [(om.Chain(), (8, 4, 4)), (om.Matching(), (10, 10)), (om.Arborescence(), (10, 10))], ids=str
)
def test_derivatives_where_scores_are_nearly_flat(structure, shape):
    scores = 0.01 * torch.randn(1, *shape, dtype=torch.float64)
    direction = torch.randn(1, *shape, dtype=torch.float64)
    argmax, step = om.SparseMAP(structure).argmax, 1e-6
    found = torch.func.jvp(argmax, (scores,), (direction,))[1]
    expected = (argmax(scores + step * direction) - argmax(scores - step * direction)) / (2 * step)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
