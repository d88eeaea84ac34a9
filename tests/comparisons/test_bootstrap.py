"""The paired bootstrap, against examples drawn one by one and against the normal distribution."""

import math

import numpy as np
import pytest

from omegamax.comparisons.bootstrap import paired_bootstrap


def test_it_is_what_drawing_examples_gives():
    random = np.random.default_rng(0)
    a, b = random.normal(size=60), random.normal(size=60) - 0.2
    found = paired_bootstrap(a, b, n_samples=4000)
    means = [(a[drawn] - b[drawn]).mean() for drawn in random.integers(60, size=(4000, 60))]
    assert found.mean == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.04)


def test_many_examples_are_normal():
    a, b = [1] * 560 + [0] * 440, [1] * 500 + [0] * 500
    spread = math.sqrt(0.06 * 0.94 / 1000)
    found = paired_bootstrap(a, b)
    assert (found.low, found.high) == pytest.approx((0.06 - 1.96 * spread, 0.06 + 1.96 * spread), abs=1e-3)
    assert found.p_value < 1e-3
    turned = paired_bootstrap(b, a)
    assert turned.mean == -found.mean and turned.p_value == found.p_value


def test_equal_models_do_not_differ():
    assert paired_bootstrap([1, 0, 1], [1, 0, 1]) == (0.0, 0.0, 0.0, 1.0)
    assert paired_bootstrap([1, 0] * 30, [0, 1] * 30).p_value > 0.5


def test_it_refuses_other_examples():
    with pytest.raises(ValueError, match="a score for each of the same examples, got 2 and 1"):
        paired_bootstrap([1, 0], [1])
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        paired_bootstrap([1], [1], n_samples=0)
