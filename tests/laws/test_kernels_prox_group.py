"""prox_group: the conditions of optimality; the product == finite differences."""

import torch
from cases import normal
from kernel_cases import NAN, check_differentiable, dense_jacobian, times

from omegamax.kernels.prox_group import prox_group, prox_group_product


def test_prox_group():
    groups = torch.tensor([0, 1, 0, 2, 1, 1])
    x, v = normal(10, 6), normal(10, 6, seed=2)
    for strength in (0.0, 0.8, torch.linspace(0.1, 2, 10, dtype=x.dtype)[:, None]):
        y = prox_group(x, groups, strength)
        jacobian = dense_jacobian(lambda z, s=strength: prox_group(z, groups, s), x)
        torch.testing.assert_close(times(jacobian, v), prox_group_product(x, groups, strength, v), atol=1e-8, rtol=0)
        for row, solution, s in zip(x, y, torch.as_tensor(strength, dtype=x.dtype).expand(10, 1)):
            for g in range(3):
                a, b = row[groups == g], solution[groups == g]
                # optimality: x - y is strength times the direction of y, or inside the ball where y = 0
                if b.norm() > 0:
                    torch.testing.assert_close(a - b, s * b / b.norm())
                else:
                    assert a.norm() <= s + 1e-12
    assert prox_group(torch.tensor([[NAN, 1.0], [1.0, 1.0]]), torch.tensor([0, 1]), 0.1)[0].isnan().all()
    assert prox_group(torch.tensor([[3e30, 4e30]]), torch.tensor([0, 0]), 1.0).isfinite().all()


def test_product_can_be_differentiated_and_batched():
    groups, strength = torch.tensor([0, 1, 0, 2, 1, 1]), torch.tensor(0.3, dtype=torch.float64)
    product = lambda x, v: prox_group_product.reference(x, groups, strength, v)  # noqa: E731
    check_differentiable(product, normal(3, 6), normal(3, 6, seed=2))
