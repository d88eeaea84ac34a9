"""fusedmax and oscarmax: native == reference == the best of all weak orderings; products == finite differences."""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from cases import fused, normal, oscar
from kernel_cases import DTYPES, INF, NAN, check_differentiable, dense_jacobian, same_labels, times, tolerance
from oracles.simplex_qp import by_orderings
from threads import with_threads

from omegamax.kernels.fusedmax import fusedmax, fusedmax_product
from omegamax.kernels.oscarmax import oscarmax, oscarmax_product
from omegamax.kernels.sparsemax import sparsemax, sparsemax_product


class Clustered(NamedTuple):
    kernel: Callable
    product: Callable
    omega: Callable  # strength -> Ω in numpy
    same: Callable  # whether two groupings are the same


CLUSTERED = {
    "fusedmax": Clustered(fusedmax, fusedmax_product, fused, torch.equal),
    "oscarmax": Clustered(oscarmax, oscarmax_product, oscar, same_labels),
}


@pytest.fixture(params=CLUSTERED)
def clustered(request):
    return CLUSTERED[request.param]


@functools.cache
def best_ordering(clustered, x, strength):
    return by_orderings(x, lambda p: clustered.omega(strength)(p, None) - 0.5 * (p @ p - 1))


@pytest.mark.parametrize("strength", [0.0, 0.02, 0.1, 0.7])
@pytest.mark.slow
def test_the_problem_is_solved(twin, clustered, strength):
    omega = clustered.omega(strength)
    for n, scale in itertools.product([2, 3, 5], [0.1, 1.0]):
        x = normal(3, n, seed=n, scale=scale)
        weights, value, _ = twin(clustered.kernel, x, strength)
        for row, p, v in zip(x.numpy(), weights.numpy(), value.numpy()):
            np.testing.assert_allclose(v, p @ row - omega(p, None), atol=1e-13)
            np.testing.assert_allclose(p, best_ordering(clustered, tuple(row), strength), atol=1e-12)


