"""Laws of losses on structures, against the list of all structures."""

import math

import numpy as np
import pytest
import torch
from structure_cases import CASES, ORACLE_CASES, like, parts_of
from structure_cases.laws import dot, leaves, members, names, numpy_parts
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.inference.hypergraphs.sweeps import outside

pytestmark = pytest.mark.thinned(3)  # the full round takes all

LOCAL = [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Scaled(om.Tsallis(1.5), 0.7)]
programs = pytest.mark.parametrize("case", CASES, ids=str)
everything = pytest.mark.parametrize("case", [*CASES, *ORACLE_CASES], ids=str)
omegas = pytest.mark.parametrize("omega", LOCAL, ids=names)


def golds(case, potentials, pick=0.37):
    """A member of each item as a target in the shape of the potentials, and the lists of all members."""
    listed = [members(case, potentials, item) for item in range(len(case.lengths))]
    chosen = [found[int(pick * len(found))] for found in listed]
    stacked = [torch.from_numpy(np.stack(part)) for part in zip(*chosen)]
    return like(potentials, stacked), listed, chosen


@programs
@omegas
@pytest.mark.thinned(3)
def test_value_and_gradient(case, omega):
    potentials = case.potentials()
    target, _, chosen = golds(case, potentials)
    inputs = leaves(potentials)
    loss = om.FenchelYoungLoss(om.Smoothed(case.structure, omega), "none")
    found = loss(like(potentials, inputs), target, **case.options())
    value = case.structure.max(potentials, omega, **case.options())
    for item, gold in enumerate(chosen):
        score = dot(gold, numpy_parts(potentials, item))
        assert found[item].item() == pytest.approx(max(0, value[item].item() - score), abs=1e-10)
    assert (found >= 0).all()
    grads = torch.autograd.grad(found.sum(), inputs)
    weights = case.structure.argmax(potentials, omega, **case.options())
    for grad, weight, gold in zip(grads, parts_of(weights), parts_of(target)):
        torch.testing.assert_close(grad, weight - gold, rtol=0, atol=1e-12)


@programs
def test_crf_loss_is_minus_the_log_likelihood(case):
    potentials = case.potentials(1)
    target, listed, chosen = golds(case, potentials)
    found = om.CRFLoss(case.structure, "none")(potentials, target, **case.options())
    for item, gold in enumerate(chosen):
        parts = numpy_parts(potentials, item)
        log_partition = np.logaddexp.reduce([dot(y, parts) for y in listed[item]])
        assert found[item].item() == pytest.approx(log_partition - dot(gold, parts), abs=1e-9)


@everything
def test_perceptron_and_margin_by_enumeration(case):
    potentials = case.potentials(2)
    target, listed, chosen = golds(case, potentials)
    perceptron = om.PerceptronLoss(case.structure, "none")(potentials, target, **case.options())
    hinge = om.MarginLoss(case.structure, margin=0.7, reduction="none")(potentials, target, **case.options())
    costs = case.structure.hamming(target).expand(parts_of(potentials)[0].shape).numpy()
    best = case.structure.map(potentials, **case.options())
    for item, gold in enumerate(chosen):
        parts = numpy_parts(potentials, item)
        scores = [dot(y, parts) for y in listed[item]]
        wrong = [dot(y[:1], (costs[item],)) for y in listed[item]]
        assert perceptron[item].item() == pytest.approx(max(scores) - dot(gold, parts), abs=1e-10)
        assert dot(gold[:1], (costs[item],)) == 0
        augmented = max(s + 0.7 * w for s, w in zip(scores, wrong))
        assert hinge[item].item() == pytest.approx(augmented - dot(gold, parts), abs=1e-10)
        decoded = dot((parts_of(best)[0][item].numpy(),), (costs[item],))
        assert hinge[item].item() >= 0.7 * decoded - 1e-10  # the hinge bounds the cost of what is decoded


