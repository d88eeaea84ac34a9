"""Partial gold: the loss is that of all answers minus that of the allowed ones, counted out."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om

CHAIN = om.Chain()
OMEGAS = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5), om.Tsallis(1.2), om.SquaredPNorm(1.5)]
OMEGAS += [om.Scaled(om.Shannon(), 0.4)]
N, C = 4, 3


def draw(form, batch=3):
    if form == "dense":
        return torch.randn(batch, N, C, C, dtype=torch.float64)
    normal = [torch.randn(*shape, dtype=torch.float64) for shape in ((batch, N, C), (C, C), (C,), (C,))]
    return CHAIN.from_emissions(*normal)


def draw_allowed(batch=3):
    """Some tags of every position, at least one."""
    allowed = torch.rand(batch, N, C) < 0.5
    return allowed | torch.nn.functional.one_hot(torch.randint(C, (batch, N)), C).bool()


def all_sequences(n=N):
    return torch.tensor(list(itertools.product(range(C), repeat=n)))


def scores_by_hand(potentials, item):
    """The scores of all sequences of tags, by enumeration."""
    found = []
    for tags in all_sequences().tolist():
        if isinstance(potentials, torch.Tensor):
            found.append(sum(potentials[item, n, tags[n - 1] if n else 0, tags[n]] for n in range(N)))
            continue
        score = potentials.start[tags[0]] + potentials.end[tags[-1]]
        score = score + sum(potentials.emissions[item, n, tags[n]] for n in range(N))
        found.append(score + sum(potentials.transitions[i, j] for i, j in itertools.pairwise(tags)))
    return torch.stack(found)


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_against_all_sequences(form, backend):
    """Under Shannon −log of the probability of what is allowed; under Hard what the best allowed one lacks."""
    potentials, allowed = draw(form), draw_allowed()
    soft = om.PartialLoss(om.Smoothed(CHAIN, om.Shannon()), "none")(potentials, allowed)
    hard = om.PartialLoss(om.Smoothed(CHAIN, om.Hard()), "none")(potentials, allowed)
    for item in range(3):
        scores, tags = scores_by_hand(potentials, item), all_sequences()
        fits = allowed[item, torch.arange(N), tags].all(-1)
        torch.testing.assert_close(soft[item], scores.logsumexp(0) - scores[fits].logsumexp(0))
        torch.testing.assert_close(hard[item], scores.max() - scores[fits].max())


def smoothed_by_hand(potentials, item, omega, allowed):
    """The recursion of a dense chain, row by row, over the tags that are allowed."""
    tags = [allowed[item, n].nonzero().flatten().tolist() for n in range(N)]
    value = {j: potentials[item, 0, 0, j] for j in tags[0]}
    for n in range(1, N):
        value = {
            j: omega.max(torch.stack([value[i] + potentials[item, n, i, j] for i in tags[n - 1]])) for j in tags[n]
        }
    return omega.max(torch.stack(list(value.values())))


@pytest.mark.parametrize("omega", OMEGAS, ids=repr)
def test_every_omega_restricts_its_recursion(omega, backend):
    potentials, allowed = draw("dense"), draw_allowed()
    found = om.PartialLoss(om.Smoothed(CHAIN, omega), "none")(potentials, allowed)
    for item in range(3):
        whole = smoothed_by_hand(potentials, item, omega, torch.ones_like(allowed))
        torch.testing.assert_close(found[item], whole - smoothed_by_hand(potentials, item, omega, allowed))


@pytest.mark.parametrize("omega", OMEGAS, ids=repr)
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_laws(form, omega, backend):
    """Never negative; zero if all is allowed; the usual loss if one tag is; larger if less is allowed."""
    potentials = draw(form, batch=20)
    smooth = om.Smoothed(CHAIN, omega)
    loss = om.PartialLoss(smooth, "none")
    allowed = draw_allowed(20)
    some = loss(potentials, allowed)
    assert (some >= 0).all()
    everything = torch.ones_like(allowed)
    assert (loss(potentials, everything) == 0).all()
    fewer = allowed & (draw_allowed(20) | (allowed.sum(-1, keepdim=True) == 1))
    fewer |= ~fewer.any(-1, keepdim=True) & allowed
    assert (loss(potentials, fewer) >= some - 1e-12).all()
    tags = torch.randint(C, (20, N))
    one = torch.nn.functional.one_hot(tags, C).bool()
    expected = om.FenchelYoungLoss(smooth, "none")(potentials, tags)
    torch.testing.assert_close(loss(potentials, one), expected)
    torch.testing.assert_close(loss(potentials, tags), expected)
    unknown = torch.where(torch.rand(20, N) < 0.5, -100, tags)
    torch.testing.assert_close(loss(potentials, unknown), loss(potentials, one | (unknown == -100).unsqueeze(-1)))


@pytest.mark.parametrize("omega", OMEGAS[1:4], ids=repr)
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_derivatives(form, omega, backend):
    """The gradient is the difference of the expected structures."""
    given, allowed = draw(form), draw_allowed()
    parts = [part.requires_grad_() for part in ((given,) if form == "dense" else given)]
    loss = om.PartialLoss(om.Smoothed(CHAIN, omega), "none")

    def value(*x):
        return loss(x[0] if form == "dense" else type(given)(*x), allowed)

    assert gradcheck(value, parts, fast_mode=True) and gradgradcheck(value, parts, fast_mode=True)
    gradient, *_ = torch.autograd.grad(value(*parts).sum(), parts)
    mask = allowed.unsqueeze(-2) if form == "dense" else allowed
    with torch.no_grad():
        every, fitting = CHAIN.argmax(given, omega), CHAIN.argmax(given, omega, mask=mask)
    expected = every - fitting if form == "dense" else every.emissions - fitting.emissions
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_lengths_positions_and_masks(form, backend):
    potentials, allowed = draw(form), draw_allowed()
    kept = torch.tensor([[True, False, True, True], [False, True, False, False], [True, True, False, True]])
    allowed[~kept] = False  # not read
    loss = om.PartialLoss(om.Smoothed(CHAIN, om.SquaredNorm()), "none")
    found = loss(potentials, allowed, positions=kept)
    unknown = torch.where(kept & (torch.rand(3, N) < 0.7), torch.randint(C, (3, N)), -100)
    of_tags = loss(potentials, unknown, positions=kept)
    for item in range(3):
        where = kept[item]
        alone = (
            potentials[item, where]
            if form == "dense"
            else CHAIN.from_emissions(potentials.emissions[item, where], *potentials[1:])
        )
        torch.testing.assert_close(found[item], loss(alone, allowed[item, where]))
        torch.testing.assert_close(of_tags[item], loss(alone, unknown[item, where]))
    lengths, allowed = torch.tensor([4, 1, 2]), draw_allowed()
    within = torch.arange(N) < lengths.unsqueeze(1)
    by_lengths = loss(potentials, allowed, lengths=lengths)
    torch.testing.assert_close(by_lengths, loss(potentials, allowed & within.unsqueeze(-1), positions=within))
    mask = draw_allowed()
    mask[..., 0] = allowed[..., 0] = True
    cells = mask.unsqueeze(-2) if form == "dense" else mask
    forbidden = (
        torch.where(cells, potentials, -torch.inf)
        if form == "dense"
        else potentials._replace(emissions=torch.where(mask, potentials.emissions, -torch.inf))
    )
    torch.testing.assert_close(loss(potentials, allowed, mask=cells), loss(forbidden, allowed))


def test_reductions_and_types():
    potentials, allowed = draw("dense"), draw_allowed()
    smooth = om.Smoothed(CHAIN, om.Shannon())
    each = om.PartialLoss(smooth, "none")(potentials, allowed)
    torch.testing.assert_close(om.PartialLoss(smooth)(potentials, allowed), each.mean())
    torch.testing.assert_close(om.PartialLoss(smooth, "sum")(potentials, allowed), each.sum())
    narrow = om.PartialLoss(smooth)(potentials.float(), allowed)
    assert narrow.dtype is torch.float32 and narrow.item() == pytest.approx(each.mean().item(), rel=1e-5)
    assert om.PartialLoss(smooth)(potentials.half(), allowed).dtype is torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert om.PartialLoss(smooth)(potentials.bfloat16(), allowed).dtype is torch.float32
    cells = allowed.unsqueeze(-2).expand(potentials.shape)
    torch.testing.assert_close(om.PartialLoss(smooth, "none")(potentials, cells), each)
    large = 1e6 + torch.randn(2, 300, C, C)  # the values are far larger than their difference
    one = torch.zeros(2, 300, C, dtype=torch.bool)
    one[..., 0] = True
    exact = om.PartialLoss(smooth)(large.double(), one)
    assert om.PartialLoss(smooth)(large, one).item() == pytest.approx(exact.item(), rel=1e-4)


@pytest.mark.parametrize("omega", [*OMEGAS, om.NormEntropy(1.5)], ids=repr)
def test_rows(omega):
    """The same for classes, with a solver that sees only the classes that are allowed."""
    scores, allowed = torch.randn(5, 4, dtype=torch.float64), torch.rand(5, 4) < 0.6
    allowed[:, 1] = True
    loss = om.PartialLoss(omega, "none")
    found = loss(scores, allowed)
    for row, fits, value in zip(scores, allowed, found):
        torch.testing.assert_close(value, omega.max(row) - omega.max(row[fits]))
    classes = torch.tensor([0, 3, -100, 1, -100])
    expected = om.FenchelYoungLoss(omega, "none")(scores, classes)
    torch.testing.assert_close(loss(scores, classes), expected)  # an ignored class costs nothing either
    assert gradcheck(lambda x: loss(x, allowed), scores.requires_grad_(), fast_mode=True)


def test_sparsemap_and_other_structures(backend):
    """On the face of what is allowed; a single answer gives SparseMAP's own loss."""
    potentials, tags = draw("factored"), torch.randint(C, (3, N))
    smooth = om.SparseMAP(CHAIN)
    loss = om.PartialLoss(smooth, "none")
    torch.testing.assert_close(loss(potentials, tags), om.SparseMAPLoss(CHAIN, "none")(potentials, tags))
    allowed = draw_allowed()
    expected = smooth.max(potentials) - smooth.max(potentials, mask=allowed)
    torch.testing.assert_close(loss(potentials, allowed), expected, atol=1e-9, rtol=1e-9)
    assert (loss(potentials, allowed) >= 0).all()


