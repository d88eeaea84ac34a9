"""Closed forms of logic factors: members of their polytopes, and nothing in them is nearer."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.local_polytope_qp import Hull, solve

from omegamax.inference.factor_graphs.logic_factors import PAIR_FACES, project_counts, project_pairs

numbers = st.floats(-3, 3, allow_nan=False).map(lambda x: round(x, 3))


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def counts(target, least, most, low=None, high=None):
    low = torch.zeros(len(target)) if low is None else low
    high = torch.ones(len(target)) if high is None else high
    return project_counts(tensor(target), low.double(), high.double(), tensor(float(least)), tensor(float(most)))


@given(st.lists(numbers, min_size=1, max_size=6), st.data())
@pytest.mark.slow
def test_counts_are_projections(target, data):
    least = data.draw(st.integers(0, len(target)))
    most = data.draw(st.integers(least, len(target)))
    point = counts(target, least, most).point.numpy()
    assert point.min() >= 0 and point.max() <= 1 and least - 1e-12 <= point.sum() <= most + 1e-12
    away = np.array(target) - point
    every = [y for y in itertools.product([0, 1], repeat=len(target)) if least <= sum(y) <= most]
    assert max(away @ y for y in np.array(every)) <= away @ point + 1e-9  # the variational inequality at all corners


def test_fixed_literals_and_infeasible_counts():
    low, high = tensor([0.0, 1.0, 0.0]), tensor([0.0, 1.0, 1.0])  # the first is false, the second true
    found = counts([9.0, -9.0, 0.3], 1, 2, low, high)
    torch.testing.assert_close(found.point, tensor([0.0, 1.0, 0.3]))
    assert found.feasible and not found.tight
    assert not counts([0.0, 0.0], 2, 2, tensor([0.0, 0.0]), tensor([0.0, 1.0])).feasible
    assert not counts([0.0, 0.0], 0, 1, tensor([1.0, 1.0]), tensor([1.0, 1.0])).feasible


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_counts_of_any_size(scale):
    target = [scale, scale, -scale, scale * 0.5]
    xor = counts(target, 1, 1).point
    assert xor.sum().item() == pytest.approx(1, abs=1e-15)
    assert xor[0] == xor[1]
    if scale == 1e30:
        torch.testing.assert_close(xor, tensor([0.5, 0.5, 0.0, 0.0]))


def test_ties_are_exact():
    assert len(set(counts([0.3] * 7, 2, 2).point.tolist())) == 1


@given(numbers, numbers, numbers)
def test_pairs_solve_their_problem(first, second, score):
    zeros, ones = torch.zeros(2).double(), torch.ones(2).double()
    found = project_pairs(tensor([first, second]), tensor(score), zeros, ones)
    point, both = found.point.numpy(), found.both.item()
    assert max(0, point.sum() - 1) - 1e-12 <= both <= point.min() + 1e-12
    gradient = np.array([first - point[0], second - point[1], score])
    best = max(gradient @ y for y in np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)]))
    assert best <= gradient @ np.array([*point, both]) + 1e-9


@pytest.mark.parametrize("fixed", [0, 1])
@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("score", [0.7, -0.4, -torch.inf])
def test_pairs_with_one_fixed(fixed, value, score):
    low, high = torch.zeros(2).double(), torch.ones(2).double()
    low[fixed] = high[fixed] = value
    target = tensor([0.5, 0.5])
    found = project_pairs(target, tensor(score), low, high)
    other = min(max(0.5 + (score if value else 0), 0), 1)
    assert found.point[fixed] == value and found.point[1 - fixed].item() == pytest.approx(other)
    assert found.both.item() == pytest.approx(value * other)


def test_a_forbidden_pair_is_at_most_one():
    zeros, ones = torch.zeros(2).double(), torch.ones(2).double()
    for target in ([0.9, 0.8], [0.2, 0.3], [2.0, -1.0]):
        found = project_pairs(tensor(target), tensor(-torch.inf), zeros, ones)
        torch.testing.assert_close(found.point, counts(target, 0, 1).point)
        assert found.both == 0


@given(numbers, numbers, numbers)
def test_faces_of_pairs_are_derivatives(first, second, score):
    zeros, ones = torch.zeros(2).double(), torch.ones(2).double()
    at = tensor([first, second, score])

    def found(x):
        answer = project_pairs(x[:2], x[2], zeros, ones)
        return torch.cat([answer.point, answer.both.reshape(1)]), answer.which

    here, which = found(at)
    for direction in torch.eye(3).double():
        ahead, same = found(at + 1e-5 * direction)
        if same != which or ((ahead[:2] == 0) | (ahead[:2] == 1)).any():
            return
        moved = (ahead - here)[:2]
        row, follows = PAIR_FACES[which]
        assert abs(row @ moved) < 1e-12
        assert abs(follows @ moved - (ahead - here)[2]) < 1e-12


def test_the_oracle_of_factor_graphs_on_a_simplex():
    """The tests' own quadratic program against sparsemax."""
    scores = np.array([0.3, 0.9, -0.2, 0.8])
    found, _ = solve(scores, np.zeros(0), [Hull([0, 1, 2, 3], np.eye(4), [], np.zeros((4, 0)))])
    np.testing.assert_allclose(found, [0.0, 0.55, 0.0, 0.45], atol=1e-12)