def assorted(n, dtype):
    rows = [normal(6, n), 10 * normal(3, n, seed=1), 0.1 * normal(3, n, seed=2), 1e-3 * normal(2, n, seed=3)]
    rows += [
        torch.zeros(1, n),
        torch.arange(n)[None] * 0.03,
        -torch.arange(n)[None] * 0.5,
        (normal(3, n, seed=4) * 2).round() / 2,
    ]
    rows = torch.cat(rows).to(torch.float64)
    hidden = torch.where(normal(*rows.shape, seed=5) > 0.3, -INF, rows)
    tail = torch.where(torch.arange(n) >= max(1, n // 2), -INF, rows)
    special = torch.cat([torch.full((1, n), -INF), rows[:1] + 1e4, rows[:1] * 1e30, rows[:1].round() + 1e6])
    return torch.cat([rows, hidden, tail, special]).to(dtype)


@pytest.mark.parametrize("n", [1, 5, 80, 300])
def test_results_that_are_not_wanted_change_nothing(arch, n):
    rows = assorted(n, torch.float32)
    for strength in (0.0, 0.5 / n, torch.linspace(0, 1, len(rows))[:, None]):
        weights, value, _ = oscarmax.native(rows, strength)
        for one, other in zip(oscarmax.weights_and_value(rows, strength), (weights, value)):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(oscarmax.weights(rows, strength), weights, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 16, 80])
@pytest.mark.thinned(3)
def test_native_is_reference(twin, clustered, dtype, n):
    kernel, product, _, same = clustered
    rows = assorted(n, dtype)
    v = normal(*rows.shape, seed=9, dtype=dtype)
    for strength in (0.0, 0.5 / n, 0.1, 3.0, torch.linspace(0, 1, len(rows), dtype=dtype)[:, None]):
        weights, value, groups = twin(kernel, rows, strength)
        expected = kernel.reference(rows, strength)
        torch.testing.assert_close(weights, expected[0], **tolerance(dtype))
        torch.testing.assert_close(value, expected[1], rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-12)
        if dtype == torch.float64:  # on normal scores: the others are full of exact ties between "joined" and "not"
            assert same(groups[:14], expected[2][:14])
            assert same(groups[14:15], expected[2][14:15])
        alive = rows.amax(-1) > -INF
        total = weights.double().sum(-1)
        exact = 64 * torch.finfo(dtype).eps if twin.__name__ == "native" else 1e-12
        assert (total - alive.double()).abs().max() <= max(exact, 2e-6 * (dtype == torch.float32))
        out = twin(product, weights, groups, v)
        torch.testing.assert_close(out, product.reference(weights, groups, v), **tolerance(dtype))
        assert (out[weights == 0] == 0).all()


def test_bad_rows(twin, clustered):
    kernel, product, _, _ = clustered
    rows = torch.tensor([[NAN, 1.0, 2.0], [1.0, INF, 2.0], [-INF, -INF, -INF], [1.0, 2.0, -INF], [NAN, INF, -INF]])
    weights, value, groups = twin(kernel, rows, 0.1)
    assert weights[[0, 1, 4]].isnan().all() and value[[0, 1, 4]].isnan().all()
    assert (weights[2] == 0).all() and value[2] == -INF
    assert weights[3, 2] == 0 and abs(weights[3].sum() - 1) < 1e-6
    out = twin(product, weights, groups, torch.ones(5, 3))
    assert out[[0, 1, 4]].isnan().all() and (out[2] == 0).all() and out[3].abs().max() < 1e-6
    weights, value, _ = twin(kernel, rows[3:4].expand(3, 3), torch.tensor([[-0.1], [NAN], [0.1]]))
    assert weights[:2].isnan().all() and value[:2].isnan().all() and not weights[2].isnan().any()
    weights, value, groups = twin(kernel, torch.empty(2, 0), 0.1)
    assert weights.shape == groups.shape == (2, 0) and (value == -INF).all()


def test_removing_is_masking(twin, clustered):
    kernel, _, _, same = clustered
    x = normal(20, 12, seed=3)
    x[:, [0, 3, 4, 9]] = -INF
    keep = [1, 2, 5, 6, 7, 8, 10, 11]
    weights, value, groups = twin(kernel, x, 0.15)
    small = twin(kernel, x[:, keep].contiguous(), 0.15)
    assert torch.equal(weights[:, keep], small[0]) and torch.equal(value, small[1]) and same(groups[:, keep], small[2])


def test_strength_zero_is_sparsemax(twin, clustered):
    kernel, product, _, _ = clustered
    x = torch.cat([normal(10, 8), torch.tensor([[1.0, 1, 0, -9, -9, -9, -9, -9]])])
    v = normal(11, 8, seed=1)
    weights, value, groups = twin(kernel, x, 0.0)
    expected, expected_value = sparsemax.reference(x)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(value, expected_value)
    torch.testing.assert_close(twin(product, weights, groups, v), sparsemax_product.reference(weights, v))


@pytest.mark.parametrize("strength", [0.05, 0.3])
def test_products(twin, clustered, strength):
    kernel, product, _, _ = clustered
    x, v = normal(12, 7, seed=6), normal(12, 7, seed=7)
    weights, _, groups = twin(kernel, x, strength)
    jacobian = dense_jacobian(lambda z: twin(kernel, z, strength)[0], x)
    torch.testing.assert_close(times(jacobian, v), twin(product, weights, groups, v), atol=1e-8, rtol=0)


def test_ties_are_equal_to_the_bit(twin):
    x = (normal(50, 40, seed=8) * 3).round().float() / 8
    weights, _, labels = twin(oscarmax, x, 0.01)
    tied = (x[:, :, None] == x[:, None, :]) & (weights[:, :, None] > 0)
    assert (weights[:, :, None] == weights[:, None, :])[tied].all()
    assert (labels[:, :, None] == labels[:, None, :])[tied].all()
    weights, _, joined = twin(fusedmax, x, 0.1)
    support = weights > 0
    for p, j, s in zip(weights, joined, support):
        p, j = p[s], j[s]
        assert torch.equal(p[1:][j[1:]], p[:-1][j[1:]])
    assert not joined[~support].any()


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize("n", [3, 40])
def test_rows_without_a_solution_have_the_same_labels(n):
    rows = normal(6, n)
    rows[0], rows[1, 0], rows[2, 0], rows[3, 1:] = -INF, NAN, INF, -INF
    rows[1:3, 1] = -INF
    strength = torch.full((6, 1), 0.1, dtype=rows.dtype)
    strength[4] = NAN
    labels = oscarmax.reference(rows, strength)[2]
    assert torch.equal(oscarmax.native(rows, strength)[2], labels)
    assert (labels[[0, 1, 2, 4]] == -1).all() and labels[3].tolist() == [0] + [-2] * (n - 1)


def test_large_rows(arch, clustered):
    kernel, product, _, _ = clustered
    x = normal(4, 5000, dtype=torch.float32)
    x = torch.cat([x, 10 * x[:2], 0.01 * x[:2], 0 * x[:1]])
    strength, compared = (0.1, 700) if kernel is fusedmax else (1 / 5000, 5000)  # the reference of fusedmax is slow
    weights, value, groups = kernel.native(x, strength)
    exact, exact_value, _ = kernel.native(x.double(), strength)
    torch.testing.assert_close(weights.double(), exact, atol=1e-8, rtol=1e-5)
    torch.testing.assert_close(value.double(), exact_value, atol=1e-6, rtol=1e-6)
    assert (weights.double().sum(-1) - 1).abs().max() < 1e-6 and (exact.sum(-1) - 1).abs().max() < 1e-14
    some = x[[0, 4, 8], :compared]
    torch.testing.assert_close(kernel.native(some, strength)[0], kernel.reference(some, strength)[0])
    v = normal(*x.shape, seed=1, dtype=torch.float32)
    torch.testing.assert_close(
        product.native(weights, groups, v), product.reference(weights, groups, v), atol=1e-5, rtol=1e-4
    )
    assert torch.equal(with_threads(1, lambda: kernel.native(x, strength)[0]), weights)


def test_products_can_be_differentiated_and_batched(clustered):
    x, v = normal(3, 6), normal(3, 6, seed=2)
    x[:, 5] = -INF
    x[2] = -INF
    x[0, 1] = x[0, 2]
    weights, _, groups = clustered.kernel(x, 0.1)
    check_differentiable(lambda w, v: clustered.product.reference(w, groups, v), weights, v)


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize("strength", [None, 0.003, 0.01])
@pytest.mark.parametrize("scale", [0.15, 0.2, 0.3, 0.4, 0.6, 1.0, 1.5])
def test_long_rows_between_flat_and_peaked(scale, strength):
    """Candidates are bounded and a block in the middle is found without sorting; the reference sorts everything."""
    for dtype, atol in ((torch.float64, 1e-14), (torch.float32, 1e-7)):
        rows = normal(30, 512, scale=scale).to(dtype)
        rows[10:20] = (rows[10:20] * 16).round() / 16  # ties
        rows[20:25, ::3] = -torch.inf
        rows[25:] = rows[25:].exp()  # not symmetric
        weights, value, labels = oscarmax.native(rows, strength)
        expected, best, clusters = oscarmax.reference(rows, strength)
        torch.testing.assert_close(weights, expected, atol=atol, rtol=0)
        torch.testing.assert_close(value, best, atol=10 * atol * (1 + float(best.abs().max())), rtol=0)
        assert torch.equal(weights > 0, expected > 0) or dtype is torch.float32
        if dtype is torch.float64:
            assert torch.equal(labels, clusters)
        torch.testing.assert_close(oscarmax.native(rows[7:8], strength)[0], weights[7:8], atol=0, rtol=0)
