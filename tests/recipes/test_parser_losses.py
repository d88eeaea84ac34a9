"""The parser's losses and probabilities against all trees of short sentences, one by one."""

import itertools
import math

import pytest
import torch

from omegamax.errors import DataError
from omegamax.recipes.parser_losses import (
    LOSSES,
    PROJECTIVE_LOSSES,
    SPARSEMAP_LOSSES,
    arc_loss,
    arc_probabilities,
    best_trees,
    kept_trees,
    nearest_projective,
    sparse_trees,
    structure_of,
)
from omegamax.recipes.settings import PARSER_LOSSES

N = 4


def all_trees(n, projective=False):
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        reached = {0}
        for _ in range(n):
            reached |= {word for word in range(1, n + 1) if heads[word - 1] in reached}
        arcs = [tuple(sorted((word, head))) for word, head in enumerate(heads, start=1)]
        crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
        if heads.count(0) == 1 and len(reached) == n + 1 and not (projective and crossing):
            found.append(heads)
    return found


def score(arcs, heads):
    return sum(float(arcs[head, word]) for word, head in enumerate(heads, start=1))


def marginals(arcs, trees, weights):
    found = torch.zeros_like(arcs)
    for heads, weight in zip(trees, weights):
        for word, head in enumerate(heads, start=1):
            found[head, word] += weight
    return found


@pytest.fixture
def arcs():
    return torch.randn(N + 1, N + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def test_the_settings_name_the_losses():
    assert sorted(LOSSES) == sorted(PARSER_LOSSES)


@pytest.mark.parametrize("loss", ["crf", "crf-projective"])
def test_crf_is_the_likelihood_over_all_trees(arcs, loss):
    trees = all_trees(N, loss in PROJECTIVE_LOSSES)
    scores = torch.tensor([score(arcs, heads) for heads in trees], dtype=torch.float64)
    gold = trees[7]
    by_hand = scores.logsumexp(0) - score(arcs, gold)
    found = arc_loss(loss, arcs[None], torch.tensor([gold]), torch.tensor([N]))
    assert float(found) == pytest.approx(float(by_hand))
    probabilities = arc_probabilities(loss, arcs[None], torch.tensor([N]))[0]
    torch.testing.assert_close(probabilities, marginals(arcs, trees, scores.softmax(0).tolist()))


def test_margin_is_the_worst_violation(arcs):
    trees = all_trees(N)
    gold = trees[11]
    wrong = [sum(a != b for a, b in zip(heads, gold)) for heads in trees]
    by_hand = max(score(arcs, heads) + cost for heads, cost in zip(trees, wrong)) - score(arcs, gold)
    found = arc_loss("margin", arcs[None], torch.tensor([gold]), torch.tensor([N]))
    assert float(found) == pytest.approx(by_hand)
    with pytest.raises(DataError, match="got margin, whose scores only rank trees"):
        arc_probabilities("margin", arcs[None], torch.tensor([N]))


def test_softmax_chooses_each_head_alone(arcs):
    gold = all_trees(N)[5]
    by_hand = 0.0
    for word, head in enumerate(gold, start=1):
        others = [float(arcs[h, word]) for h in range(N + 1) if h != word]
        by_hand += math.log(sum(map(math.exp, others))) - float(arcs[head, word])
    found = arc_loss("softmax", arcs[None], torch.tensor([gold]), torch.tensor([N]))
    assert float(found) == pytest.approx(by_hand)
    probabilities = arc_probabilities("softmax", arcs[None], torch.tensor([N]))[0]
    torch.testing.assert_close(probabilities[:, 1:].sum(0), torch.ones(N, dtype=torch.float64))
    assert float(probabilities[:, 0].sum()) == 0 and float(probabilities.diagonal().sum()) == 0


@pytest.mark.parametrize("loss", SPARSEMAP_LOSSES)
def test_sparsemap_is_the_nearest_mean_of_trees(arcs, loss):
    """No mean of trees is nearer to the scores: a step towards any tree does not help."""
    found = kept_trees(arcs[None], torch.tensor([N]))
    mean = found.marginals[0]
    for heads in all_trees(N):
        towards = marginals(arcs, [heads], [1.0]) - mean
        assert float(((arcs - mean) * towards).sum()) <= 1e-9
    listed = sparse_trees(loss, arcs[None], torch.tensor([N]))
    assert float(listed.probabilities.sum()) == pytest.approx(1)
    trees = [tuple(heads) for heads in listed.heads[0].tolist()]
    assert set(trees) <= set(all_trees(N))
    torch.testing.assert_close(marginals(arcs, trees, listed.probabilities[0].tolist()), mean)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_zero_or_small_at_a_clear_winner_and_batches_add_up(arcs, loss):
    gold = all_trees(N, projective=True)[3]
    clear = 50 * marginals(arcs, [gold], [1.0])
    assert float(arc_loss(loss, clear[None], torch.tensor([gold]), torch.tensor([N]))) < 1e-6
    heads = torch.tensor([gold, [2, 0, -1, -1]])
    both = torch.stack([arcs, arcs.flip(0)])
    lengths = torch.tensor([N, 2])
    one = arc_loss(loss, both[:1], heads[:1], lengths[:1]) + arc_loss(
        loss, both[1:, :3, :3], heads[1:, :2], lengths[1:]
    )
    torch.testing.assert_close(arc_loss(loss, both, heads, lengths), one)


def test_k_best_trees(arcs):
    structure = structure_of("crf-projective")
    ranked = sorted(all_trees(N, projective=True), key=lambda heads: -score(arcs, heads))
    found = best_trees(structure, arcs[None], torch.tensor([N]), 5)
    assert [tuple(heads) for heads in found.heads[0].tolist()] == ranked[:5]
    few = best_trees(structure, arcs[None], torch.tensor([2]), 5)
    assert few.there.sum() == 2  # two words have two trees
    with pytest.raises(DataError, match="add --decoding projective"):
        best_trees(structure_of("crf"), arcs[None], torch.tensor([N]), 2)
    with pytest.raises(DataError, match="train with --loss sparsemap"):
        sparse_trees("crf", arcs[None], torch.tensor([N]))


def test_the_nearest_projective_tree_shares_the_most_arcs():
    trees, candidates = all_trees(N), all_trees(N, projective=True)
    heads = torch.tensor(trees)
    found = nearest_projective(heads, torch.full((len(trees),), N)).tolist()
    for gold, near in zip(trees, found):
        assert tuple(near) in candidates
        shared = sum(a == b for a, b in zip(gold, near))
        assert shared == max(sum(a == b for a, b in zip(gold, other)) for other in candidates)
