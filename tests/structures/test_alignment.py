"""What is special to alignments: bands, steps, soft-DTW, its divergence, the edit distance."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.structures.soft_dtw import squared_euclidean

DOUBLE = torch.float64
BANDS = [
    om.structures.SakoeChiba(0),
    om.structures.SakoeChiba(1),
    om.structures.SakoeChiba(4),
    om.structures.Itakura(1),
    om.structures.Itakura(1.3),
    om.structures.Itakura(2.0),
]


def names(thing):
    return repr(thing)


@pytest.mark.parametrize("band", BANDS, ids=names)
@pytest.mark.thinned(6)
def test_a_band_always_has_a_path(band):
    for m, n in itertools.product(range(1, 14), repeat=2):
        potentials = torch.randn(m, n)
        value = om.Alignment(band=band).max(potentials)
        assert torch.isfinite(value)
        packed = om.BandedAlignment(band, n_columns=n)
        torch.testing.assert_close(packed.max(packed.pack(potentials)), value)


@pytest.mark.parametrize("band", BANDS, ids=names)
def test_a_band_is_adapted_to_each_item(band):
    potentials = torch.randn(5, 9, 12, dtype=DOUBLE)
    lengths = (torch.tensor([9, 1, 4, 7, 9]), torch.tensor([12, 12, 4, 2, 1]))
    together = om.Alignment(band=band).argmax(potentials, lengths=lengths)
    for item, (m, n) in enumerate(zip(*lengths)):
        alone = om.Alignment(band=band).argmax(potentials[item, :m, :n])
        torch.testing.assert_close(together[item, :m, :n], alone)


def test_the_square_bands_of_the_papers():
    first, last = om.structures.SakoeChiba(2).rows(7, torch.tensor([7]), torch.tensor([7]))
    assert first[0].tolist() == [0, 0, 0, 1, 2, 3, 4] and last[0].tolist() == [2, 3, 4, 5, 6, 6, 6]
    inside = om.structures.Itakura(2).rows(7, torch.tensor([7]), torch.tensor([7]))
    assert [a.tolist() for a in (inside.first[0], inside.last[0])] == [[0, 1, 1, 2, 2, 4, 6], [0, 2, 4, 4, 5, 5, 6]]


def test_wide_bands_forbid_nothing():
    potentials = torch.randn(6, 11, dtype=DOUBLE)
    free = om.Alignment().max(potentials)
    torch.testing.assert_close(om.Alignment(band=om.structures.SakoeChiba(11)).max(potentials), free)


def test_packing_round_trip():
    banded = om.BandedAlignment(om.structures.SakoeChiba(2), n_columns=9)
    matrix = torch.randn(3, 7, 9, dtype=DOUBLE)
    packed = banded.pack(matrix)
    assert torch.equal(banded.pack(banded.unpack(packed)), packed)
    dense = om.Alignment(band=om.structures.SakoeChiba(2)).argmax(matrix, om.SquaredNorm())
    torch.testing.assert_close(banded.unpack(banded.argmax(packed, om.SquaredNorm())), dense)


def test_asymmetric_steps_count_each_row_once():
    """Weight 0 still respects a forbidden cell."""
    steps = ((1, 1, 1.0), (1, 0, 1.0), (0, 1, 0.0))
    potentials = torch.randn(4, 5, dtype=DOUBLE)
    best = om.Alignment(steps).map(potentials)
    assert best.sum() == 4 and (best.sum(1) == 1).all()
    potentials[:, 2] = -torch.inf
    assert om.Alignment(steps).max(potentials) == -torch.inf


def test_steps_that_do_not_fit():
    leaping = om.Alignment(((2, 2, 1.0),))
    assert leaping.max(torch.zeros(4, 4)) == -torch.inf
    assert leaping.max(torch.ones(5, 5)) == 3
    for wrong in [((0, 0, 1),), ((1, -1, 1),), ((1, 1, -1.0),), (), ((1, 1, 1), (1, 1, 2)), ((1.5, 1, 1),)]:
        with pytest.raises(ValueError, match="step"):
            om.Alignment(wrong)


def test_errors():
    with pytest.raises(TypeError, match="band must be"):
        om.Alignment(band="sakoe_chiba")
    with pytest.raises(TypeError, match="width must be an int"):
        om.structures.SakoeChiba(1.5)
    with pytest.raises(ValueError, match="at least 0"):
        om.structures.SakoeChiba(-1)
    with pytest.raises(ValueError, match="slope"):
        om.structures.Itakura(0.5)
    with pytest.raises(ValueError, match=r"\(\.\.\., M, 3\)"):
        om.BandedAlignment(om.structures.SakoeChiba(1), n_columns=5).max(torch.zeros(5, 5))
    with pytest.raises(TypeError, match="GappedScores"):
        om.GlobalAlignment().max(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="Shannon"):
        om.soft_dtw_divergence(torch.zeros(3, 1), torch.zeros(3, 1), regularizer=om.SquaredNorm())
    with pytest.raises(TypeError, match="integer"):
        om.edit_distance(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match="2 Tensors"):
        om.Alignment().max(torch.zeros(2, 3, 3), lengths=torch.tensor([1, 2]))


# Gaps.


def test_affine_gaps_by_hand():
    """One gap of two elements is dearer than none and cheaper than two gaps of one."""
    match = torch.full((2, 4), -9.0)
    match[0, 0] = match[1, 3] = 5.0
    scores = om.structures.GappedScores.from_match(match, -3.0, -1.0)
    assert om.GlobalAlignment().max(scores, om.Hard()) == 5 + 5 - 3 - 1
    best = om.GlobalAlignment().map(scores)
    assert best.open_y.tolist() == [0, 1, 0, 0] and best.extend_y.tolist() == [0, 0, 1, 0]


def test_local_garbage_beyond_lengths():
    scores = om.structures.GappedScores(*(torch.randn(2, *size) for size in [(4, 5), (4,), (4,), (5,), (5,)]))
    lengths = (torch.tensor([2, 4]), torch.tensor([3, 5]))
    clean = om.LocalAlignment().argmax(scores, lengths=lengths)
    for part in scores:
        part[0, 3:] = torch.nan
    dirty = om.LocalAlignment().argmax(scores, lengths=lengths)
    for first, second in zip(clean, dirty):
        assert torch.equal(first, second)


def test_the_empty_local_alignment_counts_once():
    nothing = om.structures.GappedScores.from_match(torch.full((3, 2), -torch.inf), -1.0, -1.0)
    assert om.LocalAlignment().max(nothing) == 0 and om.LocalAlignment().count(nothing) == 1


def test_gap_scores_learn():
    gap = torch.tensor(-1.0, dtype=DOUBLE, requires_grad=True)
    match = torch.randn(3, 4, dtype=DOUBLE)
    for structure in (om.GlobalAlignment(), om.LocalAlignment()):
        assert gradcheck(lambda g, s=structure: s.max(om.structures.GappedScores.from_match(match, g, g / 2)), gap)


# Edit distance.


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]


def padded(words):
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(w, dtype=torch.long) for w in words], batch_first=True, padding_value=-7
    )


@pytest.mark.parametrize("types", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_soft_dtw_of_two_types(types, backend):
    x, y = (torch.randn(2, n, 3, dtype=dtype, requires_grad=True) for n, dtype in zip((4, 5), types))
    found = torch.autograd.grad(om.soft_dtw(x, y).sum(), (x, y), create_graph=True)
    curved = torch.autograd.grad(sum(each.square().sum() for each in found), (x, y))
    wide = [points.detach().double().requires_grad_() for points in (x, y)]
    expected = torch.autograd.grad(om.soft_dtw(*wide).sum(), wide, create_graph=True)
    also = torch.autograd.grad(sum(each.square().sum() for each in expected), wide)
    for one, other, points in zip((*found, *curved), (*expected, *also), (x, y, x, y)):
        assert one.dtype == points.dtype
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_divergences_from_one_series_with_lengths(backend):
    x, y = torch.randn(4, 2), torch.randn(3, 5, 2)
    m, n = torch.tensor([4, 2, 3]), torch.tensor([5, 1, 2])
    found = om.soft_dtw_divergence(x, y, lengths=(m, n))
    each = [om.soft_dtw_divergence(x[:i], one[:j]) for one, i, j in zip(y, m.tolist(), n.tolist())]
    torch.testing.assert_close(found, torch.stack(each))


def test_edit_distance_is_levenshteins():
    rng = random.Random(0)
    first, second = ([[rng.randrange(3) for _ in range(rng.randrange(n))] for _ in range(30)] for n in (8, 9))
    lengths = tuple(torch.tensor([len(w) for w in words]) for words in (first, second))
    found = om.edit_distance(padded(first), padded(second), lengths=lengths)
    assert found.tolist() == [levenshtein(a, b) for a, b in zip(first, second)]


def test_edit_distance_of_whole_costs():
    a, b = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 3]])
    assert om.edit_distance(a, b, deletion=torch.tensor(2)).tolist() == [2]
    mixed = om.edit_distance(a, b, insertion=torch.tensor(1.0), deletion=torch.tensor(0.1, dtype=torch.float64))
    assert mixed.dtype == torch.float64 and mixed.item() == 0.1


def test_edit_distance_checks_its_own_lengths():
    a, b = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 3]])
    assert om.edit_distance(a, b, lengths=(None, torch.tensor([1]))).tolist() == [2]
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=f"edit_distance: lengths must lie between 0 and 3, got {wrong}"):
            om.edit_distance(a, b, lengths=(torch.tensor([wrong]), torch.tensor([2])))
    with pytest.raises(
        TypeError, match=r"edit_distance: lengths must be an integer Tensor or a list of integers, got torch.float32"
    ):
        om.edit_distance(a, b, lengths=([3.0], [2.0]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int32])
def test_edit_distance_of_bytes(dtype):
    a, b = torch.tensor([1, 1, 0]), torch.tensor([1, 0])
    options = {"deletion": torch.tensor([0.3, 0.2]), "substitution": torch.tensor([[0.0, 1.0], [0.5, 0.1]])}
    expected = om.edit_distance(a, b, **options)
    torch.testing.assert_close(om.edit_distance(a.to(dtype), b.to(dtype), **options), expected)


@pytest.mark.parametrize("wrong", [4, -1])
def test_edit_distance_knows_its_symbols(wrong):
    symbols, good = torch.tensor([wrong, 1]), torch.tensor([0, 3])
    options = {"insertion": torch.ones(4)}, {"substitution": torch.ones(4, 4)}
    for a, b, tables in ((good, symbols, options[0]), (symbols, good, options[1]), (good, symbols, options[1])):
        with pytest.raises(ValueError, match="must have a place for every symbol, 0 to 3, got"):
            om.edit_distance(a, b, **tables)
    with pytest.raises(ValueError, match=r"a table \(V, V\), got shape \(4,\)"):
        om.edit_distance(good, good, substitution=torch.ones(4))


def test_edit_distance_with_tables():
    a, b = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2, 1])
    insertion = torch.tensor([0.5, 0.7, 1.1], dtype=DOUBLE, requires_grad=True)
    substitution = torch.rand(3, 3, dtype=DOUBLE, requires_grad=True)
    smooth = om.Scaled(om.Shannon(), 0.3)

    def distance(i, s):
        return om.edit_distance(a, b, insertion=i, substitution=s, regularizer=smooth)

    assert gradcheck(distance, (insertion, substitution))
    hard = om.edit_distance(a, b, insertion=insertion, substitution=substitution)
    assert distance(insertion, substitution) <= hard


# Soft-DTW.


def plain_soft_dtw(costs, gamma):
    m, n = costs.shape
    r = np.full((m + 1, n + 1), np.inf)
    r[0, 0] = 0
    for i, j in itertools.product(range(1, m + 1), range(1, n + 1)):
        z = -np.array([r[i - 1, j - 1], r[i - 1, j], r[i, j - 1]]) / gamma
        r[i, j] = costs[i - 1, j - 1] - gamma * np.logaddexp.reduce(z)
    return r[m, n]


@pytest.mark.parametrize("gamma", [0.01, 1.0, 7.0])
def test_soft_dtw_is_the_published_recursion(gamma, backend):
    x, y = torch.randn(3, 8, 2, dtype=DOUBLE), torch.randn(3, 6, 2, dtype=DOUBLE)
    costs = torch.cdist(x, y).square()
    found = om.soft_dtw(x, y, gamma)
    assert found.dtype == DOUBLE
    expected = [plain_soft_dtw(c.numpy(), gamma) for c in costs]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(om.structures.soft_dtw_from_costs(costs, gamma).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("omega", [om.Hard(), om.Shannon(), om.SquaredNorm(), om.Tsallis(1.5)], ids=names)
@pytest.mark.parametrize("band", [None, om.structures.SakoeChiba(1)], ids=names)
@pytest.mark.thinned(9)
def test_second_derivatives(omega, band, backend):
    x, y = (torch.randn(2, n, 2, dtype=DOUBLE, requires_grad=True) for n in (5, 4))
    for lengths in (None, (torch.tensor([5, 3]), torch.tensor([2, 4]))):
        options = {"gamma": 0.7, "regularizer": omega, "band": band, "lengths": lengths}
        assert gradcheck(lambda a, b, o=options: om.soft_dtw(a, b, **o), (x, y), fast_mode=True)
        assert gradgradcheck(lambda a, b, o=options: om.soft_dtw(a, b, **o), (x, y), fast_mode=True)
        assert gradcheck(lambda a, b, o=options: om.soft_dtw_alignment(a, b, **o), (x, y), fast_mode=True)


def by_costs(a, b):
    """The squared distance, but not by its name: a matrix of costs is made."""
    return squared_euclidean(a, b)


@pytest.mark.parametrize("omega", [om.Hard(), om.Shannon(), om.SquaredNorm()], ids=names)
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_features_give_what_their_costs_give(omega, dtype, backend):
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    x, y = torch.randn(3, 2, 40, 2, dtype=dtype), torch.randn(2, 35, 2, dtype=dtype)
    lengths = torch.tensor([[40, 3], [1, 33], [20, 20]]), torch.tensor([[35, 3], [35, 2], [1, 1]])
    for needs in itertools.product((False, True), repeat=2):
        for options in ({}, {"lengths": lengths}):
            found = []
            for distance in (squared_euclidean, by_costs):
                leaves = [each.clone().requires_grad_(need) for each, need in zip((x, y), needs)]
                value = om.soft_dtw(*leaves, 0.5, regularizer=omega, distance=distance, **options)
                if any(needs):
                    (value * torch.arange(6.0).reshape(3, 2)).sum().backward()
                found.append([value.detach(), *(leaf.grad for leaf in leaves)])
            for direct, expected in zip(*found):
                assert (direct is None) == (expected is None)
                if direct is not None:
                    torch.testing.assert_close(direct, expected, **tolerance)


def test_a_series_with_itself_and_third_derivatives():
    x = torch.randn(2, 6, 2, dtype=DOUBLE, requires_grad=True)
    assert gradcheck(lambda a: om.soft_dtw(a, a, 0.7), x)
    assert gradgradcheck(lambda a: om.soft_dtw(a, a, 0.7), x)
    y = torch.randn(2, 5, 2, dtype=DOUBLE)
    (first,) = torch.autograd.grad(om.soft_dtw(x, y).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate"):
        torch.autograd.grad(second.square().sum(), x)


def test_derivatives_of_features_in_every_mode():
    x, y = torch.randn(6, 2, dtype=DOUBLE), torch.randn(5, 2, dtype=DOUBLE)
    v = torch.randn(6, 2, dtype=DOUBLE)

    def value(a):
        return om.soft_dtw(a, y, 0.7)

    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(value)(x), gradient)
    torch.testing.assert_close(torch.func.jvp(value, (x,), (v,))[1], (gradient * v).sum())
    hessian = torch.autograd.functional.hessian(value, x)
    several = torch.autograd.grad(value(leaf), leaf, torch.tensor([1.0, 2.0], dtype=DOUBLE), is_grads_batched=True)
    torch.testing.assert_close(several[0], torch.stack([gradient, 2 * gradient]))
    torch.testing.assert_close(torch.func.jvp(torch.func.grad(value), (x,), (v,))[1], (hessian * v).sum((2, 3)))


def test_nothing_beyond_the_lengths_reaches_the_derivatives():
    x, y = torch.randn(2, 6, 2, dtype=DOUBLE), torch.randn(2, 5, 2, dtype=DOUBLE)
    lengths = torch.tensor([4, 6]), torch.tensor([5, 2])
    found = []
    for garbage in (0.0, torch.nan):
        x[0, 4:], y[1, 2:] = garbage, garbage
        leaves = x.clone().requires_grad_(), y.clone().requires_grad_()
        once = torch.autograd.grad(om.soft_dtw(*leaves, lengths=lengths).sum(), leaves)
        again = torch.autograd.grad(om.soft_dtw(*leaves, lengths=lengths).sum(), leaves, create_graph=True)
        twice = torch.autograd.grad(sum(each.square().sum() for each in again), leaves)
        found.append([*once, *(each.detach() for each in again), *twice])
    for clean, dirty in zip(*found):
        assert torch.equal(clean, dirty)


def test_the_gradient_in_costs_is_the_alignment():
    x, y = torch.randn(2, 70, 3, dtype=DOUBLE), torch.randn(2, 50, 3, dtype=DOUBLE)
    costs = torch.cdist(x, y).square().requires_grad_()
    for band in (None, om.structures.SakoeChiba(5)):
        (gradient,) = torch.autograd.grad(om.structures.soft_dtw_from_costs(costs, 0.5, band=band).sum(), costs)
        torch.testing.assert_close(gradient, om.soft_dtw_alignment(x, y, 0.5, band=band))


def test_a_learnable_temperature():
    gamma = torch.tensor(0.8, dtype=DOUBLE, requires_grad=True)
    x, y = torch.randn(4, 1, dtype=DOUBLE), torch.randn(5, 1, dtype=DOUBLE)
    assert gradcheck(lambda g: om.soft_dtw(x, y, g), gamma)


def test_other_distances_and_zero_distance():
    x = torch.randn(2, 4, 3, dtype=DOUBLE, requires_grad=True)
    manhattan = om.soft_dtw(x, x.detach() + 1, distance=lambda a, b: (a - b).abs().sum(-1))
    assert torch.isfinite(manhattan).all()
    (gradient,) = torch.autograd.grad(om.soft_dtw(x, x.detach().clone()).sum(), x)
    assert torch.isfinite(gradient).all()


def test_an_infinite_cost_forbids():
    costs = torch.zeros(3, 3)
    costs[1, 1] = torch.inf
    assert om.soft_dtw_alignment(torch.zeros(3, 1), torch.zeros(3, 1)).shape == (3, 3)
    leaf = costs.clone().requires_grad_()
    om.structures.soft_dtw_from_costs(leaf).backward()
    assert leaf.grad[1, 1] == 0 and torch.isfinite(leaf.grad).all()
    assert om.structures.soft_dtw_from_costs(torch.full((2, 2), torch.inf)) == torch.inf


def test_divergence_is_exactly_zero_on_equal_inputs(backend):
    for dtype in (torch.float32, DOUBLE):
        x = 10 * torch.randn(4, 70, 3, dtype=dtype)
        assert (om.soft_dtw_divergence(x, x.clone(), 0.1) == 0).all()
        lengths = torch.tensor([1, 70, 3, 66])
        assert (om.soft_dtw_divergence(x, x.clone(), lengths=(lengths, lengths)) == 0).all()


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(0.05, 5.0), st.floats(0.01, 3.0))
def test_divergence_is_not_negative_where_that_is_proved(seed, m, n, gamma, spread):
    """κ/(1 + κ) with κ = exp(−c/γ) is half a Gaussian kernel for c = γ (δ + log(2 − exp(−δ))): positive definite."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (spread * torch.randn(k, 2, generator=generator, dtype=DOUBLE) for k in (m, n))

    def proved(a, b):
        delta = (a - b).square().sum(-1)
        return gamma * (delta + (2 - torch.exp(-delta)).log())

    assert om.soft_dtw_divergence(x, y, gamma, distance=proved) >= -1e-9


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.floats(0.05, 5.0), st.floats(0.001, 3.0))
def test_search_for_a_negative_divergence(seed, m, n, gamma, spread):
    """Not proved for the squared Euclidean distance; no counterexample is known to this search."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (spread * torch.randn(k, 1, generator=generator, dtype=DOUBLE) for k in (m, n))
    assert om.soft_dtw_divergence(x, y, gamma) >= -1e-9


def test_halves_and_batches_that_broadcast():
    x, y = torch.randn(3, 1, 6, 2), torch.randn(4, 5, 2)
    assert om.soft_dtw(x, y).shape == (3, 4)
    assert om.soft_dtw(x.half(), y.half()).dtype == torch.float16
    for i, j in itertools.product(range(3), range(4)):
        torch.testing.assert_close(om.soft_dtw(x, y)[i, j], om.soft_dtw(x[i, 0], y[j]))


def test_other_regularizers_use_the_engine():
    structure = om.Alignment()
    problem = structure.bind(torch.randn(2, 3, 3))
    assert structure.compiled_program(problem, om.Tsallis(1.5)) is None
    assert isinstance(problem.program(om.Tsallis(1.5)), LatticeProgram)
    steps = om.Alignment(((1, 1, 2.0), (1, 0, 1.0), (0, 1, 1.0)))
    assert steps.compiled_program(steps.bind(torch.randn(3, 3)), om.Shannon()) is None


def test_under_functional_transforms():
    costs = torch.rand(3, 4, 4, dtype=DOUBLE)
    gradient = torch.func.grad(lambda c: om.structures.soft_dtw_from_costs(c).sum())(costs)
    leaf = costs.clone().requires_grad_()
    om.structures.soft_dtw_from_costs(leaf).sum().backward()
    torch.testing.assert_close(gradient, leaf.grad)
