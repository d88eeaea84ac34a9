"""The native k-best against its specification in Python: the same derivations, in the same order, ties included."""

import numpy as np
import pytest
import torch

import omegamax as om
from omegamax import routing
from omegamax.inference.hypergraphs.kbest import Ranking
from omegamax.kernels.structures.kbest import KBest

pytestmark = pytest.mark.skipif(routing.native is None, reason="needs the native kernels")


def both(structure, potentials, k):
    problem = structure.bind(potentials)
    topology = problem.lattice.topology
    ranking = Ranking(topology, problem.scores_of_edges(), problem.goals)
    for item, goal in enumerate(problem.goals.tolist()):
        arrays = (topology.tails.numpy(), ranking._first, ranking._scores[item].numpy(), ranking._values[item].numpy())
        specified = KBest(*arrays, n_leaves=topology.n_leaves)
        yield ranking.top(item, k), specified.top(goal, k)


def build():
    """Two tails, shared nodes, a tail given twice."""
    builder = om.HypergraphBuilder()
    nodes = [builder.leaf(), builder.leaf(), *(builder.node() for _ in range(5))]
    for head in range(2, 7):
        for first in range(max(0, head - 3), head):
            builder.edge(head, first, head - 1)
            builder.edge(head, first)
    return builder.build(nodes[-1])


@pytest.mark.parametrize("kind", ["normal", "ties", "forbidden"])
@pytest.mark.parametrize("k", [1, 7, 200])
def test_the_same_derivations(kind, k):
    graph = build()
    for structure, shape in [(graph, (3, graph.n_edges)), (om.Chain(), (3, 6, 3, 3))]:
        potentials = torch.randn(shape, dtype=torch.float64)
        if kind == "ties":
            potentials = potentials.round()
        elif kind == "forbidden":
            potentials[torch.rand(shape) < 0.3] = -torch.inf
        for found, expected in both(structure, potentials, k):
            np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-12)
            assert found.sizes.tolist() == expected.sizes.tolist()
            assert found.edges.tolist() == expected.edges.tolist()
            assert found.complete == expected.complete


def test_a_long_chain():
    potentials = torch.randn(1, 3000, 2, 2)
    scores = om.Chain().topk(potentials, 3).scores[0]
    assert (scores.diff() <= 0).all() and torch.isfinite(scores).all()
