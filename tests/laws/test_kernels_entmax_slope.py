"""entmax_slope and entmax_pull: native == reference in double precision == finite differences."""

import pytest
import torch

from omegamax.kernels.entmax import entmax, entmax_product
from omegamax.kernels.entmax_pull import entmax_pull
from omegamax.kernels.entmax_slope import entmax_slope

ORDERS = [1.0, 1 + 1e-7, 1.001, 1.3, 1.5, 1.9, 2.0, 3.0]


def entmax_weights(alpha, n, dtype):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(9, n, generator=generator, dtype=torch.float64) * torch.logspace(-1, 1.5, 9)[:, None]
    return entmax.reference(x, alpha)[0].to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 64, 301])
@pytest.mark.thinned(5)
def test_native_is_reference(arch, n, dtype):
    close = {"rtol": 2e-6, "atol": 2e-7} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-14}
    for alpha in ORDERS:
        weights = entmax_weights(alpha, n, dtype)
        slope, gradient = entmax_slope(weights, alpha)
        assert slope.shape == (9, 1) and slope.dtype == gradient.dtype == dtype
        wide_slope, wide_gradient = entmax_slope.reference(weights.double(), alpha)
        torch.testing.assert_close(slope.double(), wide_slope, **close)
        torch.testing.assert_close(gradient.double(), wide_gradient, **close)
        assert (gradient[weights == 0] == 0).all()


def test_an_order_for_each_row(arch):
    alphas = torch.tensor([[[1.2], [1.0], [2.5]]], dtype=torch.float64)
    weights = entmax_weights(1.4, 12, torch.float64)[:6].reshape(2, 3, 12)
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
    weights = entmax_weights(1.4, 12, torch.float64)

    def entropy(alpha):
        return ((weights**alpha).sum(-1, keepdim=True) - 1) / (alpha * (alpha - 1))

    for alpha in (1.2, 1.5, 2.0):
        difference = (entropy(alpha + 1e-5) - entropy(alpha - 1e-5)) / 2e-5
        torch.testing.assert_close(entmax_slope(weights, alpha)[0], difference, rtol=1e-7, atol=1e-7)


def directions(like):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 64, 301])
@pytest.mark.thinned(5)
def test_pull_is_product_and_slope(arch, n, dtype):
    close = {"rtol": 4e-6, "atol": 4e-6} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-12}
    for alpha in ORDERS:
        weights = entmax_weights(alpha, n, dtype)
        direction = directions(weights)
        product, along = entmax_pull(weights, alpha, direction)
        assert along.shape == (9, 1) and along.dtype == product.dtype == dtype
        wide_product, wide_along = entmax_pull.reference(weights.double(), alpha, direction.double())
        scale = wide_product.abs().sum(-1, keepdim=True).clamp(min=1)  # far above order 2 products are huge
        torch.testing.assert_close(product.double() / scale, wide_product / scale, **close)
        torch.testing.assert_close(along.double() / scale, wide_along / scale, **close)
        own = entmax_product(weights, alpha, direction).double()
        torch.testing.assert_close(product.double() / scale, own / scale, **close)
        assert (product[weights == 0] == 0).all()


def test_pull_with_an_order_for_each_row(arch):
    alphas = torch.tensor([[[1.2], [1.0], [2.5]], [[1.5], [2.0], [1 + 1e-9]]], dtype=torch.float64)
    weights = entmax_weights(1.4, 12, torch.float64)[:6].reshape(2, 3, 12)
    found = entmax_pull(weights, alphas, directions(weights))
    for one, expected in zip(found, entmax_pull.reference(weights, alphas, directions(weights))):
        torch.testing.assert_close(one, expected, rtol=1e-11, atol=1e-12)


def test_pull_of_unusual_rows(arch):
    weights = torch.tensor([[0.0] * 5, [float("nan")] * 5, [1.0, 0, 0, 0, 0], [1e-42, 1.0, 0, 0, 0]])
    for alpha in (1.0, 1.3, 1.5, 2.0, 2.5):
        product, along = entmax_pull(weights, alpha, torch.ones_like(weights))
        assert product[1].isnan().all() and along[1].isnan().all()
        assert not product[[0, 2, 3]].isnan().any() and not along[[0, 2, 3]].isnan().any()
        assert (product[0] == 0).all() and along[0] == 0
    product, along = entmax_pull(weights, torch.tensor([[0.5], [1.3], [float("nan")], [1.3]]), torch.ones_like(weights))
    assert product[[0, 2]].isnan().all() and along[[0, 2]].isnan().all()
    product, along = entmax_pull(torch.empty(3, 0), 1.3, torch.empty(3, 0))
    assert product.shape == (3, 0) and (along == 0).all()


def test_pull_is_the_derivative_of_the_weights(arch):
    """<v, dp/dα> = −<J v, ∂_α ∇Ω>."""
    scores = torch.randn(5, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for alpha in (1.2, 1.5, 1.7, 2.5):
        direction = directions(scores)
        change = (entmax.reference(scores, alpha + 1e-6)[0] - entmax.reference(scores, alpha - 1e-6)[0]) / 2e-6
        _, along = entmax_pull(entmax.reference(scores, alpha)[0], alpha, direction)
        torch.testing.assert_close((direction * change).sum(-1, keepdim=True), -along, rtol=1e-6, atol=1e-7)
