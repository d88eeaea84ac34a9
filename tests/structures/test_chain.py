"""What is special to chains: forms, matrices, tags; second order through other structures."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import gradcheck

import omegamax as om

OMEGAS = [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(1.2), om.Hard()]


def draw(batch=(3,), n=5, c=4):
    return om.Chain.from_emissions(
        torch.randn(*batch, n, c, dtype=torch.float64),
        torch.randn(c, c, dtype=torch.float64),
        torch.randn(c, dtype=torch.float64),
        torch.randn(c, dtype=torch.float64),
    )


@pytest.mark.parametrize("omega", OMEGAS, ids=lambda omega: type(omega).__name__)
def test_transition_matrices_walk_back_to_the_marginals(omega, backend):
    potentials, lengths = draw(), torch.tensor([5, 1, 3])
    weights = om.Chain().argmax(potentials, omega, lengths=lengths)
    q, last = om.Chain().transition_matrices(potentials, omega, lengths=lengths)
    torch.testing.assert_close(last, weights.end)
    for item, length in enumerate(lengths.tolist()):
        visits, pairs = last[item], 0
        for place in reversed(range(length)):
            torch.testing.assert_close(visits, weights.emissions[item, place])
            flow = q[item, place] * visits
            visits = flow.sum(-1)
            pairs = pairs + flow * (place > 0)
        torch.testing.assert_close(pairs + 0 * q[item, 0], weights.transitions[item])
        assert (q[item, length:] == 0).all()


def test_transition_matrices_of_a_dense_chain_differentiate():
    dense = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: tuple(om.Chain().transition_matrices(x)), dense, fast_mode=True)
    with torch.no_grad():
        q, last = om.Chain().transition_matrices(dense, om.SquaredNorm())
    assert q.shape == (4, 3, 3) and last.shape == (3,)
    torch.testing.assert_close(q.sum(-2), torch.ones(4, 3, dtype=torch.float64))


def test_factored_from_tags():
    potentials, lengths = draw(), torch.tensor([5, 1, 3])
    tags = torch.randint(4, (3, 5))
    dense, factored = (
        om.Chain.from_tags(tags, 4, lengths=lengths),
        om.Chain.factored_from_tags(tags, 4, lengths=lengths),
    )
    expected = torch.where(torch.arange(5) < lengths[:, None], tags, -1)
    assert torch.equal(om.Chain.tags(dense), expected) and torch.equal(om.Chain.tags(factored), expected)
    for item, length in enumerate(lengths.tolist()):
        score = potentials.start[tags[item, 0]] + potentials.end[tags[item, length - 1]]
        for place in range(length):
            score = score + potentials.emissions[item, place, tags[item, place]]
            if place:
                score = score + potentials.transitions[tags[item, place - 1], tags[item, place]]
        found = om.Chain().log_prob(potentials, factored, lengths=lengths)[item]
        torch.testing.assert_close(found, score - om.Chain().max(potentials, lengths=lengths)[item])


def test_shared_transitions_are_never_copied():
    """A batch of items that share their transitions reads one matrix."""
    potentials = draw(batch=(2, 3))
    problem = om.Chain().bind(potentials)
    assert problem.parts[1].stride(0) == 0
    leaf = potentials.transitions.requires_grad_()
    om.Chain().max(om.Chain.from_emissions(potentials.emissions, leaf)).sum().backward()
    assert leaf.grad.shape == (4, 4)
    assert leaf.grad.sum().item() == pytest.approx(6 * 4)  # transitions in all


def test_second_order_by_pairs_of_tags():
    """A tag of the chain is a pair of tags; pairs that do not overlap are forbidden."""
    n, c = 4, 3
    triples = torch.randn(n, c, c, c, dtype=torch.float64)  # [n, h, i, j]: j at n after i after h
    pairs = torch.full((n, c * c, c * c), -torch.inf, dtype=torch.float64)
    for h, i, j in itertools.product(range(c), repeat=3):
        pairs[1:, h * c + i, i * c + j] = triples[1:, h, i, j]
    pairs[0, 0, :c] = triples[0, 0, 0]  # before the first tag there is tag 0
    found = om.Chain().max(pairs)
    scores = []
    for tags in itertools.product(range(c), repeat=n):
        padded = (0, 0, *tags)
        scores.append(sum(triples[m, padded[m], padded[m + 1], padded[m + 2]] for m in range(n)))
    torch.testing.assert_close(found, torch.stack(scores).logsumexp(0))
    assert om.Chain().count(pairs) == c**n


def test_semi_markov_with_one_position_per_segment_is_a_chain():
    chain = draw()
    potentials = om.SemiMarkov(1).from_emissions(chain.emissions, chain.transitions, chain.start)
    expected = om.Chain().max(om.Chain.from_emissions(*chain[:3]), om.SquaredNorm())
    torch.testing.assert_close(om.SemiMarkov(1).max(potentials, om.SquaredNorm()), expected)


def test_semi_markov_from_emissions():
    emissions = torch.randn(6, 2, dtype=torch.float64)
    emissions[2, 1] = -torch.inf
    durations = torch.randn(3, 2, dtype=torch.float64)
    segmental = om.SemiMarkov(3)
    potentials = segmental.from_emissions(emissions, torch.zeros(2, 2, dtype=torch.float64), durations=durations)
    assert not potentials.isnan().any()
    best = segmental.map(potentials)
    total, at = 0.0, 0
    for first, last, tag in segmental.segments(best):
        assert first == at and last - first < 3
        total += emissions[first : last + 1, tag].sum() + durations[last - first, tag]
        at = last + 1
    assert at == 6
    torch.testing.assert_close(segmental.max(potentials, om.Hard()), total)
    with pytest.raises(ValueError, match="third axis"):
        segmental.from_segments(torch.zeros(6, 2, 2))


@pytest.mark.parametrize("n_items", [2, 3])
def test_starts_of_segments_may_differ_between_items(n_items):
    """Also where there are as many items as durations, 3."""
    segmental = om.SemiMarkov(3)
    segments, start = torch.randn(n_items, 5, 3, 2), torch.randn(n_items, 2)
    each = [segmental.from_segments(one, start=first) for one, first in zip(segments, start)]
    torch.testing.assert_close(segmental.from_segments(segments, start=start), torch.stack(each))
