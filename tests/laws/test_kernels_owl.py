"""prox_owl: native == reference; the conditions of optimality; the product == finite differences."""

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, check_differentiable, dense_jacobian, same_labels, times, tolerance

from omegamax.kernels.owl import owl_product, prox_owl


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 40, 700, 3000])
def test_native_is_reference(twin, dtype, n):
    x = torch.cat([normal(4, n), (normal(2, n) * 2).round(), 0 * normal(1, n)]).to(dtype)
    for w in (
        torch.arange(n).flip(0) * (2 / n),
        torch.full((n,), 0.1),
        torch.zeros(n),
        normal(7, n).abs().sort(descending=True).values,
    ):
        y, labels = twin(prox_owl, x, w.to(dtype))
        expected, expected_labels = prox_owl.reference(x, w.to(dtype))
        torch.testing.assert_close(y, expected)
        assert same_labels(labels[:, :500], expected_labels[:, :500])
        assert torch.equal(labels < 0, y == 0)
        v = normal(*x.shape, seed=4, dtype=dtype)
        torch.testing.assert_close(
            twin(owl_product, y, labels, v), owl_product.reference(y, labels, v), **tolerance(dtype)
        )


def test_solves_its_problem(twin):
    x = normal(10, 5)
    w = torch.tensor([0.9, 0.6, 0.6, 0.2, 0.0], dtype=torch.float64)
    y, labels = twin(prox_owl, x, w)
    generator = np.random.default_rng(0)

    def cost(y, x):
        return 0.5 * ((y - x) ** 2).sum() + np.sort(np.abs(y))[::-1] @ w.numpy()

    for row, solution in zip(x.numpy(), y.numpy()):
        # strong convexity turns a small gap against all directions into closeness; sample around the solution
        for scale in (1e-4, 1e-2, 1.0):
            for step in generator.normal(size=(100, 5)) * scale:
                assert cost(solution, row) <= cost(solution + step, row) + 1e-14
        # subgradient condition: x - y lies in the dual ball, and <x - y, y> attains the norm
        dual = np.sort(np.abs(row - solution))[::-1].cumsum()
        assert (dual <= w.numpy().cumsum() + 1e-12).all()
        np.testing.assert_allclose((row - solution) @ solution, np.sort(np.abs(solution))[::-1] @ w.numpy(), atol=1e-12)
    v = normal(10, 5, seed=5)
    jacobian = dense_jacobian(lambda z: twin(prox_owl, z, w)[0], x)
    torch.testing.assert_close(times(jacobian, v), twin(owl_product, y, labels, v), atol=1e-8, rtol=0)


def test_product_can_be_differentiated_and_batched():
    y, labels = prox_owl(normal(3, 6), torch.tensor([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.float64))
    check_differentiable(lambda w, v: owl_product.reference(w, labels, v), y, normal(3, 6, seed=2))
