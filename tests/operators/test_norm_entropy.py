"""Normmax beyond the laws: its relatives, its limits, an order for each row, and numbers at the ends of their range."""

import pytest
import torch
from cases import normal
from oracles import multiplier

import omegamax as om
from omegamax.kernels.normmax import normmax, normmax_product

ORDERS = [1.05, 1.3, 2.0, 3.0, 20.0]


@pytest.mark.parametrize("alpha", ORDERS)
def test_it_is_a_power_of_entmax(alpha, backend):
    """Both have a threshold τ with Σ (θ − τ)₊^q = 1, q = α/(α − 1): entmax of order 2 − 1/α, of qθ, weighs by z^q."""
    scores = normal(20, 9, scale=0.7)
    powers = om.entmax(scores * alpha / (alpha - 1), alpha=2 - 1 / alpha).pow(1 / alpha)
    expected = powers / powers.sum(-1, keepdim=True)
    torch.testing.assert_close(om.normmax(scores, alpha=alpha), expected, atol=1e-11, rtol=0)


def test_small_orders_are_nearly_hardmax_and_large_ones_even_on_the_support_of_sparsemax(backend):
    scores = normal(20, 9)
    torch.testing.assert_close(om.normmax(scores, alpha=1 + 1e-9), om.hardmax(scores))
    support = (om.sparsemax(scores) > 0).double()
    torch.testing.assert_close(
        om.normmax(scores, alpha=1e9), support / support.sum(-1, keepdim=True), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("alpha", [1.0, 0.5, float("inf"), float("nan")])
def test_orders_that_are_not_above_one_and_finite_are_refused(alpha):
    with pytest.raises(ValueError, match="NormEntropy: alpha must be above 1 and finite"):
        om.NormEntropy(alpha)
    with pytest.raises(ValueError, match="normmax: alpha must be above 1 and finite"):
        om.normmax(torch.zeros(3), alpha=torch.tensor(alpha))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_order_for_each_row(dtype):
    alpha = torch.tensor([1.01, 1.5, 2.0, 3.0, 30.0, 1.0, 0.5, float("inf"), float("nan")], dtype=torch.float64)[
        :, None
    ]
    rows, direction = normal(9, 40, dtype=dtype), normal(9, 40, seed=1, dtype=dtype)
    weights, value = normmax(rows, alpha)
    product = normmax_product(weights, alpha, direction)
    assert all(found[5:].isnan().all() for found in (weights, value, product))
    tolerance = {"atol": 2e-6, "rtol": 2e-5} if dtype is torch.float32 else {"atol": 1e-13, "rtol": 1e-11}
    for found, expected in zip((weights, value), normmax.reference(rows, alpha)):
        torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
    torch.testing.assert_close(
        product, normmax_product.reference(weights, alpha, direction), equal_nan=True, **tolerance
    )
    for row in range(5):
        number = alpha[row].item()
        torch.testing.assert_close(weights[row], normmax(rows[row], number)[0], **tolerance)
        torch.testing.assert_close(product[row], normmax_product(weights[row], number, direction[row]), **tolerance)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.thinned(4)
def test_single_precision_is_rounded_once(alpha, arch):
    """For large orders the weights leave zero steeply: a threshold in single precision would not do."""
    rows = normal(200, 30, scale=0.5, dtype=torch.float32)
    expected = torch.from_numpy(multiplier.normmax(rows.double().numpy(), alpha).astype("float64"))
    error = (normmax(rows, alpha)[0].double() - expected).abs().max()
    assert error < 2 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("alpha", ORDERS)
def test_scores_of_any_size_and_ties(alpha, backend):
    for scale in (1e-30, 1.0, 1e30):
        rows = torch.tensor([[1.0, 1.0, -1.0, -torch.inf], [0.0, 0.0, 0.0, 0.0]]) * scale
        weights, value = om.NormEntropy(alpha).max_and_argmax(rows)[::-1]
        assert weights[0, 0] == weights[0, 1] and weights[0, 3] == 0 and len(weights[1].unique()) == 1
        assert bool(value.isfinite().all()) and torch.allclose(weights.sum(-1), torch.ones(2))
    empty = om.normmax(torch.full((2, 3), -torch.inf), alpha=alpha)
    assert torch.equal(empty, torch.zeros(2, 3)) and om.normmax(torch.zeros(2, 0), alpha=alpha).shape == (2, 0)


def test_omega_of_orders_whose_powers_vanish():
    weights = torch.full((1, 1000), 1e-3, dtype=torch.float64)
    for alpha in (1.5, 2.0, 400.0):  # 0.001^400 is no number of double precision
        expected = 1000 ** (1 / alpha) * 1e-3 - 1
        assert float(om.NormEntropy(alpha).omega(weights)) == pytest.approx(expected, abs=1e-14)
    assert om.normmax(torch.zeros(1000), alpha=400.0).sum() == pytest.approx(1.0)
