"""Kernels with one threshold: native == reference == a slow oracle; products == finite differences."""

import functools

import numpy as np
import pytest
import torch
from kernel_cases import THRESHOLD_KERNELS
from oracles import multiplier
from threads import with_threads

from omegamax import routing
from omegamax.kernels.entmax import entmax, entmax_product

INF, NAN = float("inf"), float("nan")

pytestmark = pytest.mark.thinned(3)  # the full round takes all


class Case:
    def __init__(self, name, kernel, product, *parameters):
        self.name, self.kernel, self.product, self.parameters = name, kernel, product, parameters

    def __repr__(self):
        return self.name

    def solve(self, x, native=True):
        return (self.kernel if native else self.kernel.reference)(x, *self.parameters)

    def multiply(self, weights, direction, native=True):
        return (self.product if native else self.product.reference)(weights, *self.parameters, direction)


CASES = [
    Case(f"{kernel.name}{''.join(map(str, parameters))}", kernel.solver, kernel.product, *parameters)
    for kernel in THRESHOLD_KERNELS
    for parameters in [(order,) for order in kernel.orders] or [()]
]
SMOOTH = [c for c in CASES if c.name != "entmax10.0"]


@functools.cache
def expected_of(case, n, scale, dtype):
    return oracle(case, scores(n, scale, dtype).double().numpy())


def oracle(case, x):
    """Weights in long double, by bisection on the definition; and the value from the weights."""
    x = np.asarray(x, dtype=np.longdouble)
    top = x.max(-1, keepdims=True)
    d = top - x
    name, parameter = case.name, (case.parameters or (None,))[0]
    if name.startswith("normmax"):
        p = multiplier.normmax(x, parameter)
        omega = (p ** np.longdouble(parameter)).sum(-1) ** (1 / np.longdouble(parameter)) - 1
    elif name == "softmax" or parameter == 1.0:
        p = np.exp(-d)
        p /= p.sum(-1, keepdims=True)
        omega = np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
    elif name == "sparsemax" or name == "sqpnormmax2.0" or parameter == 2.0:
        p = multiplier.sqpnormmax(x, 2)
        omega = ((p * p).sum(-1) - 1) / 2
    elif name.startswith("entmax"):
        e = np.longdouble(parameter) - 1

        def weights(log_largest):  # log of the largest weight is the unknown
            c = np.exp(e * log_largest)
            w = np.maximum(-e * d / c, -1)
            return np.exp(log_largest + np.log1p(np.where(w > -1, w, 0)) / e) * (w > -1)

        p = weights(
            multiplier.bisect(
                lambda t: weights(t).sum(-1, keepdims=True) - 1, 0 * top - np.log(x.shape[-1]) - 1, 0 * top
            )
        )
        log = np.log(np.where(p > 0, p, 1))
        omega = (p * np.expm1(e * log)).sum(-1) / (e * (1 + e))
    else:
        p = multiplier.sqpnormmax(x, parameter)
        omega = ((p ** np.longdouble(parameter)).sum(-1) ** (2 / np.longdouble(parameter)) - 1) / 2
    return p, (top[..., 0] - (p * d).sum(-1)) - omega


def scores(n, scale, dtype, rows=24):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(rows, n, generator=generator, dtype=torch.float64) * scale
    x[0] = 0
    x[1] = x[1].round()  # ties
    return x.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", SMOOTH, ids=str)
@pytest.mark.slow
def test_native_matches_oracle(case, dtype, arch):
    unit = torch.finfo(dtype).eps
    steep = case.name.startswith("entmax") and case.parameters[0] > 2
    for n, scale in [(1, 1), (2, 1), (3, 0.1), (16, 1), (17, 10), (64, 1), (65, 0.1), (130, 1), (600, 0.1), (1024, 1)]:
        x = scores(n, scale, dtype)
        weights, value = case.solve(x)
        expected, expected_value = expected_of(case, n, scale, dtype)
        error = np.abs(weights.double().numpy() - expected).max()
        sensitive = case.name in ("sqpnormmax1.01", "normmax10.0")  # the second where a weight leaves zero
        bound = 1e-4 if steep else 40 * unit if sensitive else 8 * unit
        assert error < bound, (n, scale, error / unit)
        assert np.abs(value.double().numpy() - expected_value).max() < 16 * unit * (1 + np.abs(expected_value).max())
        assert (weights.double().sum(-1) - 1).abs().max() < 6 * unit
        tied = x[1][:, None] == x[1][None]
        assert (weights[1][:, None] == weights[1][None])[tied].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.thinned(5)
