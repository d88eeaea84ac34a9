"""Alignments of words: against plain attention, enumerated matchings and sequences, and smaller problems."""

from itertools import pairwise, permutations, product

import pytest
import torch

import omegamax as om
from omegamax.models import MatchingAligner, RowAligner, SequenceAligner

ALIGNERS = {
    "softmax": lambda **options: RowAligner(om.Shannon(), **options),
    "sparsemax": lambda **options: RowAligner(om.SquaredNorm(), **options),
    "fusedmax": lambda **options: RowAligner(om.Fused(0.1), **options),
    "matching": lambda **options: MatchingAligner(**options),
    "sequence": lambda **options: SequenceAligner(**options),
}


def randomised(aligner, std=1.0):
    for parameter in aligner.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return aligner.double()


def sides(alignment):
    return [side for side in alignment if side is not None]


def sizes(h, p):
    return torch.tensor([h]), torch.tensor([p])


def test_shannon_is_plain_attention():
    scores = torch.randn(2, 3, 4)
    found = RowAligner(om.Shannon())(scores, torch.tensor([3, 3]), torch.tensor([4, 4]))
    torch.testing.assert_close(found.hypothesis.weights, scores.softmax(2))
    torch.testing.assert_close(found.premise.weights, scores.softmax(1).transpose(1, 2))
    assert found.hypothesis.null is None


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("name", ALIGNERS)
def test_padding_is_the_same_as_a_smaller_problem(name, null):
    aligner = randomised(ALIGNERS[name](null=null))
    scores = torch.randn(3, 5, 6).double()
    h, p = torch.tensor([5, 2, 3]), torch.tensor([6, 4, 1])
    together = aligner(scores, h, p)
    wild = scores.clone()
    for item in range(3):
        wild[item, h[item] :] = 50.0
        wild[item, :, p[item] :] = -70.0
    for one, other in zip(sides(together), sides(aligner(wild, h, p))):
        torch.testing.assert_close(one.weights, other.weights)
    for item in range(3):
        alone = aligner(scores[item : item + 1, : h[item], : p[item]], h[item : item + 1], p[item : item + 1])
        for side, (one, other) in enumerate(zip(sides(together), sides(alone))):
            n, m = (h[item], p[item]) if side == 0 else (p[item], h[item])
            torch.testing.assert_close(one.weights[item, :n, :m], other.weights[0])
            assert not one.weights[item, n:].any() and not one.weights[item, :, m:].any()
            if null:
                torch.testing.assert_close(one.null[item, :n], other.null[0])
                assert not one.null[item, n:].any()


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("name", ["softmax", "sparsemax", "fusedmax", "sequence"])
def test_each_word_has_weight_one(name, null):
    aligner = randomised(ALIGNERS[name](null=null))
    found = aligner(torch.randn(2, 4, 3).double(), torch.tensor([4, 2]), torch.tensor([3, 3]))
    for side, lengths in zip(sides(found), ([4, 2], [3, 3])):
        total = side.weights.sum(-1) + (side.null if null else 0)
        for item, length in enumerate(lengths):
            torch.testing.assert_close(total[item, :length], torch.ones(length).double())


@pytest.mark.parametrize("name", ALIGNERS)
def test_one_direction_is_the_first_of_both(name):
    scores, h, p = torch.randn(1, 4, 3).double(), *sizes(4, 3)
    both, one = ALIGNERS[name]().double(), ALIGNERS[name](both_ways=False).double()
    alignment = one(scores, h, p)
    assert alignment.premise is None
    torch.testing.assert_close(alignment.hypothesis.weights, both(scores, h, p).hypothesis.weights)


def best_of(structures, scores):
    """The point of the convex hull of some structures that maximises <θ, μ> − ½‖μ‖², by projected gradients on it."""
    vertices = torch.stack([pairs.flatten() for pairs, _ in structures]).double()
    extra = torch.tensor([float(more) for _, more in structures]).double()
    gram, linear = vertices @ vertices.T, vertices @ scores.flatten() + extra
    p = torch.full((len(vertices),), 1 / len(vertices)).double()
    step = 1 / torch.linalg.matrix_norm(gram, 2)
    momentum, t = p, 1.0
    for _ in range(6000):
        following = om.sparsemax(momentum + step * (linear - gram @ momentum))
        after = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momentum, p, t = following + (t - 1) / after * (following - p), following, after
    return (p @ vertices).reshape(scores.shape)


