"""Span probabilities against all sequences of tags, each read by a rule written out by hand."""

import itertools
from collections import Counter

import pytest
import torch

import omegamax as om
from omegamax.kernels.structures.spans import span_mass, span_mass_gradient

SCHEMES = {
    "BIO": ["O", "B-x", "I-x", "B-y", "I-y"],
    "IOB1": ["I-x", "O", "B-x", "I-y"],
    "BIOES": ["O", "B-x", "I-x", "E-x", "S-x"],
    "BILOU": ["L-x", "U-x", "O", "I-x", "B-x"],
    "one type without O": ["B-x", "I-x"],
}
OMEGAS = {"shannon": om.Shannon(), "squared": om.SquaredNorm(), "tsallis": om.Tsallis(1.3), "hard": om.Hard()}


def spans_by_hand(names):
    """(start, end, type), read from left to right as the CoNLL script does."""
    found, start = set(), None
    for place, name in enumerate([*names, "O"]):
        prefix, kind = name[0], name[2:]
        before = names[place - 1] if place else "O"
        opens = prefix != "O" and (before == "O" or before[2:] != kind or prefix in "BSU" or before[0] in "ESLU")
        if start is not None and (prefix == "O" or opens):
            found.add((start, place, before[2:]))
            start = None
        if opens:
            start = place
    return found


def by_enumeration(potentials, names, omega, n):
    exact, inside = Counter(), Counter()
    sequences = list(itertools.product(range(len(names)), repeat=n))
    structures = om.Chain.factored_from_tags(torch.tensor(sequences), len(names), dtype=torch.float64)
    for tags, p in zip(sequences, om.Chain().prob(potentials, structures, omega).tolist()):
        for start, end, kind in spans_by_hand([names[t] for t in tags]):
            exact[start, end, kind] += p
            for place in range(start, end):
                inside[place, kind] += p
    return exact, inside


def draw(names, n, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    c = len(names)
    return om.Chain.from_emissions(normal(n, c), normal(c, c), normal(c), normal(c))


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_against_all_sequences(scheme, omega):
    names, n = SCHEMES[scheme], 4
    potentials = draw(names, n, seed=3)
    found = om.spans.span_probabilities(potentials, om.spans.TagReader(names), OMEGAS[omega])
    exact, inside = by_enumeration(potentials, names, OMEGAS[omega], n)
    for start, length, t in itertools.product(range(n), range(n), range(len(found.types))):
        expected = exact[start, start + length + 1, found.types[t]]
        assert float(found.exact[start, length, t]) == pytest.approx(expected, abs=1e-12)
        assert (float(found.exact[start, length, t]) == 0) == (expected == 0)  # zeros are exact
    for place, t in itertools.product(range(n), range(len(found.types))):
        assert float(found.inside[place, t]) == pytest.approx(inside[place, found.types[t]], abs=1e-12)
    torch.testing.assert_close(found.boundaries, found.exact.sum(-1))


@pytest.mark.parametrize("omega", ["shannon", "squared"])
def test_lengths_are_as_if_the_rest_were_not_there(omega):
    names = SCHEMES["BIO"]
    potentials = draw(names, 6, seed=1)
    emissions = torch.stack([potentials.emissions] * 3)
    emissions[1, 4:] = torch.nan
    batch = om.Chain.from_emissions(emissions, *potentials[1:])
    reader, lengths = om.spans.TagReader(names), torch.tensor([6, 4, 1])
    found = om.spans.span_probabilities(batch, reader, OMEGAS[omega], lengths=lengths, max_length=3)
    for item, length in enumerate(lengths.tolist()):
        short = om.Chain.from_emissions(potentials.emissions[:length], *potentials[1:])
        alone = om.spans.span_probabilities(short, reader, OMEGAS[omega], max_length=3)
        wide = torch.zeros(6, 3, 2, dtype=torch.float64)
        wide[:length, : alone.exact.shape[1]] = alone.exact
        torch.testing.assert_close(found.exact[item], wide)
        torch.testing.assert_close(found.inside[item, :length], alone.inside)
        assert (found.inside[item, length:] == 0).all()


def test_dense_and_factored_potentials_agree_under_masks():
    names = SCHEMES["BIOES"]
    potentials = draw(names, 5, seed=2)
    mask = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) < 0.8
    allowed = om.allowed_transitions(names, "BIOES")
    transitions = potentials.transitions.masked_fill(~allowed.transitions, -torch.inf)
    potentials = potentials._replace(transitions=transitions)
    dense = potentials.emissions.unsqueeze(-2) + potentials.transitions
    dense[0, 0] = potentials.emissions[0] + potentials.start
    dense[-1] += potentials.end
    reader = om.spans.TagReader(names)
    mask[:, 0] = True  # some sequence is left
    first = om.spans.span_probabilities(potentials, reader, mask=mask)
    second = om.spans.span_probabilities(dense, reader, mask=mask.unsqueeze(-2))
    torch.testing.assert_close(first.exact, second.exact)