def test_reference_matches_native(case, dtype, arch):
    for n, scale in [(1, 1), (5, 1), (40, 0.1), (300, 1), (300, 10)]:
        x = scores(n, scale, dtype)
        x[2, : n - 1] = -INF
        x[3] = -INF
        x[4, 0] = NAN
        x[5, n // 2] = INF
        x[6] = x[6] + 1e4
        x[7] = 1e30
        x[8] = -1e30 + 0 * x[8]
        x[9, ::2] = -INF
        weights, value = case.solve(x)
        again, value_again = case.solve(x, native=False)
        tolerance = 3e-6 if dtype is torch.float32 else 1e-13
        if case.parameters == (10.0,):  # badly conditioned: dp = p^(2 - alpha) dx
            tolerance = 0.05
        torch.testing.assert_close(weights, again, rtol=0, atol=tolerance, equal_nan=True)
        torch.testing.assert_close(value, value_again, rtol=tolerance, atol=tolerance, equal_nan=True)
        assert (weights[3] == 0).all() or (n == 1 and weights[3] == 0)
        assert value[3] == -INF
        assert weights[4].isnan().all() and value[4].isnan() and weights[5].isnan().all() and value[5].isnan()
        assert (weights.isnan().all(-1) == weights.isnan().any(-1)).all() and weights.isnan().any(-1).sum() == 2
        assert ((weights == 0) == (again == 0))[6:].float().mean() > 0.995
        torch.testing.assert_close(weights[7], torch.full_like(weights[7], 1 / n))

        direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
        if "sqpnormmax1.01" not in case.name:
            product = case.multiply(weights, direction)
            product_again = case.multiply(weights, direction, native=False)
            scale_of = product_again.nan_to_num().abs().amax(-1, keepdim=True).clamp(min=1)
            tolerance = 1e-4 if dtype is torch.float32 else 1e-10
            torch.testing.assert_close(
                product / scale_of, product_again / scale_of, rtol=0, atol=tolerance, equal_nan=True
            )
            assert (product[3] == 0).all() and product[4].isnan().all()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_product_is_the_derivative(case, native, arch):
    x = scores(12, 0.7, torch.float64)[2:]
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights, _ = case.solve(x)
    step = 1e-6 if "1.01" not in case.name else 1e-7
    ahead, behind = case.solve(x + step * direction)[0], case.solve(x - step * direction)[0]
    smooth = ((ahead > 0) == (behind > 0)).all(-1)
    difference = (ahead - behind) / (2 * step)
    product = case.multiply(weights, direction, native)
    scale_of = difference.abs().amax(-1, keepdim=True).clamp(min=1)
    error = ((product - difference) / scale_of).abs().amax(-1)[smooth]
    assert smooth.sum() > 10 and error.max() < (1e-6 if case.parameters != (3.0,) else 1e-3)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_value_is_the_potential_of_the_weights(case, arch):
    x = scores(9, 1, torch.float64)[1:]
    if case.name.startswith("normmax") and case.parameters[0] > 2:
        x = x[1:]  # in a row of whole numbers some are where weights begin, and begin with an infinite slope
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    difference = (case.solve(x + 1e-5 * direction)[1] - case.solve(x - 1e-5 * direction)[1]) / 2e-5
    torch.testing.assert_close(difference, (case.solve(x)[0] * direction).sum(-1), rtol=1e-5, atol=1e-5)


def test_entmax_takes_one_order_per_row(arch):
    alpha = torch.tensor([1.0, 1.5, 2.0, 3.0, 1.2, 1 + 1e-6, 0.5, NAN])[:, None]
    x = scores(50, 1, torch.float64, rows=8)
    weights, value = entmax(x, alpha)
    reference, reference_value = entmax.reference(x, alpha)
    torch.testing.assert_close(weights, reference, rtol=0, atol=1e-12, equal_nan=True)
    torch.testing.assert_close(value, reference_value, rtol=0, atol=1e-12, equal_nan=True)
    direction = torch.randn_like(x)
    product = entmax_product(weights, alpha, direction)
    torch.testing.assert_close(
        product, entmax_product.reference(weights, alpha, direction), rtol=1e-8, atol=1e-8, equal_nan=True
    )
    for row in range(6):
        alone, _ = entmax(x[row], alpha[row].double().item())
        torch.testing.assert_close(weights[row], alone, rtol=0, atol=1e-14)
    assert weights[6:].isnan().all() and value[6:].isnan().all()


@pytest.mark.parametrize("case", [c for c in SMOOTH if "1.01" not in c.name], ids=str)
def test_product_is_differentiable(case):
    x = scores(6, 0.5, torch.float64, rows=4)[2:]
    weights = case.solve(x)[0].requires_grad_()
    direction = torch.randn_like(x).requires_grad_()
    out = case.multiply(weights, direction, native=False)
    gradients = torch.autograd.grad(out.square().sum(), (weights, direction))
    assert all(g.isfinite().all() for g in gradients)
    positive = torch.full_like(weights, 1 / 6).detach() + 0.02 * torch.rand_like(x)
    positive = (positive / positive.sum(-1, keepdim=True)).requires_grad_()
    assert torch.autograd.gradcheck(lambda w, v: case.multiply(w, v, native=False), (positive, direction))
    batched = torch.func.vmap(lambda w, v: case.multiply(w, v, native=False))(weights.detach(), direction.detach())
    torch.testing.assert_close(batched, out.detach())


def test_entmax_product_differentiates_in_alpha():
    weights = entmax(scores(6, 0.5, torch.float64, rows=4), 1.4)[0]
    direction = torch.randn_like(weights)
    alpha = torch.tensor([1.1, 1.5, 2.0, 2.5], dtype=torch.float64)[:, None].requires_grad_()
    assert torch.autograd.gradcheck(lambda a: entmax_product.reference(weights, a, direction), (alpha,))


@pytest.mark.parametrize("case", SMOOTH, ids=str)
@pytest.mark.parametrize("columns", [48, 300])
def test_threads_and_neighbours_do_not_matter(case, columns, arch):
    x = torch.randn(1000, columns, generator=torch.Generator().manual_seed(5)) * 2
    x[::7] *= 0.01  # rows that keep all their scores beside rows that keep a few
    together = case.solve(x)
    for a, b in zip(together, with_threads(1, lambda: case.solve(x))):
        assert torch.equal(a, b)
    for row in (333, 336):
        one, _ = case.solve(x[row : row + 1])
        assert torch.equal(one[0], together[0][row])
        product = case.multiply(together[0], x.flip(-1))
        assert torch.equal(case.multiply(one, x[row : row + 1].flip(-1))[0], product[row])


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("sparsemax", "entmax1.3", "entmax1.5")], ids=str)
def test_product_of_full_and_empty_stretches(case, arch):
    """Rows with weight everywhere, in the first stretch only, in the last entry, nowhere, and without an answer."""
    for n in (41, 128, 129, 512, 1030):
        x = torch.full((6, n), -INF)
        x[0] = 0.01 * torch.randn(n)
        x[1, : min(n - 1, 128)] = 0.01 * torch.randn(min(n - 1, 128))
        x[2, -1] = 1.0
        x[4, 0] = NAN
        x[5, ::40] = 0.0
        weights, _ = case.solve(x)
        direction = torch.randn(x.shape)
        direction[5, 1] = INF  # where there is no weight the direction is not looked at
        product = case.multiply(weights, direction)
        direction[5, 1] = 0.0
        expected = case.multiply(weights.double(), direction.double(), native=False).float()
        torch.testing.assert_close(product, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
        assert ((product == 0) | (weights != 0))[[0, 1, 2, 3, 5]].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("sparsemax", "entmax1.3", "entmax1.5")], ids=str)