@programs
@pytest.mark.parametrize("omega", [om.Shannon(), om.SquaredNorm()], ids=names)
@pytest.mark.thinned(5)
def test_derivatives(case, omega):
    potentials = case.potentials(3)
    target, _, _ = golds(case, potentials)
    inputs = leaves(potentials)
    finite = [part.isfinite() for part in inputs]
    free = tuple(part.detach()[there].requires_grad_() for part, there in zip(inputs, finite))
    loss = om.FenchelYoungLoss(om.Smoothed(case.structure, omega), "none")

    def f(*numbers):
        filled = [part.detach().masked_scatter(there, n) for part, there, n in zip(inputs, finite, numbers)]
        return loss(like(potentials, filled), target, **case.options())

    assert gradcheck(f, free, fast_mode=True)
    if isinstance(omega, om.Shannon):
        assert gradgradcheck(f, free, fast_mode=True)


@programs
def test_zero_where_the_gold_structure_leads(case):
    """A large lead ends the loss of a sparse Ω; under Shannon it fades."""
    potentials = like(case.potentials(), [1e4 * part for part in parts_of(case.potentials())])
    best = case.structure.map(potentials, **case.options())
    for omega in (om.Hard(), om.SquaredNorm(), om.Shannon()):
        loss = om.FenchelYoungLoss(om.Smoothed(case.structure, omega), "none")
        assert (loss(potentials, best, **case.options()) < 1e-9).all()


@programs
def test_soft_targets(case):
    """Where parts are edges their marginals are a target: zero at one's own, infeasible nowhere."""
    potentials = case.potentials()
    smooth = om.Smoothed(case.structure, om.SquaredNorm())
    own = smooth.argmax(potentials, **case.options())
    loss = om.FenchelYoungLoss(smooth, "none")
    problem = case.structure.bind(potentials, **case.options())
    if problem.lattice.parts_are_edges:
        assert loss(potentials, own, **case.options()).abs().max() < 1e-10
        other = smooth.argmax(like(potentials, [-part for part in parts_of(potentials)]), **case.options())
        assert (loss(potentials, other, **case.options()) > 1e-3).any()
    elif not all(torch.equal(part, part.round()) for part in parts_of(own)):
        with pytest.raises(ValueError, match="target_edges"):
            loss(potentials, own, **case.options())


@programs
def test_edges_as_targets(case):
    potentials = case.potentials()
    smooth = om.Smoothed(case.structure, om.SquaredNorm())
    problem = case.structure.bind(potentials, **case.options())
    program = LatticeProgram(problem.lattice, om.SquaredNorm(), problem.goals)
    _, state = program.value(problem.parts)
    edges = outside(problem.lattice.topology, state[0], None, om.SquaredNorm(), problem.goals)[0]
    own = smooth.argmax(potentials, **case.options())
    found = om.FenchelYoungLoss(smooth, "none")(potentials, own, target_edges=edges, **case.options())
    assert found.abs().max() < 1e-10


@everything
def test_what_is_no_structure_says_so(case):
    potentials = case.potentials()
    target, listed, _ = golds(case, potentials)
    loss = om.PerceptronLoss(case.structure)
    loss(potentials, target, **case.options())
    if not case.structure.has_empty:
        nothing = like(potentials, [torch.zeros_like(part) for part in parts_of(target)])
        with pytest.raises(ValueError, match="PerceptronLoss: the target must be a structure of"):
            loss(potentials, nothing, **case.options())
    if max(len(found) for found in listed) > 1:
        item = max(range(len(listed)), key=lambda i: len(listed[i]))
        both = [part.clone() for part in parts_of(target)]
        for part, other in zip(both, listed[item][-1]):
            part[item] = part[item] + torch.from_numpy(np.asarray(other))
        soft = "|target_edges" if "long steps" in case.name else ""  # cells that count one half: it may be marginals
        with pytest.raises(ValueError, match=f"in item {item}; make it with a{soft}"):
            loss(potentials, like(potentials, both), **case.options())