def matchings(n_rows, n_columns, rows=None, columns=None):
    for chosen in product([-1, *range(n_columns)], repeat=n_rows):
        used = [column for column in chosen if column >= 0]
        if len(set(used)) < len(used) or (rows is None and len(used) < min(n_rows, n_columns)):
            continue
        pairs = torch.zeros(n_rows, n_columns)
        for row, column in enumerate(chosen):
            if column >= 0:
                pairs[row, column] = 1
        nulls = 0 if rows is None else rows * (n_rows - len(used)) + columns * (n_columns - len(used))
        yield pairs, nulls


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_matchings_are_the_mean_of_the_best_distribution(null, gamma):
    scores = torch.randn(3, 2).double()
    aligner = randomised(MatchingAligner(null=null, gamma=gamma, atol=0.0))
    found = aligner(scores.unsqueeze(0), *sizes(3, 2))
    nulls = (aligner.null / gamma).tolist() if null else (None, None)
    expected = best_of(list(matchings(3, 2, *nulls)), scores / gamma)
    torch.testing.assert_close(found.hypothesis.weights[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.premise.weights, found.hypothesis.weights.transpose(1, 2))
    if null:
        torch.testing.assert_close(found.hypothesis.null[0], 1 - expected.sum(1), atol=1e-5, rtol=0)
        torch.testing.assert_close(found.premise.null[0], 1 - expected.sum(0), atol=1e-5, rtol=0)


def sequences(n_words, n_states, aligner, *, side=0):
    """All sequences of partners with the scores of their steps and ends; with NULL it is the first state."""
    null = aligner.null is not None
    steps, starts, ends = (each[side].tolist() for each in (aligner.steps, aligner.starts, aligner.ends))
    n_partners = n_states - null
    for chosen in product(range(n_states), repeat=n_words):
        extra = 0.0
        first, last = (state - null for state in (chosen[0], chosen[-1]))  # -1 is NULL
        extra += (starts[0] if first == 0 else starts[1]) if first >= 0 else 0.0
        extra += (ends[0] if last == n_partners - 1 else ends[1]) if last >= 0 else 0.0
        for before, after in pairwise(chosen):
            if null and 0 in (before, after):
                there, stay, back = aligner.null_steps[side].tolist()
                extra += stay if before == after else there if after == 0 else back
            else:
                extra += steps[max(-2, min(2, after - before)) + 2]
        yield torch.nn.functional.one_hot(torch.tensor(chosen), n_states), extra


@pytest.mark.parametrize("null", [False, True])
def test_sequences_are_the_mean_of_the_best_distribution(null):
    scores = torch.randn(3, 4).double()
    aligner = randomised(SequenceAligner(null=null, atol=0.0))
    found = aligner(scores.unsqueeze(0), *sizes(3, 4))
    for side, (reading, given) in enumerate(zip(found, (scores, scores.T))):
        if null:
            given = torch.cat([aligner.null[side].expand(len(given), 1), given], 1)
        expected = best_of(list(sequences(*given.shape, aligner, side=side)), given.detach())
        weights = reading.weights[0] if not null else torch.cat([reading.null[0, :, None], reading.weights[0]], 1)
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ALIGNERS)
@pytest.mark.parametrize("null", [False, True])
def test_gradients_reach_scores_and_parameters(name, null):
    aligner = randomised(ALIGNERS[name](null=null), std=0.1)  # at a vertex, as where all stay unmatched, it is zero
    scores = (0.3 * torch.randn(2, 3, 4)).double().requires_grad_()
    found = aligner(scores, torch.tensor([3, 2]), torch.tensor([4, 3]))
    loss = sum((side.weights * torch.randn_like(side.weights)).sum() for side in sides(found))
    gradients = torch.autograd.grad(loss, [scores, *aligner.parameters()])
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert gradients[0][0].abs().sum() > 0 and not gradients[0][1, 2:].any() and not gradients[0][1, :, 3:].any()


def test_a_matching_of_equal_sizes_is_a_permutation_at_small_temperatures():
    scores = torch.randn(4, 4).double()
    found = MatchingAligner(gamma=1e-3)(scores.unsqueeze(0), *sizes(4, 4)).hypothesis.weights[0]
    best = max(permutations(range(4)), key=lambda order: sum(float(scores[i, j]) for i, j in enumerate(order)))
    assert found.argmax(1).tolist() == list(best)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="gamma"):
        MatchingAligner(gamma=0.0)
    with pytest.raises(TypeError, match="RowAligner: normalizer must be"):
        RowAligner("softmax")
    assert repr(MatchingAligner(null=True)) == "MatchingAligner(null=True)"
    assert "both_ways=False" in repr(RowAligner(om.SquaredNorm(), both_ways=False))
