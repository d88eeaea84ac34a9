"""Chains under SparseMAP: extra transitions, threads, long chains, edges."""

import torch

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
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(om.Chain().sparsemap(emissions, extra=transitions))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0].marginals.emissions, found[1].marginals.emissions)
    assert torch.equal(found[0].structures.emissions, found[1].structures.emissions)


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