@pytest.mark.parametrize("tree", [om.ProjectiveTree(), om.Arborescence()], ids=repr)
def test_heads_of_trees(tree):
    """Some heads are unknown: the probability of all trees with the others, by enumeration of all trees."""
    arcs = torch.randn(2, 5, 5, dtype=torch.float64)
    heads = torch.tensor([[2, 0, -100, -100], [-100, 1, -100, 2]])
    found = om.PartialLoss(om.Smoothed(tree, om.Shannon()), "none")(arcs, heads)
    for item in range(2):
        scores, fits = [], []
        for guess in itertools.product(range(5), repeat=4):
            if is_tree(guess, tree.single_root) and (isinstance(tree, om.Arborescence) or is_projective(guess)):
                scores.append(sum(arcs[item, head, word] for word, head in enumerate(guess, 1)))
                fits.append(all(known in (-100, head) for known, head in zip(heads[item].tolist(), guess)))
        scores, fits = torch.stack(scores), torch.tensor(fits)
        torch.testing.assert_close(found[item], scores.logsumexp(0) - scores[fits].logsumexp(0))


def is_tree(heads, single_root):
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return heads.count(0) == 1 or not single_root


def is_projective(heads):
    arcs = [(min(head, word), max(head, word)) for word, head in enumerate(heads, 1)]
    return not any(a < c < b < d for (a, b), (c, d) in itertools.product(arcs, arcs))


