"""entmax_slope: native == reference in double precision == finite differences of the entropy."""

import pytest
import torch

from omegamax import routing
from omegamax.kernels.entmax import entmax
from omegamax.kernels.entmax_slope import entmax_slope

ARCHS = routing.native.supported_archs() if routing.native is not None else []
ORDERS = [1.0, 1 + 1e-7, 1.001, 1.3, 1.5, 1.9, 2.0, 3.0]


@pytest.fixture(params=ARCHS)
def arch(request):
    routing.native.use_arch(request.param)
    yield request.param
    routing.native.use_arch("auto")


def weights_of(alpha, n, dtype):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(9, n, generator=generator, dtype=torch.float64) * torch.logspace(-1, 1.5, 9)[:, None]
    return entmax.reference(x, alpha)[0].to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 64, 301])
def test_native_is_reference(arch, n, dtype):
    close = {"rtol": 2e-6, "atol": 2e-7} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-14}
    for alpha in ORDERS:
        weights = weights_of(alpha, n, dtype)
        slope, gradient = entmax_slope(weights, alpha)
        assert slope.shape == (9, 1) and slope.dtype == gradient.dtype == dtype
        wide_slope, wide_gradient = entmax_slope.reference(weights.double(), alpha)
        torch.testing.assert_close(slope.double(), wide_slope, **close)
        torch.testing.assert_close(gradient.double(), wide_gradient, **close)
        assert (gradient[weights == 0] == 0).all()


def test_an_order_for_each_row(arch):
    alphas = torch.tensor([[[1.2], [1.0], [2.5]]], dtype=torch.float64)
    weights = weights_of(1.4, 12, torch.float64)[:6].reshape(2, 3, 12)
    for found, expected in zip(entmax_slope(weights, alphas), entmax_slope.reference(weights, alphas)):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    single = entmax_slope(weights[0, :1], torch.tensor(1.2, dtype=torch.float64))
    assert torch.equal(single[0], entmax_slope(weights, alphas)[0][0, :1])


def test_unusual_rows(arch):
    weights = torch.tensor([[0.0] * 5, [float("nan")] * 5, [1.0, 0, 0, 0, 0], [1e-42, 1.0, 0, 0, 0]])
    slope, gradient = entmax_slope(weights, 1.3)
    expected_slope, expected_gradient = entmax_slope.reference(weights.double(), 1.3)
    torch.testing.assert_close(slope.double(), expected_slope, rtol=1e-5, atol=1e-7, equal_nan=True)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-5, atol=1e-7)
    slope, gradient = entmax_slope(torch.empty(3, 0), 1.3)
    assert (slope == 0).all() and slope.shape == (3, 1) and gradient.shape == (3, 0)


def test_slope_is_the_derivative_of_the_entropy(arch):
    weights = weights_of(1.4, 12, torch.float64)

    def entropy(alpha):
        return ((weights**alpha).sum(-1, keepdim=True) - 1) / (alpha * (alpha - 1))

    for alpha in (1.2, 1.5, 2.0):
        difference = (entropy(alpha + 1e-5) - entropy(alpha - 1e-5)) / 2e-5
        torch.testing.assert_close(entmax_slope(weights, alpha)[0], difference, rtol=1e-7, atol=1e-7)