@pytest.mark.parametrize("omega", ["shannon", "squared"])
@pytest.mark.thinned(2)
def test_gradients(omega):
    names = SCHEMES["BIO"]
    potentials = draw(names, 4, seed=5, scale=0.5)
    reader = om.spans.TagReader(names)

    def exact(*parts):
        found = om.spans.span_probabilities(om.Chain.from_emissions(*parts), reader, OMEGAS[omega], max_length=3)
        return found.exact, found.inside

    assert torch.autograd.gradcheck(exact, [part.requires_grad_() for part in potentials])


def test_transforms_and_forward_mode():
    names = SCHEMES["BIO"]
    emissions, *others = draw(names, 4, seed=5)
    reader = om.spans.TagReader(names)

    def exact(scores):
        return om.spans.span_probabilities(om.Chain.from_emissions(scores, *others), reader).exact

    jacobian = torch.autograd.functional.jacobian(exact, emissions)
    along = torch.ones_like(emissions)
    torch.testing.assert_close(torch.func.jacrev(exact)(emissions), jacobian)
    expected = (jacobian * along).sum((-1, -2))
    torch.testing.assert_close(torch.func.jvp(exact, (emissions,), (along,))[1], expected)
    batch = torch.stack([emissions, emissions.flip(0)])
    torch.testing.assert_close(torch.func.vmap(exact)(batch), torch.stack([*map(exact, batch)]))


def test_kernel_and_its_gradient_equal_the_reference():
    generator = torch.Generator().manual_seed(0)
    begin, end = (torch.rand(2, 5, 3, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    go_on = torch.rand(2, 5, 3, 2, 2, generator=generator, dtype=torch.float64)
    go_on[0, 2] = 0
    mass = span_mass(begin, go_on, end, max_length=4)
    torch.testing.assert_close(mass, span_mass.reference(begin, go_on, end, max_length=4))
    grad = torch.rand(mass.shape, generator=generator, dtype=torch.float64)
    for found, expected in zip(
        span_mass_gradient(begin, go_on, end, grad), span_mass_gradient.reference(begin, go_on, end, grad)
    ):
        torch.testing.assert_close(found, expected)


def test_float32_batches_and_positions_that_no_sequence_reaches():
    names = SCHEMES["BIO"]
    potentials = om.Chain.from_emissions(torch.zeros(2, 3, 5), torch.full((5, 5), -torch.inf))
    found = om.spans.span_probabilities(potentials, om.spans.TagReader(names))
    assert found.exact.dtype is torch.float32 and (found.exact == 0).all() and found.exact.shape == (2, 3, 3, 2)
    nan = om.Chain.from_emissions(torch.full((1, 3, 5), torch.nan), torch.zeros(5, 5))
    assert om.spans.span_probabilities(nan, om.spans.TagReader(names)).inside.isnan().all()
    empty = om.spans.span_probabilities(torch.zeros(0, 4, 5, 5), om.spans.TagReader(names))
    assert empty.exact.shape == (0, 4, 4, 2)


def test_bad_input():
    potentials = draw(SCHEMES["BIO"], 3, seed=0)
    with pytest.raises(ValueError, match=r"span_probabilities: reader must name 5 tags, .* got 2"):
        om.spans.span_probabilities(potentials, om.spans.TagReader(["O", "B-x"]))
    with pytest.raises(TypeError, match="span_probabilities: reader must be a TagReader, got list"):
        om.spans.span_probabilities(potentials, SCHEMES["BIO"])
    with pytest.raises(ValueError, match="max_length"):
        om.spans.span_probabilities(potentials, om.spans.TagReader(SCHEMES["BIO"]), max_length=0)
    with pytest.raises(ValueError, match="TagReader: a tag must be 'O' or one of"):
        om.spans.TagReader(["O", "X-y"])
    with pytest.raises(ValueError, match="each once"):
        om.spans.TagReader(["O", "O"])