@everything
def test_a_forbidden_gold_structure_says_so(case):
    potentials = case.potentials()
    target, _, _ = golds(case, potentials)
    first = parts_of(potentials)[0].clone()
    item = next((i for i in range(len(first)) if parts_of(target)[0][i].any()), None)
    if item is None:
        pytest.skip("no gold structure has parts in the first component")
    first[item] = torch.where(parts_of(target)[0][item] > 0, -torch.inf, first[item])
    holes = like(potentials, [first, *parts_of(potentials)[1:]])
    with pytest.raises(ValueError, match=f"uses a part of score -inf in item {item}"):
        om.PerceptronLoss(case.structure)(holes, target, **case.options())
    unchecked = om.PerceptronLoss(case.structure, "none", check=False)(holes, target, **case.options())
    assert unchecked[item] == math.inf and not unchecked.isnan().any()


@programs
def test_masks_pass_through(case):
    potentials = case.potentials()
    target, _, _ = golds(case, potentials)
    mask = parts_of(target)[0] > 0
    loss = om.CRFLoss(case.structure, "none")(potentials, target, mask=mask, **case.options())
    holes = like(potentials, [torch.where(mask, parts_of(potentials)[0], -torch.inf), *parts_of(potentials)[1:]])
    torch.testing.assert_close(loss, om.CRFLoss(case.structure, "none")(holes, target, **case.options()))


@everything
def test_nan_stays_in_its_item(case):
    potentials = case.potentials()
    target, _, _ = golds(case, potentials)
    spoiled = [part.clone() for part in parts_of(potentials)]
    spoiled[0][0] = torch.where(parts_of(target)[0][0] > 0, torch.nan, spoiled[0][0])
    if not parts_of(target)[0][0].any():
        pytest.skip("the gold structure has no part in the first component")
    found = om.PerceptronLoss(case.structure, "none")(like(potentials, spoiled), target, **case.options())
    assert found[0].isnan() and found[1:].isfinite().all()


@everything
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.thinned(5)
def test_other_types_and_reductions(case, dtype):
    potentials = like(case.potentials(), [part.to(dtype) for part in parts_of(case.potentials())])
    wide = like(potentials, [part.float() for part in parts_of(potentials)])
    target, _, _ = golds(case, case.potentials())
    for reduction, by_hand in (("none", lambda x: x), ("mean", torch.mean), ("sum", torch.sum)):
        loss = om.PerceptronLoss(case.structure, reduction)
        found = loss(potentials, target, **case.options())
        expected = loss(wide, target, **case.options())
        assert found.dtype is dtype and (found >= 0).all()
        assert torch.equal(found, expected.to(dtype))  # computed in float32, rounded once
        each = om.PerceptronLoss(case.structure, "none")(wide, target, **case.options())
        torch.testing.assert_close(expected, by_hand(each))


@everything
@pytest.mark.thinned(3)
def test_sparsemap_loss(case):
    """Its definition, its gradient, L ≥ ½ ‖μ − y‖² (½‖·‖² is strongly convex), zero for a large lead."""
    potentials = case.potentials(4)
    target, _, chosen = golds(case, potentials)
    inputs = leaves(potentials)
    smooth = om.SparseMAP(case.structure)
    found = om.SparseMAPLoss(case.structure, "none")(like(potentials, inputs), target, **case.options())
    value = smooth.max(potentials, **case.options())
    weights = parts_of(smooth.argmax(potentials, **case.options()))
    n = case.structure.n_regularized
    for item, gold in enumerate(chosen):
        expected = value[item].item() + 0.5 * dot(gold[:n], gold[:n]) - dot(gold, numpy_parts(potentials, item))
        assert found[item].item() == pytest.approx(expected, abs=1e-8)
        away = sum(float((w[item] - torch.from_numpy(np.asarray(g))).square().sum()) for w, g in zip(weights[:n], gold))
        assert found[item].item() >= 0.5 * away - 1e-8
    grads = torch.autograd.grad(found.sum(), inputs)
    for grad, weight, gold in zip(grads, weights, parts_of(target)):
        torch.testing.assert_close(grad, weight - gold, rtol=0, atol=1e-7)
    led = like(potentials, [1e4 * part for part in parts_of(potentials)])
    best = case.structure.map(led, **case.options())
    assert om.SparseMAPLoss(case.structure)(led, best, **case.options()) < 1e-6