@pytest.mark.thinned(6)
def test_every_short_length(case, dtype, arch):
    """Rows of one vector to five, whose last is full or not, with few candidates or many, beside some of no number."""
    for n in range(1, 81):
        x = torch.randn(19, n, dtype=dtype) * torch.logspace(-2, 1.5, 19, dtype=dtype)[:, None]
        x[3, n // 2], x[8, -1], x[17, 0], x[18] = NAN, INF, NAN, -INF
        x[5, ::2] = -INF
        weights, value = case.solve(x)
        expected, expected_value = case.solve(x.double(), native=False)
        tolerance = {"rtol": 0, "atol": 16 * torch.finfo(dtype).eps, "equal_nan": True, "check_dtype": False}
        torch.testing.assert_close(weights, expected, **tolerance)
        torch.testing.assert_close(value, expected_value, **{**tolerance, "rtol": 16 * torch.finfo(dtype).eps})
        direction = torch.randn(x.shape, dtype=dtype)
        product = case.multiply(weights, direction)
        expected = case.multiply(weights.double(), direction.double(), native=False)
        torch.testing.assert_close(product, expected, **{**tolerance, "atol": 64 * torch.finfo(dtype).eps})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes(case):
    for shape in [(0, 4), (3, 0), (2, 3, 5), (5,), (2, 0, 4)]:
        x = torch.randn(shape)
        weights, value = case.solve(x)
        assert weights.shape == x.shape and value.shape == x.shape[:-1]
        assert case.multiply(weights, x).shape == x.shape
    x = torch.randn(6, 7)
    torch.testing.assert_close(case.solve(x.t())[0], case.solve(x.t().contiguous())[0])


def test_unsupported_instruction_sets_are_refused():
    if routing.native is None:
        pytest.skip("no native kernels")
    assert routing.native.arch() in routing.native.supported_archs()
    with pytest.raises(ValueError, match="expected one of"):
        routing.native.use_arch("v9")
