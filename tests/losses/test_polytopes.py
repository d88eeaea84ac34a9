"""Losses on a user's own polytope, of which only a best vertex is known."""

import pytest
import torch

import omegamax as om

VERTICES = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]]).double()


def best_of(vertices):
    return om.Polytope.from_oracle(lambda scores: vertices[(vertices @ scores).argmax()])  # NaN for −inf scores


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_losses_on_a_polytope(scale):
    """Vertices that are not 0/1 too."""
    vertices = scale * VERTICES
    structure = best_of(vertices)
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    found = om.SparseMAPLoss(structure, "none")(scores, vertices)
    torch.testing.assert_close(found, om.SparseMAPLoss(structure, "none", check=False)(scores, vertices))
    (grad,) = torch.autograd.grad(found.sum(), scores)
    torch.testing.assert_close(grad, structure.sparsemap(scores).marginals - vertices)
    perceptron = om.PerceptronLoss(structure, "none")(scores, vertices)
    torch.testing.assert_close(perceptron, (scores @ vertices.T).amax(1) - (scores * vertices).sum(1))


@pytest.mark.parametrize("wrong", [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
def test_what_is_no_vertex_says_so(wrong):
    target = VERTICES.clone()
    target[1] = torch.tensor(wrong)
    with pytest.raises(ValueError, match="must be a structure of Polytope, got something else in item 1"):
        om.SparseMAPLoss(best_of(VERTICES))(torch.randn(3, 4).double(), target)


def test_the_origin_may_be_a_vertex():
    cube = om.Polytope.from_oracle(lambda scores: (scores > 0).double())
    scores, target = torch.randn(2, 3).double(), torch.tensor([[0.0, 0, 0], [1, 0, 1]])
    expected = (scores.clamp(min=0) - scores * target).sum(1)
    torch.testing.assert_close(om.PerceptronLoss(cube, "none")(scores, target), expected)


def test_who_stays_alone_in_a_matching_is_looked_at():
    matching = om.Matching()
    scores = matching.with_null(torch.randn(1, 2, 3), 0.5, 0.5)
    gold = matching.nullable_from_permutation(torch.tensor([[-1, 0]]), 3)
    assert om.PerceptronLoss(matching)(scores, gold) >= 0
    for wrong in (gold._replace(rows=0 * gold.rows), gold._replace(columns=5 * gold.columns)):
        for loss in (om.PerceptronLoss(matching), om.SparseMAPLoss(matching)):
            with pytest.raises(ValueError, match="must be a structure of Matching, got something else in item 0"):
                loss(scores, wrong)


def test_matchings_are_recognised_within_their_lengths():
    lengths = (torch.tensor([2]), torch.tensor([3]))
    scores, target = torch.randn(1, 3, 3), torch.eye(3)[None]
    with pytest.raises(ValueError, match="must be a structure of Matching"):
        om.PerceptronLoss(om.Matching())(scores, target, lengths=lengths)
    target[:, 2] = 0
    assert om.PerceptronLoss(om.Matching())(scores, target, lengths=lengths) >= 0
    target[:, 1] = 0  # one row of two has a partner
    with pytest.raises(ValueError, match="must be a structure of Matching"):
        om.PerceptronLoss(om.Matching())(scores, target, lengths=lengths)
