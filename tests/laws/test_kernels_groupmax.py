"""groupmax: native == reference on every layout of the groups == a slow oracle; products == finite differences."""

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import INF, NAN, check_differentiable, dense_jacobian, times
from oracles import multiplier

from omegamax.kernels.groupmax import groupmax, groupmax_product
from omegamax.kernels.sparsemax import sparsemax

LAYOUTS = {
    "runs of 8": lambda n: torch.arange(n) // 8,
    "one group": lambda n: torch.zeros(n, dtype=torch.int64),
    "own groups": torch.arange,
    "strided": lambda n: torch.arange(n) % max(1, n // 7),
    "few large, many small": lambda n: (torch.linspace(0, 1, n, dtype=torch.float64) ** 4 * (n // 3)).long().flip(0),
}


def assorted(n, dtype):
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(23, n, generator=generator, dtype=torch.float64)
    x[16:18] *= 0.1
    x[18:20] *= 10
    x[20] = 0
    x[21] += 1e4
    x[22, ::2] = -torch.inf
    return x.to(dtype), torch.randn(23, n, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [2, 64, 129, 700])
@pytest.mark.thinned(4)
def test_native_is_reference(arch, n, layout, dtype):
    eps = torch.finfo(dtype).eps
    groups = LAYOUTS[layout](n)
    x, v = assorted(n, dtype)
    for strength in (0.0, 0.1, 20.0, torch.linspace(0, 2, 23, dtype=dtype)[:, None]):
        weights, value = groupmax.native(x, groups, strength)
        wide = strength.double() if isinstance(strength, torch.Tensor) else strength
        expected, expected_value = groupmax.reference(x.double(), groups, wide)
        loss = 1 + 2 * torch.as_tensor(strength).max().item()  # ||p_g|| = r - strength: digits that both sides lose
        torch.testing.assert_close(weights.double(), expected, atol=4 * eps * loss, rtol=64 * eps)
        torch.testing.assert_close(value.double(), expected_value, atol=64 * eps * loss, rtol=8 * eps)
        assert (weights.double().sum(-1) - 1).abs().max() < 256 * eps
        product = groupmax_product.native(weights, groups, strength, v)
        expected = groupmax_product.reference(weights.double(), groups, wide, v.double())
        torch.testing.assert_close(product.double(), expected, atol=32 * eps, rtol=32 * eps)
        assert (product[weights == 0] == 0).all()


@pytest.mark.parametrize("n", [64, 700])
def test_rows_do_not_influence_each_other(arch, n):
    groups = LAYOUTS["strided"](n)
    x, _ = assorted(n, torch.float32)
    x[3, 1], x[5, 0], x[7] = torch.nan, torch.inf, -torch.inf
    weights, value = groupmax.native(x, groups, 0.1)
    assert weights[[3, 5]].isnan().all() and value[[3, 5]].isnan().all()
    assert (weights[7] == 0).all() and value[7] == -torch.inf
    for i in (0, 4, 6, 17, 19, 22):
        alone, alone_value = groupmax.native(x[i : i + 1], groups, 0.1)
        assert torch.equal(alone[0], weights[i]) and torch.equal(alone_value[0], value[i])


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.6, 5.0])
def test_the_problem_is_solved(twin, strength):
    groups = torch.tensor([0, 0, 1, 2, 1, 2])

    def omega(p):
        return 0.5 * (p @ p - 1) + strength * sum(np.linalg.norm(p[groups == g]) for g in range(3))

    for scale in (0.2, 1.0, 5.0):
        x = normal(5, 6, scale=scale)
        weights, value = twin(groupmax, x, groups, strength)
        assert (weights.sum(-1) - 1).abs().max() < 8e-15
        np.testing.assert_allclose(weights.numpy(), multiplier.groupmax(x.numpy(), groups, strength), atol=1e-14)
        for row, p, v in zip(x.numpy(), weights.numpy(), value.numpy()):
            np.testing.assert_allclose(v, p @ row - omega(p), atol=1e-12)


def test_edges(twin):
    groups = torch.tensor([0, 1, 0])
    x = torch.tensor(
        [[NAN, 1.0, 2.0], [1.0, INF, 2.0], [-INF] * 3, [1.0, -INF, 1e30], [1e4, 1e4, -INF], [2.0, 1.0, 1.5]]
    )
    weights, value = twin(groupmax, x, groups, 0.3)
    assert weights[:2].isnan().all() and value[:2].isnan().all()
    assert (weights[2] == 0).all() and value[2] == -INF
    assert weights[3].tolist() == [0, 0, 1] and weights[4].tolist() == [0.5, 0.5, 0]
    small, small_value = twin(groupmax, x[4:5, :2], groups[:2], 0.3)
    assert torch.equal(weights[4:5, :2], small) and torch.equal(value[4:5], small_value)
    out = twin(groupmax_product, weights, groups, 0.3, torch.ones_like(x))
    assert out[:2].isnan().all() and (out[2] == 0).all() and out[3:].abs().max() < 1e-6
    assert twin(groupmax, x[5:], groups, torch.tensor([[-1.0]]))[0].isnan().all()
    y, _ = twin(groupmax, normal(3, 6), torch.arange(6), 0.0)
    torch.testing.assert_close(y, sparsemax.reference(normal(3, 6))[0])


def test_product(twin):
    groups = torch.tensor([0, 0, 1, 2, 1, 2, 0])
    x, v = normal(10, 7), normal(10, 7, seed=2)
    for strength in (0.0, 0.2, torch.linspace(0.1, 1, 10, dtype=x.dtype)[:, None]):
        weights, _ = twin(groupmax, x, groups, strength)
        jacobian = dense_jacobian(lambda z, s=strength: twin(groupmax, z, groups, s)[0], x)
        torch.testing.assert_close(
            times(jacobian, v), twin(groupmax_product, weights, groups, strength, v), atol=1e-7, rtol=0
        )


def test_product_learns_its_strength():
    groups, v = torch.tensor([0, 1, 0, 2, 1, 1]), normal(2, 6, seed=1)
    w, _ = groupmax(normal(2, 6), groups, 0.3)
    strength = torch.tensor(0.3, dtype=w.dtype, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: groupmax_product(w, groups, s, v), (strength,))


def test_product_can_be_differentiated_and_batched():
    x, v = normal(3, 6), normal(3, 6, seed=2)
    x[:, 5] = -INF
    x[2] = -INF
    x[0, 1] = x[0, 2]
    groups, strength = torch.tensor([0, 1, 0, 2, 1, 1]), torch.tensor(0.3, dtype=torch.float64)
    product = lambda w, v: groupmax_product.reference(w, groups, strength, v)  # noqa: E731
    check_differentiable(product, groupmax(x, groups, 0.3)[0], v)
