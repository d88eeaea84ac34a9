"""Rows by Triton == the float64 reference, and what must hold to the bit."""

import pytest
import torch

from omegamax.kernels.entmax import entmax as entmax_reference
from omegamax.kernels.entmax import entmax_product as entmax_product_reference
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.fusedmax import fusedmax_product as fusedmax_product_reference
from omegamax.kernels.triton import row_products, rows

INF, NAN = torch.inf, torch.nan
ORDERS = [2.0, 1.5, 1.05, 1.3, 1.9]
LENGTHS = [1, 7, 32, 77]  # one block, two full ones, and five with a rest
TOLERANCES = {torch.float32: 3e-7, torch.float64: 1e-14}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(rows, "COLUMNS", 16)
    monkeypatch.setattr(row_products, "SEGMENT_COLUMNS", 16)


def edge_rows(n, dtype, spread=3.0):
    """Random rows, then constant, one finite, all masked, NaN, +inf, far apart, two levels."""
    x = spread * torch.randn(10, n, dtype=dtype)
    x[2] = 0.7
    x[3], x[3, n // 2] = -INF, 2.0
    x[4] = -INF
    x[5, n // 2] = NAN
    x[6, n - 1] = INF
    x[7] *= 1e6
    x[8] = torch.arange(n) % 2
    x[9, ::3] = -INF
    x[9, 0] = 1.0
    return x


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("alpha", ORDERS)
def test_rows_equal_the_reference_in_double_precision(alpha, n, dtype):
    x = edge_rows(n, dtype)
    weights, value = rows.entmax(x, alpha)
    expected, expected_value = entmax_reference.reference(x.double(), alpha)
    assert weights.dtype == value.dtype == dtype
    atol = TOLERANCES[dtype] / (alpha - 1) ** 0.5
    torch.testing.assert_close(weights.double(), expected, atol=atol, rtol=0, equal_nan=True)
    # The value lies above the largest score, which is rounded to the type of the row.
    torch.testing.assert_close(
        value.double(), expected_value, atol=10 * atol, rtol=4 * torch.finfo(dtype).eps, equal_nan=True
    )
    assert torch.equal(weights[4], torch.zeros(n, dtype=dtype)) and value[4] == -INF
    assert weights[5].isnan().all() and weights[6].isnan().all()
    assert not weights[[0, 1, 2, 3, 4, 7, 8, 9]].isnan().any()
    assert torch.equal(weights[x == -INF], torch.zeros_like(weights[x == -INF]))
    borderline = (expected > 0) & (expected < 1e-5 if dtype == torch.float32 else expected < 1e-11)
    assert torch.equal(((weights > 0) | borderline)[:5], ((expected > 0) | borderline)[:5])


@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.3])
def test_equal_scores_have_equal_weights_to_the_bit(alpha):
    x = torch.randint(-2, 3, (6, 70)).float() / 3
    weights, _ = rows.entmax(x, alpha)
    for row, found in zip(x, weights):
        for level in row.unique():
            assert found[row == level].unique().numel() == 1


@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_types_are_computed_in_float32_and_rounded_once(dtype, alpha):
    x = edge_rows(33, torch.float32).to(dtype)
    # The interpreter cuts the last bits of a bfloat16 off instead of rounding: one unit in the last place is allowed.
    rtol = torch.finfo(dtype).eps if dtype == torch.bfloat16 else 0
    for found, wide in zip(rows.entmax(x, alpha), rows.entmax(x.float(), alpha)):
        assert found.dtype == dtype
        torch.testing.assert_close(found, wide.to(dtype), atol=0, rtol=rtol, equal_nan=True)


def test_rows_do_not_depend_on_their_neighbours():
    x = edge_rows(65, torch.float32)
    together, _ = rows.entmax(x, 1.3)
    for i in range(len(x)):
        torch.testing.assert_close(rows.entmax(x[i : i + 1], 1.3)[0][0], together[i], atol=0, rtol=0, equal_nan=True)


def test_shapes_without_entries():
    for shape in [(0, 3), (2, 0), (0, 0)]:
        weights, value = rows.sparsemax(torch.zeros(shape))
        assert weights.shape == shape and value.shape == shape[:1] and (value == -INF).all()
    weights, value = rows.sparsemax(torch.tensor([1.0, 0.9, -1.0]))
    torch.testing.assert_close(weights, torch.tensor([0.55, 0.45, 0.0]))
    assert value.shape == ()


@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.3])
def test_the_search_ends_on_rows_that_are_hard_for_newton(alpha, monkeypatch):
    """One far score above a long flat tail, geometric gaps, and all but equal scores: far from the first point."""
    monkeypatch.setattr(rows, "COLUMNS", 1024)
    n = 700
    far = torch.full((n,), -0.999 / (alpha - 1))
    far[0] = 0
    geometric = -(0.99 ** torch.arange(n)) / (alpha - 1)
    close = 1 + torch.arange(n) * 2.0**-23
    x = torch.stack([far, geometric, close])
    weights, _ = rows.entmax(x, alpha)
    torch.testing.assert_close(weights.double(), entmax_reference.reference(x.double(), alpha)[0], atol=3e-7, rtol=1e-4)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("alpha", [2.0, 1.5, 1.3])
def test_products_equal_the_reference(alpha, n, dtype):
    weights, _ = rows.entmax(edge_rows(n, dtype), alpha)
    direction = torch.randn(weights.shape, dtype=dtype)
    product = row_products.entmax_product(weights, alpha, direction)
    expected = entmax_product_reference.reference(weights.double(), alpha, direction.double())
    tolerance = 20 * TOLERANCES[dtype]
    torch.testing.assert_close(product.double(), expected, atol=tolerance, rtol=tolerance, equal_nan=True)
    assert torch.equal(product[4], torch.zeros(n, dtype=dtype))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_products_of_fusedmax_equal_the_reference(n, dtype):
    x = edge_rows(n, dtype, spread=0.3)
    weights, _, joined = fusedmax.reference(x, 0.2)
    direction = torch.randn(weights.shape, dtype=dtype)
    product = row_products.fusedmax_product(weights, joined, direction)
    expected = fusedmax_product_reference.reference(weights.double(), joined, direction.double())
    tolerance = 20 * TOLERANCES[dtype]
    torch.testing.assert_close(product.double(), expected, atol=tolerance, rtol=tolerance, equal_nan=True)
    same = joined[:, 1:] & (weights[:, 1:] != 0) & (weights[:, :-1] != 0) & ~weights[:, 1:].isnan()
    assert torch.equal(product[:, 1:][same], product[:, :-1][same])


def test_segments_longer_than_a_block_keep_one_mean():
    n = 60  # a segment that begins in the first block, fills two and ends in the last
    weights = torch.full((1, n), 1.0 / n)
    joined = torch.ones(1, n, dtype=torch.bool)
    joined[0, [0, 10, 50]] = False
    weights[0, 20:24] = 0  # removed positions inside the segment
    direction = torch.randn(1, n)
    product = row_products.fusedmax_product(weights, joined, direction)
    expected = fusedmax_product_reference.reference(weights.double(), joined, direction.double())
    torch.testing.assert_close(product.double(), expected, atol=1e-6, rtol=1e-5)
    assert product[0, 10:20].unique().numel() == product[0, 24:50].unique().numel() == 1
