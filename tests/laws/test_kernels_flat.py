"""Rows in which most scores matter: flat, constant or strongly penalised. Weights and groups equal the reference's."""

import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, same_labels

from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.oscarmax import oscarmax

TIED = 5  # the row of rounded scores: at its kinks a group may as well be two


def flat_rows(n, dtype):
    x = normal(14, n, seed=n) * torch.logspace(-2, 0.5, 14, dtype=torch.float64)[:, None]
    x[0], x[1] = 0, 7.5
    x[2, ::5] = -INF
    x[3, : n // 2] = -INF
    x[4, 0] = 50
    x[TIED] = x[TIED].round(decimals=1)
    return x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0, 8.0])
@pytest.mark.parametrize("n", [30, 129, 300])
@pytest.mark.thinned(4)
def test_fusedmax(arch, n, strength, dtype):
    x = flat_rows(n, dtype)
    weights, value, joined = fusedmax(x, strength)
    expected, expected_value, expected_joined = fusedmax.reference(x.double(), strength)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(weights.double(), expected, rtol=0, atol=64 * unit)
    torch.testing.assert_close(value.double(), expected_value, rtol=8 * unit, atol=64 * unit)
    joined[TIED] = expected_joined[TIED] = False
    assert torch.equal(joined, expected_joined)
    assert torch.equal(weights[1], torch.full_like(weights[1], 1 / n))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pull", [0.1, 1.0, 5.0, None])
@pytest.mark.parametrize("n", [30, 129, 300])
@pytest.mark.thinned(4)
def test_oscarmax(arch, n, pull, dtype):
    x = flat_rows(n, dtype)
    strength = None if pull is None else pull / n
    weights, value, labels = oscarmax(x, strength)
    expected, expected_value, expected_labels = oscarmax.reference(x.double(), strength)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(weights.double(), expected, rtol=0, atol=64 * unit)
    torch.testing.assert_close(value.double(), expected_value, rtol=8 * unit, atol=64 * unit + 1e-12)
    labels[TIED] = expected_labels[TIED] = 0
    for row, other in zip(labels, expected_labels):
        assert same_labels(row, other) and torch.equal(row == -2, other == -2)
