"""Spans of chains with positions left out, against all sequences of tags, and against chains that were cut before."""

import itertools

import pytest
import torch
from test_span_probabilities import OMEGAS, SCHEMES, by_enumeration, draw

import omegamax as om

POSITIONS = torch.tensor([[0, 1, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0, 0]], dtype=torch.bool)


def with_holes(names, seed):
    """Three items; what is removed is NaN."""
    long = draw(names, 21, seed)
    emissions = torch.where(POSITIONS.unsqueeze(-1), long.emissions.reshape(3, 7, -1), torch.nan)
    return om.Chain.from_emissions(emissions, *long[1:])


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_against_all_sequences(scheme, omega, backend):
    """Spans of the positions that are kept, which are found again where they were."""
    names = SCHEMES[scheme]
    potentials = with_holes(names, seed=4)
    found = om.spans.span_probabilities(potentials, om.spans.TagReader(names), OMEGAS[omega], positions=POSITIONS)
    for item, kept in enumerate(POSITIONS):
        places = kept.nonzero().flatten().tolist()
        short = om.Chain.from_emissions(potentials.emissions[item, kept], *potentials[1:])
        exact, inside = by_enumeration(short, names, OMEGAS[omega], len(places))
        expected = torch.zeros_like(found.exact[item])
        for (start, end, kind), p in exact.items():
            first, last = places[start], places[end - 1]
            expected[first, last - first, found.types.index(kind)] = p
        torch.testing.assert_close(found.exact[item], expected, atol=1e-12, rtol=0)
        assert ((found.exact[item] == 0) == (expected == 0)).all()
        expected = torch.zeros_like(found.inside[item])
        for (place, kind), p in inside.items():
            expected[places[place], found.types.index(kind)] = p
        torch.testing.assert_close(found.inside[item], expected, atol=1e-12, rtol=0)


def test_spans_are_counted_in_all_positions():
    names = ["O", "B-x", "I-x"]
    emissions = torch.full((6, 3), -20.0)
    for place, tag in ((0, 0), (2, 1), (4, 2), (5, 0)):  # a word, then one in two pieces, then another word
        emissions[place, tag] = 0.0
    kept = torch.tensor([True, False, True, False, True, True])
    potentials = om.Chain.from_emissions(emissions, torch.zeros(3, 3))
    found = om.spans.span_probabilities(potentials, om.spans.TagReader(names), positions=kept)
    (best,) = om.spans.decode_spans(found)
    assert (best.start, best.end, best.type) == (2, 5, "x") and best.probability > 0.99
    short = om.spans.span_probabilities(potentials, om.spans.TagReader(names), positions=kept, max_length=2)
    torch.testing.assert_close(short.exact, found.exact[:, :2])  # three positions, one of them removed


@pytest.mark.parametrize("omega", ["shannon", "squared"])
def test_dense_batches_and_gradients(omega, backend):
    names = SCHEMES["BIO"]
    reader = om.spans.TagReader(names)
    dense = torch.randn(3, 7, 5, 5, dtype=torch.float64)
    found = om.spans.span_probabilities(dense, reader, OMEGAS[omega], positions=POSITIONS, max_length=6)
    for item, kept in enumerate(POSITIONS):
        places = kept.nonzero().flatten().tolist()
        alone = om.spans.span_probabilities(dense[item, kept], reader, OMEGAS[omega])
        for start, end in itertools.combinations_with_replacement(range(len(places)), 2):
            if places[end] - places[start] < 6:
                here = found.exact[item, places[start], places[end] - places[start]]
                torch.testing.assert_close(here, alone.exact[start, end - start])
        assert found.exact[item].sum() <= alone.exact.sum() + 1e-9  # and there are no others

    def numbers(scores):
        found = om.spans.span_probabilities(scores, reader, OMEGAS[omega], positions=POSITIONS, max_length=4)
        return found.exact, found.inside

    assert torch.autograd.gradcheck(numbers, dense.requires_grad_(), fast_mode=True)
    (gradient,) = torch.autograd.grad(sum(part.sum() for part in numbers(dense)), dense)
    assert (gradient[~POSITIONS] == 0).all()
