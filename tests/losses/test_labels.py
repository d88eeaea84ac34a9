"""Losses of structures take what annotators write: tags, heads, columns."""

import itertools

import pytest
import torch

import omegamax as om

CHAIN, TREE, MATCHING = om.Chain(), om.ProjectiveTree(), om.Matching()
LENGTHS = torch.tensor([4, 2])
TAGS = torch.tensor([[0, 2, 1, 1], [1, 0, -100, -100]])
HEADS = torch.tensor([[2, 0, 2, 3], [0, 1, -100, -100]])


def chain(factored):
    dense = torch.randn(2, 4, 3, 3)
    if not factored:
        return dense, CHAIN.from_tags(TAGS, 3, lengths=LENGTHS)
    scores = CHAIN.from_emissions(torch.randn(2, 4, 3), *(torch.randn(*size) for size in ((3, 3), (3,), (3,))))
    return scores, CHAIN.factored_from_tags(TAGS, 3, lengths=LENGTHS)


CASES = {
    "dense chain": lambda: (CHAIN, *chain(False), TAGS),
    "factored chain": lambda: (CHAIN, *chain(True), TAGS),
    "projective tree": lambda: (TREE, torch.randn(2, 5, 5), TREE.from_heads(HEADS, LENGTHS), HEADS),
    "arborescence": lambda: (
        om.Arborescence(),
        torch.randn(2, 5, 5),
        om.Arborescence.from_heads(HEADS, LENGTHS),
        HEADS,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "make", [om.CRFLoss, om.PerceptronLoss, om.SparseMAPLoss, om.MarginLoss, om.MarginSparseMAPLoss]
)
def test_labels_give_the_loss_of_their_structure(case, make):
    structure, scores, gold, labels = CASES[case]()
    loss = make(structure)
    expected = loss(scores, gold, lengths=LENGTHS)
    assert torch.equal(loss(scores, labels, lengths=LENGTHS), expected)
    assert torch.equal(loss(scores, labels.int(), lengths=LENGTHS), expected)


def test_matchings():
    scores, columns = torch.randn(2, 3, 4), torch.tensor([[3, 0, 1], [2, 1, 9]])
    lengths = (torch.tensor([3, 2]), torch.tensor([4, 4]))
    gold = MATCHING.from_permutation(torch.tensor([[3, 0, 1], [2, 1, -1]]), 4)
    loss = om.SparseMAPLoss(MATCHING)
    assert torch.equal(loss(scores, columns, lengths=lengths), loss(scores, gold, lengths=lengths))
    alone = MATCHING.with_null(scores, 0.3, 0.1)
    gold = MATCHING.nullable_from_permutation(torch.tensor([[3, 0, 1], [2, 1, -1]]), 4, lengths=lengths)
    assert torch.equal(loss(alone, columns, lengths=lengths), loss(alone, gold, lengths=lengths))


def test_the_log_likelihood_of_tags_by_hand():
    emissions, transitions = torch.randn(3, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)
    tags = torch.tensor([1, 0, 0])

    def score(path):
        inside = sum(emissions[n, tag] for n, tag in enumerate(path))
        return inside + sum(transitions[pair] for pair in itertools.pairwise(path))

    paths = torch.cartesian_prod(*[torch.arange(2)] * 3).tolist()
    expected = torch.stack([score(path) for path in paths]).logsumexp(0) - score(tags.tolist())
    potentials = CHAIN.from_emissions(emissions, transitions)
    torch.testing.assert_close(om.CRFLoss(CHAIN)(potentials, tags), expected)


def test_integers_in_the_shape_of_the_scores_are_a_structure():
    scores, gold = chain(False)
    assert torch.equal(
        om.CRFLoss(CHAIN)(scores, gold.long(), lengths=LENGTHS), om.CRFLoss(CHAIN)(scores, gold, lengths=LENGTHS)
    )


def test_factored_structures_are_not_multiplied_out():
    n_tags = 4096  # squared and times the length it would be 3.4e9 numbers
    found = CHAIN.factored_from_tags(torch.randint(n_tags, (50,)), n_tags, dtype=torch.float32)
    assert found.emissions.sum() == 50 and found.transitions.sum() == 49 and found.start.sum() == found.end.sum() == 1


def test_what_is_said_about_wrong_targets():
    scores, _ = chain(True)
    loss = om.CRFLoss(CHAIN)
    with pytest.raises(ValueError, match=r"CRFLoss: tags \(\.\.\., N\) must have the shape \(2, 4\)"):
        loss(scores, TAGS[:, :3])
    with pytest.raises(ValueError, match=r"tags must lie between 0 and 2, got -100 to 2; where a tag is missing"):
        loss(scores, TAGS)
    with pytest.raises(ValueError, match=r"or make them of tags \(\.\.\., N\) with target_from"):
        loss(scores, TAGS.float(), lengths=LENGTHS)
    with pytest.raises(TypeError, match=r"or an integer Tensor of tags \(\.\.\., N\), got list"):
        loss(scores, TAGS.tolist(), lengths=LENGTHS)
    with pytest.raises(TypeError, match="got labels, which SemiMarkov does not have"):
        om.CRFLoss(om.SemiMarkov(2))(torch.randn(2, 4, 2, 3, 3), TAGS)
    with pytest.raises(ValueError, match="or make them of tags"):
        CHAIN.log_prob(scores, TAGS)
