"""Margins: Crammer & Singer's hinge, its smoothing, costs of the user's."""

import pytest
import torch
from torch.nn.functional import multi_margin_loss, one_hot

import omegamax as om

N, C = 7, 4


@pytest.fixture
def data():
    return torch.randn(N, C, dtype=torch.float64, requires_grad=True), torch.randint(C, (N,))


def test_hard_is_crammer_and_singer(data):
    scores, target = data
    gold = scores.gather(-1, target[:, None])
    by_hand = (scores + 1 - one_hot(target, C) - gold).amax(-1)
    torch.testing.assert_close(om.MarginLoss(om.Hard(), reduction="none")(scores, target), by_hand)
    two = torch.randn(5, 2, dtype=torch.float64)  # with two classes PyTorch's, which averages over classes, is half
    side = torch.tensor([0, 1, 1, 0, 0])
    torch.testing.assert_close(om.MarginLoss(om.Hard())(two, side), 2 * multi_margin_loss(two, side))


def test_smoothing_approaches_the_hinge_and_bounds_it(data):
    scores, target = data
    hinge = om.MarginLoss(om.Hard(), reduction="none")(scores, target)
    for gamma in (1.0, 0.1, 0.01):
        smooth = om.MarginLoss(om.Scaled(om.SquaredNorm(), gamma), reduction="none")(scores, target)
        assert (smooth >= hinge - 1e-12).all() and (smooth - hinge).max() <= gamma / 2
    (grad,) = torch.autograd.grad(om.MarginLoss(om.SquaredNorm(), reduction="sum")(scores, target), scores)
    raised = scores.detach() + 1 - one_hot(target, C)
    torch.testing.assert_close(grad, om.sparsemax(raised) - one_hot(target, C))


def test_zero_once_the_margin_is_kept():
    scores = torch.tensor([[3.0, 0.5, 0.0]])
    assert om.MarginLoss(om.Hard())(scores, torch.tensor([0])) == 0
    assert om.MarginLoss(om.SquaredNorm())(scores, torch.tensor([0])) == 0
    assert om.MarginLoss(om.Hard(), margin=4.0)(scores, torch.tensor([0])) == 1.5


def test_costs_of_classes(data):
    scores, target = data
    cost = (torch.arange(C).double()[:, None] - torch.arange(C)).abs()  # ordinal: how far off
    by_hand = (scores + cost[target] - scores.gather(-1, target[:, None])).amax(-1)
    for given in (cost, lambda y: cost[y]):
        torch.testing.assert_close(om.MarginLoss(om.Hard(), given, reduction="none")(scores, target), by_hand)
    hot = one_hot(target, C).double()
    torch.testing.assert_close(om.MarginLoss(om.Hard(), cost, reduction="none")(scores, hot), by_hand)
    loss = om.MarginLoss(om.Hard(), cost)
    assert "cost" in loss.state_dict()


def test_the_hamming_cost_is_one_for_every_other_class(data):
    scores, target = data
    cost = 1 - torch.eye(C).double()
    for smooth in (om.Hard(), om.Shannon(), om.Fused(0.1)):
        torch.testing.assert_close(om.MarginLoss(smooth)(scores, target), om.MarginLoss(smooth, cost)(scores, target))
        hot = one_hot(target, C).double()
        torch.testing.assert_close(om.MarginLoss(smooth)(scores, hot), om.MarginLoss(smooth, cost)(scores, target))


def test_ignored_classes_and_axes(data):
    scores, target = data
    target[2] = -100
    kept = target >= 0
    loss = om.MarginLoss(om.SquaredNorm())
    torch.testing.assert_close(loss(scores, target), loss(scores[kept], target[kept]))
    turned = om.MarginLoss(om.SquaredNorm(), dim=0)(scores.T, target)
    torch.testing.assert_close(turned, loss(scores, target))


def test_tags_of_a_chain_cost_one_each():
    chain = om.Chain()
    tags = torch.tensor([[0, 1, 2, 1]])
    gold = chain.from_tags(tags, 3)
    costs = chain.hamming(gold).expand(gold.shape)
    other = torch.tensor([[0, 2, 2, 0]])
    assert (costs * chain.from_tags(other, 3)).sum() == 2  # two tags differ, three pairs of tags do
    dense = om.MarginLoss(chain)(torch.zeros(1, 4, 3, 3), gold)
    factored = chain.from_emissions(torch.zeros(1, 4, 3), torch.zeros(3, 3))
    assert dense == om.MarginLoss(chain)(factored, chain.factored_from_tags(tags, 3)) == 4
    assert om.MarginLoss(chain)(factored, tuple(chain.factored_from_tags(tags, 3))) == 4


def test_softmax_margin():
    tree = om.ProjectiveTree()
    scores = torch.randn(2, 5, 5, dtype=torch.float64)
    gold = tree.from_heads(torch.tensor([[2, 0, 2, 3], [0, 1, 1, 3]]), dtype=torch.float64)
    loss = om.MarginLoss(om.Smoothed(tree, om.Shannon()), reduction="none")(scores, gold)
    expected = tree.max(scores + 1 - gold) - (scores * gold).sum((-2, -1))
    torch.testing.assert_close(loss, expected)


