"""entmax of orders just above 1, where a learnable order may end, is nearly softmax on every instruction set."""

import functools

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF
from oracles import exact_rows

import omegamax as om
from omegamax.kernels.entmax import entmax, entmax_product
from omegamax.kernels.entmax_pull import entmax_pull
from omegamax.kernels.entmax_slope import entmax_slope

ORDERS = [1 + 1e-4, 1 + 1e-6, 1 + 3.7e-7, 1 + 1e-8, 1 + 1e-10, 1 + 1e-12, 1 + 1e-15, 1 + 2.0**-52]


def rows_of(n, dtype):
    x = normal(5, n, seed=n) * torch.tensor([0.01, 1, 1, 3, 20])[:, None]
    x[2, ::3] = -INF
    return x.to(dtype)


@functools.cache
def expected_of(n, dtype, alpha):
    """Weights and values in long double; softmax's where the difference does not show."""
    weights, values = [], []
    for row in rows_of(n, dtype).double().numpy():
        p = np.zeros(n, dtype=np.longdouble)
        p[row > -INF] = exact_rows.entmax(row[row > -INF], alpha if alpha > 1 + 1e-9 else 1.0)
        log, e = np.log(np.where(p > 0, p, 1)), np.longdouble(alpha) - 1
        weights.append(p.astype(np.float64))
        values.append(float((p * (np.where(p > 0, row, 0) - np.expm1(e * log) / e / (1 + e))).sum()))
    return torch.tensor(np.array(weights)), torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [3, 40, 300, 1100])
def test_weights_and_values(arch, n, dtype):
    x = rows_of(n, dtype)
    for alpha in ORDERS:
        weights, value = entmax(x, alpha)
        expected, expected_value = expected_of(n, dtype, alpha)
        bound = 32 * torch.finfo(dtype).eps + (100 * (alpha - 1) if alpha < 1 + 1e-9 else 0)
        assert (weights.double() - expected).abs().max() < bound, alpha
        assert ((value.double() - expected_value).abs() < 4 * bound * (1 + expected_value.abs())).all(), alpha
        assert (weights[x == -INF] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_order_for_each_row_and_other_layouts(arch, dtype):
    x = torch.randn(len(ORDERS), 50).to(dtype)
    alpha = torch.tensor(ORDERS, dtype=torch.float64)[:, None]
    together = entmax(x, alpha)[0]
    for row, order in enumerate(ORDERS):
        assert torch.equal(together[row], entmax(x[row : row + 1], order)[0][0])
    for order in ORDERS[::3]:
        straight = om.entmax(x, alpha=order)
        assert torch.equal(om.entmax(x.t().contiguous(), 0, alpha=order), straight.t())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_derivatives(arch, dtype):
    """The slope in α is −½ p (log²p − Σ p log²p) at α = 1, and what the product and the pull say tends to that."""
    x, v = rows_of(40, dtype)[:4], torch.randn(4, 40).to(dtype)
    p = torch.softmax(x.double(), -1)
    log = torch.where(p > 0, p, 1).log()
    product = p * (v.double() - (p * v).sum(-1, keepdim=True))
    along = (product * log.square() / 2).sum(-1, keepdim=True)
    slope = (p * log.square()).sum(-1, keepdim=True) / 2 - (p * log).sum(-1, keepdim=True)
    close = {"rtol": 1e-3, "atol": 1e-4}
    for alpha in ORDERS[1:]:
        weights = entmax(x, alpha)[0]
        torch.testing.assert_close(entmax_product(weights, alpha, v).double(), product, **close)
        pulled = entmax_pull(weights, alpha, v)
        torch.testing.assert_close(pulled[0].double(), product, **close)
        torch.testing.assert_close(pulled[1].double(), along, **close)
        torch.testing.assert_close(entmax_slope(weights, alpha)[0].double(), slope, **close)


@pytest.mark.parametrize("alpha", [1 + 1e-12, 1 + 1e-7, 1 + 1e-5])
def test_a_learnable_order_moves_the_weights_as_it_should(arch, alpha):
    x = torch.tensor([[1.0, 0.5, -2.0]])
    order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    weights = om.entmax(x, alpha=order)
    p = torch.softmax(x.double(), -1)
    torch.testing.assert_close(weights.detach().double(), p, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(weights[0, 0], order)
    rate = -0.5 * p * (p.log().square() - (p * p.log().square()).sum(-1, keepdim=True))
    torch.testing.assert_close(gradient, rate[0, 0], rtol=1e-3, atol=1e-5)
