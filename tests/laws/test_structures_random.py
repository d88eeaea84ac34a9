"""Random hypergraphs, against a list of their derivations made by plain recursion."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import omegamax as om
from omegamax import registry

N_LEAVES = 2
OMEGAS = [smooth for smooth in registry.lineup(0).values() if smooth.symmetric]


@st.composite
def graphs(draw):
    """Edges (head, tails): every inner node is derived from lower ones, and the goal needs all of them."""
    n_inner = draw(st.integers(1, 5))
    edges = []
    for node in range(N_LEAVES, N_LEAVES + n_inner):
        for number in range(draw(st.integers(1, 3))):
            tails = draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=2))
            if number == 0 and node > N_LEAVES:
                tails[0] = node - 1  # so that no node dangles
            edges.append((node, tuple(tails)))
    return edges


def build(edges):
    builder = om.HypergraphBuilder()
    nodes = [builder.leaf() for _ in range(N_LEAVES)]
    nodes += [builder.node() for _ in range(max(head for head, _ in edges) + 1 - N_LEAVES)]
    for head, tails in edges:
        builder.edge(head, *tails)
    needed, stack = set(), [nodes[-1]]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [tail for head, tails in edges if head == node for tail in tails]
    if needed != set(nodes):  # an unused leaf gets an edge to the goal
        for leaf in set(nodes) - needed:
            builder.edge(nodes[-1], leaf)
            edges.append((nodes[-1], (leaf,)))
    return builder.build(nodes[-1])


def derivations(edges, node):
    if node < N_LEAVES:
        return [[]]
    found = []
    for number, (head, tails) in enumerate(edges):
        if head == node:
            below = [[]]
            for tail in tails:
                below = [first + second for first in below for second in derivations(edges, tail)]
            found += [[number, *rest] for rest in below]
    return found


def recursion(omega, edges, scores, node):
    if node < N_LEAVES:
        return 0.0
    into = [
        float(scores[number]) + sum(recursion(omega, edges, scores, tail) for tail in tails)
        for number, (head, tails) in enumerate(edges)
        if head == node
    ]
    return float(omega.max(torch.tensor(into, dtype=torch.float64)))


def some(edges, seed):
    graph = build(edges)
    scores = torch.randn(len(edges), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    goal = max(head for head, _ in edges)
    listed = derivations(edges, goal)
    return graph, scores, goal, listed


@given(graphs(), st.integers(0, 99))
@settings(max_examples=40)
def test_values_and_counts(edges, seed):
    graph, scores, goal, listed = some(edges, seed)
    assert graph.count(scores) == len(listed)
    for omega in OMEGAS:
        assert float(graph.max(scores, omega)) == pytest.approx(recursion(omega, edges, scores, goal), abs=1e-9)
    theirs = torch.tensor([sum(float(scores[edge]) for edge in edges_used) for edges_used in listed])
    assert float(graph.max(scores)) == pytest.approx(float(theirs.double().logsumexp(0)), abs=1e-5)


@given(graphs(), st.integers(0, 99))
@settings(max_examples=40)
def test_the_best_in_order(edges, seed):
    graph, scores, _, listed = some(edges, seed)
    k = min(len(listed) + 1, 30)
    expected = sorted((math.fsum(float(scores[edge]) for edge in used) for used in listed), reverse=True)[:k]
    expected += [-math.inf] * (k - len(expected))
    found, values = graph.topk(scores, k)
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64))
    finite = values > -torch.inf
    torch.testing.assert_close((found @ scores)[finite], values[finite])


@given(graphs(), st.integers(0, 99))
@settings(max_examples=15)
@pytest.mark.slow
def test_derivatives(edges, seed):
    graph, scores, _, _ = some(edges, seed)
    for omega in (om.Shannon(), om.SquaredNorm(), om.Oscar(0.05)):
        leaf = scores.clone().requires_grad_()
        assert gradcheck(lambda s, omega=omega: graph.argmax(s, omega), leaf, fast_mode=True)
        assert gradgradcheck(lambda s, omega=omega: graph.max(s, omega), leaf, fast_mode=True)


@given(graphs(), st.integers(0, 99), st.data())
@settings(max_examples=25)
def test_forbidding_is_removing(edges, seed, data):
    """A −inf score has the effect of an edge that is not there."""
    graph, scores, goal, _ = some(edges, seed)
    gone = data.draw(st.integers(0, len(edges) - 1))
    scores[gone] = -torch.inf
    kept = [used for used in derivations(edges, goal) if gone not in used]
    assert graph.count(scores) == len(kept)
    value = graph.max(scores, om.Shannon())
    if not kept:
        assert value == -torch.inf and (graph.argmax(scores, om.SquaredNorm()) == 0).all()
        return
    theirs = torch.tensor([math.fsum(float(scores[edge]) for edge in used) for used in kept], dtype=torch.float64)
    torch.testing.assert_close(value, theirs.logsumexp(0))
    for omega in OMEGAS:
        weights = graph.argmax(scores, omega)
        assert weights[gone] == 0 and not weights.isnan().any()