def test_costs_of_every_component():
    chain = om.Chain()
    scores = chain.from_emissions(torch.randn(1, 3, 2).double(), torch.randn(2, 2).double())
    gold = chain.factored_from_tags(torch.tensor([[0, 1, 1]]), 2, dtype=torch.float64)

    def cost(y):
        return y._replace(
            emissions=1 - y.emissions, transitions=2 * (y.transitions == 0), start=0 * y.start, end=0 * y.end
        )

    found = om.MarginLoss(chain, cost)(scores, gold)
    raised = scores._replace(
        emissions=scores.emissions + 1 - gold.emissions, transitions=scores.transitions + 2 * (gold.transitions == 0)
    )
    torch.testing.assert_close(found, om.PerceptronLoss(chain)(raised, gold))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_margin_below_the_spacing_of_half_types_counts(dtype):
    tied = torch.full((1, 3), 4096.0, dtype=dtype)  # where neighbours are 4 or 32 apart
    for cost in (None, 1 - torch.eye(3)):
        found = om.MarginLoss(om.Hard(), cost)(tied, torch.tensor([0]))
        assert found.dtype is dtype and found == 1
    pairs = torch.full((2, 2), 4096.0, dtype=dtype)
    found = om.MarginLoss(om.Matching())(pairs, torch.eye(2))
    assert found.dtype is dtype and found == 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_classes_of_any_integer_type_pick_rows_of_the_cost(dtype):
    scores, target = torch.randn(3, 3), torch.tensor([0, 2, 1])
    loss = om.MarginLoss(om.Hard(), torch.arange(9.0).reshape(3, 3))
    assert torch.equal(loss(scores, target.to(dtype)), loss(scores, target))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_structures_of_any_type_as_targets(dtype):
    scores, gold = torch.randn(2, 3, 3), torch.eye(3).expand(2, 3, 3)
    for loss in (om.MarginLoss(om.Matching()), om.MarginSparseMAPLoss(om.Matching(), lambda y: 2 * (1 - y))):
        assert torch.equal(loss(scores, gold.to(dtype)), loss(scores, gold))


def test_a_cost_of_distributions_sees_the_classes_last():
    scores, soft = torch.randn(4, 3, 3, dtype=torch.float64), torch.rand(4, 3, 3, dtype=torch.float64).softmax(1)
    given, usual = om.MarginLoss(om.SquaredNorm(), lambda y: 1 - y, dim=1), om.MarginLoss(om.SquaredNorm(), dim=1)
    torch.testing.assert_close(given(scores, soft), usual(scores, soft))


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda: om.MarginLoss(om.Chain), TypeError, "got the class Chain"),
        (lambda: om.MarginLoss(om.Hard(), "hamming"), TypeError, "cost must be a Tensor or a function"),
        (
            lambda: om.MarginLoss(om.Hard(), torch.ones(2, 2))(torch.ones(1, 3), torch.tensor([0])),
            ValueError,
            r"\(3, 3\)",
        ),
        (lambda: om.MarginLoss(om.Hard())(torch.ones(1, 3), torch.tensor([4])), ValueError, "got 4"),
        (lambda: om.MarginLoss(om.Hard())(torch.ones(1, 3), torch.tensor([[0]])), ValueError, "classes must have the"),
        (lambda: om.MarginLoss(om.Hard())(torch.ones(1, 3), [0]), TypeError, "target must be an integer Tensor"),
        (lambda: om.MarginSparseMAPLoss(om.Hard()), TypeError, "MarginSparseMAPLoss: structure must be"),
        (
            lambda: om.MarginLoss(om.Hard(), torch.ones(3, 3))(torch.ones(1, 3), torch.tensor([4])),
            ValueError,
            "classes must lie between 0 and 2, got 4",
        ),
        (
            lambda: om.MarginLoss(om.Hard(), torch.ones(3, 3))(torch.ones(2, 3), torch.tensor([0, 1, 2])),
            ValueError,
            "classes must have the shape",
        ),
        (
            lambda: om.MarginLoss(om.Hard(), lambda y: torch.ones(3, 3))(torch.ones(1, 3), torch.tensor([0])),
            ValueError,
            r"cost must broadcast to the scores \(1, 3\)",
        ),
        (
            lambda: om.MarginLoss(om.Hard(), lambda y: 1.0)(torch.ones(1, 3), torch.tensor([0])),
            TypeError,
            "cost must give a Tensor",
        ),
        (
            lambda: om.MarginLoss(om.Matching())(torch.ones(2, 2), [[1, 0], [0, 1]]),
            TypeError,
            "target must be a structure in the form of the scores",
        ),
        (
            lambda: om.MarginLoss(om.Matching())(torch.ones(2, 2), torch.eye(2).expand(5, 2, 2)),
            ValueError,
            "target must have the batch axes of the scores",
        ),
        (lambda: om.MarginLoss(om.Matching())([[1.0]], torch.eye(1)), TypeError, "Matching: scores must be a Tensor"),
    ],
)
def test_refuses(call, kind, said):
    with pytest.raises(kind, match=said):
        call()
