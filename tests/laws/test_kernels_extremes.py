"""The reference kernels at the ends of the number range, against rational numbers and many digits."""

import functools
import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from cases import normal
from oracles.simplex_qp import by_orderings

from omegamax.kernels.entmax import entmax
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.oscarmax import oscarmax
from omegamax.kernels.sparsemax import sparsemax
from omegamax.kernels.tv1d import prox_tv1d

LEAST = torch.finfo(torch.float64).min
ROWS = {
    "two levels": [1.0, 1.0, 1e30, 1e30],
    "masked by finfo.min": [0.3, LEAST, 0.1, 0.5],
    "masked twice": [LEAST, 0.2, LEAST, 0.4],
    "masked, large": [1e16, LEAST, 1e16, 1e16 - 2],
    "denormal": [5e-324, 0.0, 1e-310, 0.25],
    "close": [1.0, 1 + 1e-15, 1 - 1e-15, 1.0],
    "tied": [0.5, 0.5, 0.25, 0.5],
    "offset": [1e8 + 0.25, 1e8, 1e8 - 0.5, 1e8 + 0.5],
    "small": [1e-20, 3e-20, -1e-20, 2e-20],
}
rows = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
strengths = pytest.mark.parametrize("strength", [1e-9, 0.125, 1.0, 1e6])


def total_variation(p, strength):
    return strength * sum((abs(b - a) for a, b in itertools.pairwise(p)), Fraction(0))


def pairwise_max(p, strength):
    return strength * sum((max(a, b) for i, a in enumerate(p) for b in p[i + 1 :]), Fraction(0))


@functools.cache
def exact(penalty, row, strength):
    """The weights in rational numbers. Any score a long way below the others may stand for an even lower one."""
    strength = Fraction(strength)
    top = max(map(Fraction, row))
    shifted = np.array([max(Fraction(score) - top, -100 - 100 * strength) for score in row], dtype=object)
    return [float(p) for p in by_orderings(shifted, lambda p: penalty(p, strength))]


@pytest.mark.parametrize("strength", [1e3, 1e8, 1e20, 1e25])
def test_fusedmax_of_a_great_strength(twin, strength):
    """The two neighbours share the weight; a denoised row so far down has no digits left for a sum of 1."""
    weights, value, _ = twin(fusedmax, torch.tensor([[0.0, LEAST, 2.0, 0.5]], dtype=torch.float64), strength)
    assert weights.tolist() == [[0, 0, 0.5, 0.5]]
    exact_value = Fraction(5, 4) + Fraction(1, 4) - Fraction(strength) / 2
    assert float(value) == pytest.approx(float(exact_value), rel=1e-15)


@pytest.mark.parametrize(
    ("kernel", "penalty"), [(fusedmax, total_variation), (oscarmax, pairwise_max)], ids=["fusedmax", "oscarmax"]
)
@rows
@strengths
@pytest.mark.thinned(3)
def test_penalties(kernel, penalty, row, strength):
    weights, _, _ = kernel.reference(torch.tensor(row, dtype=torch.float64), strength)
    expected = torch.tensor(exact(penalty, tuple(row), strength), dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=1e-15 * (8 + strength), rtol=1e-14)
    assert torch.equal(weights == 0, expected == 0)


@rows
def test_sparsemax(row):
    weights, _ = sparsemax.reference(torch.tensor(row, dtype=torch.float64))
    expected = torch.tensor(exact(total_variation, tuple(row), 0.0), dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=1e-15, rtol=1e-14)
    assert torch.equal(weights == 0, expected == 0)


def entmax_in_many_digits(row, alpha):
    """Bisection for the least weight w of the support; the others are (w^e + e (x - x_least))^(1/e), e = alpha - 1."""
    scores = sorted(map(mpmath.mpf, row), reverse=True)
    e = mpmath.mpf(alpha) - 1

    def weights(w, size):
        return [(w**e + e * (x - scores[size - 1])) ** (1 / e) for x in scores[:size]]

    size = max(k for k in range(1, len(row) + 1) if sum(weights(mpmath.mpf(0), k)) <= 1)
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights(middle, size)) < 1 else (low, middle)
    return [float(w) for w in weights(low, size)] + [0.0] * (len(row) - size)


@pytest.mark.parametrize("alpha", [2.5, 7.0, 20.0, 300.0])
@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-2])
@pytest.mark.thinned(3)
def test_entmax_of_high_order_on_nearly_flat_rows(alpha, scale):
    row = normal(24, scale=scale).sort(descending=True).values
    with mpmath.workdps(40):
        expected = torch.tensor(entmax_in_many_digits(row.tolist(), alpha), dtype=torch.float64)
    for order in (alpha, torch.tensor([alpha], dtype=torch.float64)):
        weights, _ = entmax.reference(row, order)
        torch.testing.assert_close(weights, expected, atol=4e-15, rtol=1e-13)
        assert torch.equal(weights == 0, expected == 0)


@pytest.mark.parametrize("strength", [1e19, 1e30, 1e300])
def test_a_strength_beyond_all_scores_makes_the_row_constant(strength):
    row = torch.tensor([[0.0, -1.0, 2.0, 0.5]], dtype=torch.float64)
    assert torch.equal(fusedmax.reference(row, strength)[0], torch.full_like(row, 0.25))
    assert torch.equal(prox_tv1d.reference(row, strength)[0], torch.full_like(row, 0.375))


def test_equal_neighbours_are_one_segment():
    """Also in the middle of a slope, where the pull between them is at its bound."""
    for row in ([0.0, 0.1, 0.1, 0.2], [1.0, 0.5, 0.5, 0.0]):
        _, joined = prox_tv1d.reference(torch.tensor(row, dtype=torch.float64), 0.006)
        assert joined.tolist() == [False, False, True, False]


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1.5e308])
def test_denoising_has_no_scale(scale):
    row = torch.tensor([[0.5, -1.0, 0.25, 1.0, 1.0, 0.0]], dtype=torch.float64)
    expected, joined = prox_tv1d.reference(row, 0.25)
    actual, same = prox_tv1d.reference(row * scale, 0.25 * scale)
    torch.testing.assert_close(actual / scale, expected, atol=1e-15, rtol=1e-14)
    assert torch.equal(joined, same)