def test_crf_layer():
    crf = om.CRF(C)
    with torch.no_grad():
        for own in crf.parameters():
            own.copy_(torch.randn(own.shape))
    emissions, tags = torch.randn(3, N, C), torch.randint(C, (3, N))
    torch.testing.assert_close(crf.partial_loss(emissions, tags), crf.loss(emissions, tags))
    mask = torch.tensor([[True, False, True, True], [False] * 4, [True, True, False, False]])
    unknown = torch.where(torch.rand(3, N) < 0.5, -100, tags)
    found = crf.partial_loss(emissions, unknown, mask=mask, reduction="none")
    assert found[1] == 0
    alone = crf.partial_loss(emissions[:1, mask[0]], unknown[:1, mask[0]])
    torch.testing.assert_close(found[0], alone)
    two = crf.partial_loss(emissions, unknown, lengths=[4, 0, 2], reduction="none")
    torch.testing.assert_close(two[2], found[2])
    allowed = draw_allowed()
    logs = torch.stack([CHAIN.log_prob(crf(emissions[0]), CHAIN.factored_from_tags(t, C)) for t in all_sequences()])
    fits = allowed[0, torch.arange(N), all_sequences()].all(-1)
    torch.testing.assert_close(crf.partial_loss(emissions[:1], allowed[:1]), -logs[fits].logsumexp(0))