@everything
@pytest.mark.thinned(3)
def test_margin_sparsemap_is_sparsemap_at_augmented_scores(case):
    potentials = case.potentials(5)
    target, _, _ = golds(case, potentials)
    first, *rest = parts_of(potentials)
    raised = like(potentials, [first + 0.5 * case.structure.hamming(target), *rest])
    expected = om.SparseMAPLoss(case.structure, "none")(raised, target, **case.options())
    loss = om.MarginSparseMAPLoss(case.structure, margin=0.5, reduction="none")
    torch.testing.assert_close(loss(potentials, target, **case.options()), expected)
    own = om.MarginLoss(om.SparseMAP(case.structure), case.structure.hamming, margin=0.5, reduction="none")
    torch.testing.assert_close(own(potentials, target, **case.options()), expected)


def test_sparsemap_on_a_simplex_is_sparsemax():
    """Five edges side by side are a simplex."""
    simplex = om.Dag.from_edges([(0, 1)] * 5)
    scores, classes = torch.randn(20, 5, dtype=torch.float64), torch.randint(5, (20,))
    hot = torch.nn.functional.one_hot(classes, 5).double()
    found = om.SparseMAPLoss(simplex, "none")(scores, hot)
    torch.testing.assert_close(found, om.losses.sparsemax_loss(scores, classes, reduction="none"), rtol=0, atol=1e-12)
    crf = om.CRFLoss(simplex)(scores, hot)
    torch.testing.assert_close(crf, torch.nn.functional.cross_entropy(scores, classes))
    smoothed = om.MarginSparseMAPLoss(simplex)(scores, hot)
    torch.testing.assert_close(smoothed, om.MarginLoss(om.SquaredNorm())(scores, classes), rtol=0, atol=1e-12)


def test_sparsemap_loss_differentiates_twice():
    chain = om.Chain()
    scores = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    gold = chain.from_tags(torch.tensor([[0, 1, 1], [1, 0, 0]]), 2)

    def loss(x):
        return om.SparseMAPLoss(chain, "none")(x, gold)

    assert gradcheck(loss, scores)
    assert gradgradcheck(loss, scores)


@programs
@pytest.mark.thinned(3)
def test_an_omega_that_counts_its_entries(case):
    """Oscar does not vanish at corners: Ω of a structure is what makes its loss end at zero, masked or not."""
    if case.name in ("alignment, long steps", "grammar"):
        pytest.skip("the derivation is not determined by whole numbers")
    smooth = om.Smoothed(case.structure, om.Oscar(0.05))
    potentials = like(case.potentials(), [1e4 * part for part in parts_of(case.potentials())])
    best = case.structure.map(potentials, **case.options())
    first = parts_of(potentials)[0]
    holes = torch.where((parts_of(best)[0] == 0) & (first < 0), -torch.inf, first)
    for given in (potentials, like(potentials, [holes, *parts_of(potentials)[1:]])):
        losses = om.FenchelYoungLoss(smooth, "none")(given, best, **case.options())
        assert losses.abs().max() < 1e-7
    target, _, _ = golds(case, potentials)
    inputs = leaves(case.potentials())
    found = om.FenchelYoungLoss(smooth, "sum")(like(potentials, inputs), target, **case.options())
    assert found >= 0
    weights = smooth.argmax(case.potentials(), **case.options())
    for grad, weight, gold in zip(torch.autograd.grad(found, inputs), parts_of(weights), parts_of(target)):
        torch.testing.assert_close(grad, weight - gold, rtol=0, atol=1e-10)
