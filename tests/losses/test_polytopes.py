"""Losses on a user's own polytope: a best vertex is all that is known of it."""

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
