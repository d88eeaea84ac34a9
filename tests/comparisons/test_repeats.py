"""Means over seeds, and what is more than chance."""

import random
from statistics import NormalDist

import pytest

from omegamax.comparisons.statistics import clearly_best, deviation_of, mean_of


def test_means_and_deviations():
    several = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}]
    assert mean_of(several) == {"a": 2.0, "b": 2.0}
    assert deviation_of(several) == {"a": pytest.approx(2**0.5), "b": 0.0}
    assert deviation_of(several[:1]) == {}


def test_one_value_is_never_clearly_best():
    assert clearly_best([[0.99], [0.01]]) is None
    assert clearly_best([[0.9, 0.9, 0.9]]) is None


def test_equal_values_are_not_and_constant_ones_are():
    assert clearly_best([[0.9, 0.9], [0.9, 0.9]]) is None
    assert clearly_best([[0.8, 0.8], [0.9, 0.9]]) == 1


@pytest.mark.thinned(4)
@pytest.mark.parametrize("n_seeds", [2, 3, 5, 30])
def test_chance_is_called_best_in_one_case_of_twenty(n_seeds):
    """Two models that differ by nothing but noise."""
    rng, normal = random.Random(0), NormalDist()
    draws = 4000
    wrong = sum(
        clearly_best([[normal.inv_cdf(rng.random()) for _ in range(n_seeds)] for _ in range(2)]) is not None
        for _ in range(draws)
    )
    assert wrong / draws < 0.06


def test_a_large_difference_is_found():
    rng = random.Random(0)
    rows = [[mean + rng.gauss(0, 0.01) for _ in range(5)] for mean in (0.5, 0.9, 0.7)]
    assert clearly_best(rows) == 1
