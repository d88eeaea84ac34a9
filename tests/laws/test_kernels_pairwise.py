"""Squared distances of all pairs, against their definition."""

import pytest
import torch

from omegamax.kernels.pairwise import pairwise_squared


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (3, 5, 7, 2), (2, 17, 33, 5), (2, 4, 16, 1), (1, 3, 0, 2), (0, 3, 4, 2)]
)
def test_the_definition(arch, shape, dtype):
    batch, m, n, d = shape
    x, y = torch.randn(batch, m, d, dtype=dtype), torch.randn(batch, n, d, dtype=dtype)
    expected = (x.double().unsqueeze(2) - y.double().unsqueeze(1)).square().sum(-1)
    torch.testing.assert_close(pairwise_squared(x, y).double(), expected, rtol=1e-6, atol=1e-6)


def test_equal_points_are_at_distance_zero(arch):
    x = 1e3 + torch.randn(2, 9, 3)
    assert (pairwise_squared(x, x).diagonal(dim1=1, dim2=2) == 0).all()


def test_strided_points(arch):
    x, y = torch.randn(2, 3, 6).mT, torch.randn(1, 4, 3).expand(2, 4, 3)
    torch.testing.assert_close(pairwise_squared(x, y), pairwise_squared.reference(x, y))
