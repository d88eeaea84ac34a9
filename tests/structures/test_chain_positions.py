"""Chains with positions left out, against chains from which they were cut in Python, and against all tag sequences."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(1.2), om.Oscar(0.05)]
OMEGAS += [om.Scaled(om.SquaredNorm(), 0.3)]
POSITIONS = torch.tensor(
    [[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 1, 0]],
    dtype=torch.bool,
)
CHAIN = om.Chain()


def draw(form, c=3, positions=POSITIONS):
    """Potentials that are NaN wherever nobody may look."""
    b, n = positions.shape
    if form == "dense":
        return torch.where(positions[..., None, None], torch.randn(b, n, c, c, dtype=torch.float64), torch.nan)
    emissions = torch.where(positions[..., None], torch.randn(b, n, c, dtype=torch.float64), torch.nan)
    others = [torch.randn(*shape, dtype=torch.float64) for shape in ((c, c), (b, c), (c,))]
    return CHAIN.from_emissions(emissions, *others)


def cut(thing, item):
    """One item, without the positions that are removed; for potentials, structures and weights."""
    if isinstance(thing, torch.Tensor):
        return thing[item][POSITIONS[item]]
    first, *others = thing
    own = [part[item] if part.dim() > dim else part for part, dim in zip(others, (2, 1, 1))]
    return type(thing)(first[item][POSITIONS[item]], *own)


def cut_lists(thing, item):
    """The same for structures (*batch, k, *event)."""
    if isinstance(thing, torch.Tensor):
        return thing[item][:, POSITIONS[item]]
    first, *others = (part[item] for part in thing)
    return type(thing)(first[:, POSITIONS[item]], *others)


def assert_nothing_elsewhere(weights):
    first = weights if isinstance(weights, torch.Tensor) else weights[0]
    assert (first[~POSITIONS] == 0).all()


def assert_equal(found, expected, **options):
    for one, other in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (found, expected))):
        torch.testing.assert_close(one, other, **options)


@pytest.mark.parametrize("omega", OMEGAS, ids=repr)
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_value_and_weights_are_those_of_what_is_left(form, omega, backend):
    potentials = draw(form)
    value = CHAIN.max(potentials, omega, positions=POSITIONS)
    weights = CHAIN.argmax(potentials, omega, positions=POSITIONS)
    best = CHAIN.map(potentials, positions=POSITIONS)
    q, last = CHAIN.transition_matrices(potentials, omega, positions=POSITIONS)
    for found in (weights, best, q):
        assert_nothing_elsewhere(found)
    for item in range(len(POSITIONS)):
        alone = cut(potentials, item)
        torch.testing.assert_close(value[item], CHAIN.max(alone, omega))
        assert_equal(cut(weights, item), CHAIN.argmax(alone, omega))
        assert_equal(cut(best, item), CHAIN.map(alone))
        expected = CHAIN.transition_matrices(alone, omega)
        torch.testing.assert_close(cut(q, item), expected.transitions)
        torch.testing.assert_close(last[item], expected.last)


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_against_all_sequences(form, backend):
    """The score of a sequence is summed up by hand, as the documentation defines it."""
    potentials, c = draw(form), 3
    for item, kept in enumerate(POSITIONS):
        places, scores, expected = kept.nonzero().flatten().tolist(), [], []
        for tags in itertools.product(range(c), repeat=len(places)):
            score, structure = 0, torch.zeros(6, c, c, dtype=torch.float64)
            for number, (place, tag) in enumerate(zip(places, tags)):
                before = tags[number - 1] if number else 0
                structure[place, before, tag] = 1
                if form == "dense":
                    score = score + potentials[item, place, before, tag]
                else:
                    score = score + potentials.emissions[item, place, tag]
                    score = score + (potentials.transitions[before, tag] if number else potentials.start[item, tag])
            scores.append(score + (potentials.end[tags[-1]] if form == "factored" else 0))
            expected.append(structure if form == "dense" else structure.sum(-2))
        scores, expected = torch.stack(scores), torch.stack(expected)
        found = CHAIN.max(potentials, positions=POSITIONS)[item]
        torch.testing.assert_close(found, scores.logsumexp(0))
        torch.testing.assert_close(CHAIN.max(potentials, om.Hard(), positions=POSITIONS)[item], scores.max())
        mean = (
            scores.softmax(0)[:, None, None, None] if form == "dense" else scores.softmax(0)[:, None, None]
        ) * expected
        weights = CHAIN.argmax(potentials, positions=POSITIONS)
        torch.testing.assert_close((weights if form == "dense" else weights.emissions)[item], mean.sum(0))
        assert CHAIN.count(potentials, positions=POSITIONS)[item] == c ** len(places)
        listed = CHAIN.enumerate(potentials, positions=POSITIONS)[item]
        listed = listed if form == "dense" else listed.emissions
        assert {tuple(each.flatten().tolist()) for each in listed} == {tuple(e.flatten().tolist()) for e in expected}


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm()], ids=repr)
def test_lists_and_measures(form, omega, backend):
    potentials, other = draw(form), draw(form)
    top = CHAIN.topk(potentials, 4, positions=POSITIONS)
    support = CHAIN.support(potentials, omega, positions=POSITIONS, limit=8)
    logs = CHAIN.log_prob(potentials, CHAIN.map(other, positions=POSITIONS), omega, positions=POSITIONS)
    marginal = None if omega.always_positive else CHAIN.marginal(potentials, omega, positions=POSITIONS)
    for item in range(len(POSITIONS)):
        alone = cut(potentials, item)
        expected = CHAIN.topk(alone, 4)
        torch.testing.assert_close(top.scores[item], expected.scores)
        assert_equal(cut_lists(top.structures, item), expected.structures)
        expected = CHAIN.support(alone, omega, limit=8)
        width = len(expected.probabilities)
        torch.testing.assert_close(support.probabilities[item, :width], expected.probabilities)
        found = cut_lists(support.structures, item)
        assert_equal(found[:width] if form == "dense" else [part[:width] for part in found], expected.structures)
        assert (support.probabilities[item, width:] == 0).all()
        gold = CHAIN.map(cut(other, item))
        torch.testing.assert_close(logs[item], CHAIN.log_prob(alone, gold, omega))
        if marginal is not None:
            assert_equal(cut(marginal.weights, item), CHAIN.marginal(alone, omega).weights)
    if isinstance(omega, om.Shannon):
        entropy = CHAIN.entropy(potentials, positions=POSITIONS)
        kl = CHAIN.kl(potentials, other, positions=POSITIONS)
        for item in range(len(POSITIONS)):
            torch.testing.assert_close(entropy[item], CHAIN.entropy(cut(potentials, item)))
            torch.testing.assert_close(kl[item], CHAIN.kl(cut(potentials, item), cut(other, item)))


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_samples(form):
    potentials = draw(form)
    generator = torch.Generator().manual_seed(0)
    drawn = CHAIN.sample(potentials, n_samples=4000, generator=generator, positions=POSITIONS)
    tags = CHAIN.tags(drawn)
    assert ((tags >= 0) == POSITIONS).all()
    assert CHAIN.log_prob(potentials, drawn, positions=POSITIONS).isfinite().all()
    mean = CHAIN.argmax(potentials, positions=POSITIONS)
    for found, expected in zip(*((x,) if form == "dense" else x for x in (drawn, mean))):
        torch.testing.assert_close(found.double().mean(0), expected, atol=0.08, rtol=0)  # over five standard errors


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_sparsemap(form, backend):
    potentials = draw(form)
    found = CHAIN.sparsemap(potentials, positions=POSITIONS)
    smooth = om.SparseMAP(CHAIN)
    value, weights = smooth.max_and_argmax(potentials, positions=POSITIONS)
    assert_nothing_elsewhere(found.marginals)
    assert torch.equal(found.positions, POSITIONS)
    for item in range(len(POSITIONS)):
        alone = cut(potentials, item)
        expected = CHAIN.sparsemap(alone)
        assert_equal(cut(found.marginals, item), expected.marginals, atol=1e-9, rtol=1e-9)
        assert_equal(cut(weights, item), expected.marginals, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(value[item], smooth.max(alone))


def test_sparsemap_starts_anew_where_positions_differ():
    potentials = draw("factored", positions=torch.ones_like(POSITIONS))
    first = CHAIN.sparsemap(potentials, positions=POSITIONS)
    again = CHAIN.sparsemap(potentials, positions=POSITIONS, start=first)
    assert_equal(again.marginals, first.marginals, atol=1e-9, rtol=1e-9)
    assert (again.n_iterations <= first.n_iterations).all()
    moved = POSITIONS.flip(1)  # of the same lengths
    expected = CHAIN.sparsemap(potentials, positions=moved)
    assert_equal(
        CHAIN.sparsemap(potentials, positions=moved, start=first).marginals, expected.marginals, atol=1e-9, rtol=0
    )
    in_front = CHAIN.sparsemap(potentials, lengths=POSITIONS.sum(1))
    found = CHAIN.sparsemap(potentials, lengths=POSITIONS.sum(1), start=first)
    assert_equal(found.marginals, in_front.marginals, atol=1e-9, rtol=0)


@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(1.3)], ids=repr)
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_derivatives(form, omega, backend):
    kind = None if form == "dense" else om.structures.chain.FactoredChain
    given = draw(form, positions=torch.ones_like(POSITIONS))  # finite differences move removed scores too
    parts = [part.requires_grad_() for part in ((given,) if kind is None else given)]
    as_potentials = (lambda x: x) if kind is None else lambda *x: kind(*x)

    def value(*x):
        return CHAIN.max(as_potentials(*x), omega, positions=POSITIONS)

    def weights(*x):
        found = CHAIN.argmax(as_potentials(*x), omega, positions=POSITIONS)
        return found if kind is None else tuple(found)

    assert gradcheck(value, parts, fast_mode=True)
    assert gradgradcheck(value, parts, fast_mode=True)
    assert gradcheck(weights, parts, fast_mode=True)
    (gradient, *_) = torch.autograd.grad(value(*parts).sum(), parts)
    assert (gradient[~POSITIONS] == 0).all()


def test_garbage_at_removed_positions_reaches_no_gradient(backend):
    for form in ("dense", "factored"):
        given = draw(form)
        parts = [part.requires_grad_() for part in ((given,) if form == "dense" else given)]
        for omega in OMEGAS[1:4]:
            value = CHAIN.max(given, omega, positions=POSITIONS)
            first = torch.autograd.grad(value.sum(), parts, create_graph=True)
            second = torch.autograd.grad(sum((part**2).sum() for part in first), parts)
            assert all(part.isfinite().all() for part in (*first, *second))
        logs = CHAIN.log_prob(given, CHAIN.map(given, positions=POSITIONS), om.SquaredNorm(), positions=POSITIONS)
        assert all(part.isfinite().all() for part in torch.autograd.grad(logs.sum(), parts))


def test_transforms():
    dense = draw("dense")
    expected = CHAIN.argmax(dense, om.SquaredNorm(), positions=POSITIONS)
    found = torch.func.grad(lambda x: CHAIN.max(x, om.SquaredNorm(), positions=POSITIONS).sum())(dense)
    torch.testing.assert_close(found, expected)
    many = torch.stack([dense, 2 * dense])
    each = torch.func.vmap(lambda x: CHAIN.max(x, om.SquaredNorm(), positions=POSITIONS))(many)
    torch.testing.assert_close(each[1], CHAIN.max(2 * dense, om.SquaredNorm(), positions=POSITIONS))


LOSSES = [
    om.CRFLoss(CHAIN, "none"),
    om.PerceptronLoss(CHAIN, "none"),
    om.FenchelYoungLoss(om.Smoothed(CHAIN, om.SquaredNorm()), "none"),
    om.FenchelYoungLoss(om.Smoothed(CHAIN, om.Oscar(0.05)), "none"),
    om.MarginLoss(CHAIN, reduction="none"),
    om.SparseMAPLoss(CHAIN, "none"),
    om.MarginSparseMAPLoss(CHAIN, reduction="none"),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_losses(form, loss, backend):
    potentials, tags = draw(form), torch.where(POSITIONS, torch.randint(3, POSITIONS.shape), -100)
    found = loss(potentials, tags, positions=POSITIONS)
    gold = CHAIN.target_from(tags, potentials, positions=POSITIONS)
    torch.testing.assert_close(loss(potentials, gold, positions=POSITIONS), found)
    assert torch.equal(CHAIN.tags(gold), torch.where(POSITIONS, tags, -1))
    for item, kept in enumerate(POSITIONS):
        alone = cut(potentials, item)
        torch.testing.assert_close(found[item], loss(alone, tags[item, kept]))
    with pytest.raises(ValueError, match="structure of Chain, got something else in item 0"):
        loss(potentials, CHAIN.target_from(tags.clamp(min=0), potentials), positions=POSITIONS)


def test_soft_targets():
    potentials, loss = draw("dense"), om.FenchelYoungLoss(om.Smoothed(CHAIN, om.SquaredNorm()), "none")
    target = CHAIN.argmax(potentials, om.SquaredNorm(), positions=POSITIONS)
    zero = torch.zeros(len(POSITIONS), dtype=torch.float64)
    torch.testing.assert_close(loss(potentials, target, positions=POSITIONS), zero, atol=1e-12, rtol=0)


@pytest.mark.parametrize("make", [CHAIN.from_tags, CHAIN.factored_from_tags], ids=["dense", "factored"])
def test_tags_that_are_missing(make):
    tags = torch.where(POSITIONS, torch.randint(3, POSITIONS.shape), -100)
    found = make(tags, 3, positions=POSITIONS)
    for item, kept in enumerate(POSITIONS):
        assert_equal(cut(found, item), make(tags[item, kept], 3))
    assert_nothing_elsewhere(found)
    with pytest.raises(
        ValueError, match=r"between 0 and 2, got -100 to \d; where a tag is missing \(as −100\), the pos"
    ):
        make(tags, 3, positions=POSITIONS | POSITIONS.roll(1, 1))
    with pytest.raises(ValueError, match="lengths or positions, got both"):
        make(tags, 3, positions=POSITIONS, lengths=[6] * 5)
    assert_equal(
        make(tags[0], 3, positions=POSITIONS[0]),
        type(found)(*(p[0] for p in found)) if isinstance(found, tuple) else found[0],
    )


def test_the_same_positions_for_all_and_batch_axes(backend):
    potentials = CHAIN.from_emissions(torch.randn(2, 5, 6, 3), torch.randn(3, 3))
    kept = torch.tensor([True, False, True, True, False, True])
    expected = CHAIN.max(CHAIN.from_emissions(potentials.emissions[:, :, kept], potentials.transitions))
    torch.testing.assert_close(CHAIN.max(potentials, positions=kept), expected)
    torch.testing.assert_close(CHAIN.max(potentials, positions=kept.expand(2, 5, 6)), expected)
    whole = CHAIN.argmax(potentials, positions=torch.ones(6, dtype=torch.bool))
    assert_equal(whole, CHAIN.argmax(potentials), atol=0, rtol=0)
    lengths = torch.tensor([[6, 1, 2, 3, 4], [5, 6, 6, 2, 3]])
    within = torch.arange(6) < lengths.unsqueeze(-1)
    for method in (CHAIN.max, CHAIN.argmax):
        assert_equal(method(potentials, positions=within), method(potentials, lengths=lengths), atol=0, rtol=0)
    half = CHAIN.from_emissions(potentials.emissions.half(), potentials.transitions.half())
    assert CHAIN.max(half, positions=kept).dtype is torch.float16


def test_bad_positions():
    potentials = draw("dense")
    with pytest.raises(ValueError, match="Chain: give lengths or positions, got both"):
        CHAIN.max(potentials, lengths=[1] * 5, positions=POSITIONS)
    with pytest.raises(TypeError, match=r"positions must be a boolean Tensor, got torch\.int64"):
        CHAIN.max(potentials, positions=POSITIONS.long())
    with pytest.raises(TypeError, match="positions must be a boolean Tensor, got list"):
        CHAIN.max(potentials, positions=POSITIONS.tolist())
    with pytest.raises(ValueError, match=r"positions must broadcast to \(5, 6\), got \(5, 5\)"):
        CHAIN.max(potentials, positions=POSITIONS[:, :5])
    with pytest.raises(ValueError, match="at least one position of each item, got none in item 3"):
        CHAIN.max(potentials, positions=POSITIONS & (torch.arange(5) != 3).unsqueeze(1))
    with pytest.raises(ValueError, match="Matching: positions must be None, got Tensor; only a Chain"):
        om.Matching().map(torch.zeros(2, 2), positions=torch.ones(2, dtype=torch.bool))
    with pytest.raises(ValueError, match="positions are for chains, got them with rows"):
        om.SoftmaxLoss()(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), positions=torch.ones(2, dtype=torch.bool))