def test_bad_input():
    potentials, allowed = draw("dense"), draw_allowed()
    loss = om.PartialLoss(om.Smoothed(CHAIN, om.Shannon()))
    allowed[1, 2] = False
    with pytest.raises(
        ValueError, match=r"PartialLoss: some answer must be allowed, got none with a score .* in item 1"
    ):
        loss(potentials, allowed)
    without = om.PartialLoss(om.Smoothed(CHAIN, om.Shannon()), "none", check=False)(potentials, allowed)
    assert without[1] == torch.inf and without[::2].isfinite().all()
    with pytest.raises(ValueError, match=r"must broadcast to the scores \(3, 4, 3, 3\)"):
        loss(potentials, allowed[..., :2])
    with pytest.raises(
        TypeError, match=r"allowed must be a boolean Tensor or an integer one of tags \(\.\.\., N\), got to"
    ):
        loss(potentials, allowed.double())
    with pytest.raises(ValueError, match="tags must lie between 0 and 2, got 0 to 7"):
        loss(potentials, torch.tensor([[0, 7, -100, 1]]).expand(3, N))
    with pytest.raises(TypeError, match="Matching: what is allowed must be a boolean Tensor"):
        om.PartialLoss(om.SparseMAP(om.Matching()))(torch.zeros(2, 2), torch.tensor([0, -100]))
    for omega in (om.Oscar(), om.Fused()):
        with pytest.raises(ValueError, match="Ω must not change when entries of zero weight are left out, got"):
            om.PartialLoss(omega)
    with pytest.raises(ValueError, match="got Oscar"):
        om.PartialLoss(om.Smoothed(CHAIN, om.Scaled(om.Oscar(), 2.0)))
    with pytest.raises(TypeError, match="smooth must be a regularizer, a Smoothed or a SparseMAP, got"):
        om.PartialLoss(CHAIN)
    with pytest.raises(ValueError, match="positions are for chains"):
        om.PartialLoss(om.Shannon())(torch.zeros(1, 3), torch.tensor([0]), positions=torch.tensor([True]))


def test_oscar_would_be_negative():
    """Why it is refused: each entry that is left out lowers its penalty."""
    row, omega = torch.tensor([3.0, 0.0, 0.0]), om.Oscar(0.5)
    assert omega.max(row) < omega.max(row[:1])
