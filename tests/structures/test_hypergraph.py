"""Graphs and hypergraphs of a user's: what may be built, and derivations that visit a node twice."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck

import omegamax as om


def twice():
    """goal ← x x, x ← a | b: two independent choices at the same node."""
    builder = om.HypergraphBuilder()
    a, b, x, goal = builder.leaf(), builder.leaf(), builder.node(), builder.node()
    builder.edge(goal, x, x)
    builder.edge(x, a)
    builder.edge(x, b)
    return builder.build(goal)


def test_a_node_visited_twice_chooses_twice():
    graph, scores = twice(), torch.tensor([0.5, 1.0, -1.0], dtype=torch.float64)
    assert graph.count(scores) == 4
    by_hand = torch.stack([0.5 + scores[1 + i] + scores[1 + j] for i, j in itertools.product(range(2), repeat=2)])
    torch.testing.assert_close(graph.max(scores), by_hand.logsumexp(0))
    expected = graph.argmax(scores)
    assert expected[0] == 1 and expected[1:].sum() == pytest.approx(2)
    torch.testing.assert_close(graph.topk(scores, 5).scores, torch.tensor([2.5, 0.5, 0.5, -1.5, -torch.inf]).double())
    drawn = graph.sample(scores, n_samples=3000, generator=torch.Generator().manual_seed(0))
    assert set(drawn[:, 1].tolist()) == {0.0, 1.0, 2.0}
    torch.testing.assert_close(drawn.mean(0), expected, atol=0.05, rtol=0)
    for omega in (om.Shannon(), om.SquaredNorm()):
        assert gradcheck(lambda s, omega=omega: graph.argmax(s, omega), scores.clone().requires_grad_())


def test_two_derivations_with_the_same_parts_are_told_apart():
    graph, scores = twice(), torch.zeros(3, dtype=torch.float64)
    mixed = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="several derivations"):
        graph.log_prob(scores, mixed, om.SquaredNorm())


@pytest.mark.parametrize(
    "edges, options, message",
    [
        ([(0, 1), (1, 2), (2, 1), (2, 3)], {}, "must not form a cycle"),
        ([(0, 2), (1, 2)], {}, "got none into node 1"),
        ([(0, 1), (0, 2)], {}, "got node 1, from which it is not"),
        ([(0, 1), (1, 2)], {"goal": 7}, "one of the 3 nodes, got 7"),
        ([(0, 1), (1, 0)], {}, "no edge may enter the source"),
        ([(0, 1)], {"n_nodes": 1}, "from 0 to 0, got edge"),
        ([(0, 1), (1, 2)], {"source": 9}, "source must be one of the 3 nodes"),
    ],
)
def test_a_graph_that_is_none(edges, options, message):
    with pytest.raises(ValueError, match=message):
        om.Dag.from_edges(edges, **options)


def test_a_hypergraph_that_is_none():
    builder = om.HypergraphBuilder()
    leaf, node = builder.leaf(), builder.node()
    with pytest.raises(ValueError, match="one or two tails, got 3"):
        builder.edge(node, leaf, leaf, leaf)
    with pytest.raises(ValueError, match="must not be a leaf"):
        builder.edge(leaf, node)
    with pytest.raises(ValueError, match=r"come from leaf\(\) or node\(\)"):
        builder.edge(node, 5)
    with pytest.raises(ValueError, match="got none into node 1"):
        builder.build(node)


def test_sources_and_goals_by_name():
    graph = om.Dag.from_edges(torch.tensor([[2, 1], [1, 0], [2, 0]]), source=2, goal=0)
    assert graph.map(torch.tensor([1.0, 1.0, 1.5])).tolist() == [1, 1, 0]
    assert graph.n_edges == 3


def test_ties_go_to_the_first_edge():
    graph = om.Dag.from_edges([(0, 1), (0, 1), (0, 1)])
    assert graph.map(torch.zeros(3)).tolist() == [1, 0, 0]


def test_wrong_potentials():
    graph = om.Dag.from_edges([(0, 1), (0, 1)])
    with pytest.raises(ValueError, match="2 edges"):
        graph.max(torch.zeros(3))
    with pytest.raises(TypeError, match="floating point"):
        graph.max(torch.zeros(2, dtype=torch.long))
    with pytest.raises(TypeError, match="must be a Regularizer, got the class Shannon"):
        graph.max(torch.zeros(2), om.Shannon)
    with pytest.raises(ValueError, match="k must be at least 1"):
        graph.topk(torch.zeros(2), 0)
    with pytest.raises(ValueError, match="at most limit=1"):
        graph.enumerate(torch.zeros(2), limit=1)


def test_marginals_whose_weights_depend_on_low_scores():
    """OSCAR shares the weight of the best with all when there are many others; a few of them would not show it."""
    parallel = om.Dag.from_edges([(0, 1)] * 40)
    scores, omega = torch.zeros(40), om.Oscar(0.2)
    scores[7] = 3.0
    found = parallel.marginal(scores, omega)
    torch.testing.assert_close(found.weights, omega.argmax(scores))
    assert found.complete and found.weights.max() == pytest.approx(1 / 40)
    assert not parallel.marginal(scores, omega, limit=39).complete


def test_a_limit_that_cuts_nothing_is_not_reported():
    parallel = om.Dag.from_edges([(0, 1)] * 4)
    for limit, complete in ((1, False), (2, True), (3, True), (4, True)):
        found = parallel.marginal(torch.tensor([0.0, 2.0, 1.9, 0.0]), om.SquaredNorm(), limit=limit)
        assert bool(found.complete) is complete and found.probabilities.shape == (min(limit, 2),)
