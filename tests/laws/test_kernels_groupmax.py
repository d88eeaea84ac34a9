"""groupmax on every layout of its groups: native == reference in double precision, whatever the threads."""

import pytest
import torch

from omegamax import routing
from omegamax.kernels.groupmax import groupmax, groupmax_product

ARCHS = routing.native.supported_archs() if routing.native is not None else []
LAYOUTS = {
    "runs of 8": lambda n: torch.arange(n) // 8,
    "one group": lambda n: torch.zeros(n, dtype=torch.int64),
    "own groups": torch.arange,
    "strided": lambda n: torch.arange(n) % max(1, n // 7),
    "few large, many small": lambda n: (torch.linspace(0, 1, n, dtype=torch.float64) ** 4 * (n // 3)).long().flip(0),
}


@pytest.fixture(params=ARCHS)
def arch(request):
    routing.native.use_arch(request.param)
    yield request.param
    routing.native.use_arch("auto")


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
