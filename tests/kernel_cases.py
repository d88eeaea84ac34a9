"""What the tests of the kernels share, and the table of those whose weights follow from one threshold."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from cases import normal

from omegamax.kernels.entmax import entmax, entmax_product
from omegamax.kernels.normmax import normmax, normmax_product
from omegamax.kernels.softmax import softmax, softmax_product
from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.kernels.sqpnormmax import sqpnormmax, sqpnormmax_product

INF, NAN = torch.inf, torch.nan
DTYPES = [torch.float32, torch.float64]


@dataclass(frozen=True)
class ThresholdKernel:
    solver: Callable
    product: Callable
    orders: tuple[float, ...] = ()  # of its one parameter, where it has one
    few: tuple[float, ...] = ()  # where a test is slow

    @property
    def name(self):
        return self.solver.__name__


THRESHOLD_KERNELS = [
    ThresholdKernel(softmax, softmax_product),
    ThresholdKernel(sparsemax, sparsemax_product),
    ThresholdKernel(
        entmax, entmax_product, (1.0, 1 + 1e-6, 1.05, 1.3, 1.5, 1.9, 2.0, 2.5, 3.0, 10.0),
        few=(1 + 1e-9, 1.3, 1.5, 1.9, 2.0, 3.0),
    ),
    ThresholdKernel(sqpnormmax, sqpnormmax_product, (1.01, 1.2, 1.5, 1.8, 2.0), few=(1.2, 1.5, 2.0)),
    ThresholdKernel(normmax, normmax_product, (1.01, 1.3, 2.0, 3.0, 10.0), few=(1.01, 2.0, 7.0)),
]  # fmt: skip


def tolerance(dtype):
    return {"atol": 2e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-13, "rtol": 1e-11}


def times(jacobian, direction):
    return (jacobian @ direction[..., None]).squeeze(-1)


def dense_jacobian(solve, x, h=1e-6):
    columns = []
    for i in range(x.shape[-1]):
        e = torch.zeros_like(x)
        e[..., i] = h
        columns.append((solve(x + e) - solve(x - e)) / (2 * h))
    return torch.stack(columns, -1)


def same_labels(a, b):
    """Whether two labellings form the same clusters; negative labels are outside of all."""
    pairs_of = lambda labels: labels[..., :, None] == labels[..., None, :]  # noqa: E731
    return torch.equal(pairs_of(a), pairs_of(b)) and torch.equal(a < 0, b < 0)


def check_differentiable(product, w, v):
    """A product has derivatives in both arguments, finite where weights vanish, and can be batched."""
    w_, v_ = w.clone().requires_grad_(), v.clone().requires_grad_()
    for gradient in torch.autograd.grad(product(w_, v_).square().sum(), (w_, v_), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()
    inside = w != 0
    assert torch.autograd.gradcheck(
        lambda a, b: product(torch.where(inside, a, w), b), (w_, v_), eps=1e-7, atol=1e-5, check_undefined_grad=False
    )
    many = torch.stack([v, 2 * v, v.flip(-1)])
    torch.testing.assert_close(
        torch.func.vmap(lambda b: product(w, b))(many), torch.stack([product(w, b) for b in many])
    )
    _, tangent = torch.func.jvp(lambda a: product(a, v), (w,), (inside * normal(3, 6, seed=3),))
    assert tangent.isfinite().all()
