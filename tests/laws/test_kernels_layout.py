"""What a kernel returns does not depend on how its inputs lie in memory, nor its route on the type of a parameter."""

import pytest
import torch
from cases import normal
from kernel_cases import THRESHOLD_KERNELS

import omegamax as om
from omegamax import routing
from omegamax.kernels.entmax import entmax_product
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.groupmax import groupmax
from omegamax.kernels.kernel import KERNELS
from omegamax.kernels.oscarmax import oscarmax
from omegamax.kernels.softmax import softmax
from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.kernels.tv1d import prox_tv1d

GROUPS = torch.arange(37) // 5
SOLVERS = {
    "softmax": (softmax,),
    "sparsemax": (sparsemax,),
    **{f"{each.name} {order:.10g}": (each.solver, order) for each in THRESHOLD_KERNELS for order in each.few},
    "fusedmax": (fusedmax, 0.1),
    "oscarmax": (oscarmax, 0.01),
    "groupmax": (groupmax, GROUPS, 0.1),
    "prox_tv1d": (prox_tv1d, 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel, parameters", [(k, p) for k, *p in SOLVERS.values()], ids=SOLVERS)
def test_transposed_and_expanded_rows_give_the_same_bits(kernel, parameters, dtype):
    rows = normal(29, 37, dtype=dtype)
    for strided in (rows.mT.contiguous().mT, rows.repeat_interleave(2, -1)[:, ::2]):
        for actual, expected in zip(kernel.reference(strided, *parameters), kernel.reference(rows, *parameters)):
            assert torch.equal(actual, expected)
    several = kernel.reference(rows[:1].expand(29, 37), *parameters)
    for actual, expected in zip(several, kernel.reference(rows[:1].repeat(29, 1), *parameters)):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel, parameters", [(k, p) for k, *p in SOLVERS.values()], ids=SOLVERS)
def test_a_row_does_not_depend_on_its_neighbours(kernel, parameters, dtype):
    """Not to the last bit, although rows with few scores to consider run beside rows with many."""
    rows = torch.cat([normal(4, 37), normal(4, 37, scale=0.1), normal(4, 37, scale=30), torch.zeros(1, 37)]).to(dtype)
    together = kernel.reference(rows, *parameters)
    for i, row in enumerate(rows):
        for actual, expected in zip(kernel.reference(row[None], *parameters), together):
            assert torch.equal(actual[0], expected[i])


@pytest.mark.parametrize("product, parameters", [(sparsemax_product, ()), (entmax_product, (1.3,))], ids=["2", "1.3"])
def test_transposed_directions_give_the_same_bits(product, parameters):
    weights, direction = om.sparsemax(normal(29, 37)), normal(29, 37, seed=1)
    expected = product.reference(weights, *parameters, direction)
    strided = [t.mT.contiguous().mT for t in (weights, direction)]
    assert torch.equal(product.reference(strided[0], *parameters, strided[1]), expected)


LEARNABLE = {
    "entmax": lambda parameter: om.Tsallis(1.125 + parameter),
    "fusedmax": om.Fused,
    "oscarmax": lambda parameter: om.Oscar(parameter / 16),
    "groupmax": lambda parameter: om.GroupLasso(GROUPS.tolist(), parameter),
}


@pytest.mark.skipif(routing.native is None, reason="the extension is not built")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("leaf", LEARNABLE.values(), ids=LEARNABLE)
def test_a_half_parameter_takes_the_native_route(leaf, half, dtype, monkeypatch):
    for parameter in (torch.full((5, 1), 0.25), torch.tensor(0.25)):
        scores, parameter = normal(5, 37, dtype=dtype).requires_grad_(), parameter.to(half).requires_grad_()
        wide = parameter.detach().double().requires_grad_()
        expected = _gradients(leaf(wide), scores, wide)
        with monkeypatch.context() as patch:
            for kernel in KERNELS.values():
                patch.setattr(kernel, "reference", None)  # which would be slow
            actual = _gradients(leaf(parameter), scores, parameter)
        assert torch.equal(actual[0], expected[0]) and actual[2].dtype == half
        torch.testing.assert_close(actual[1], expected[1])
        torch.testing.assert_close(actual[2].double(), expected[2], atol=2e-2, rtol=2e-2)


def _gradients(leaf, scores, parameter):
    weights = leaf.argmax(scores)
    direction = torch.linspace(-1, 1, 37, dtype=weights.dtype)
    (value,) = torch.autograd.grad(leaf.max(scores).sum(), parameter, retain_graph=True)
    along = torch.autograd.grad((weights * direction).sum(), (scores, parameter))
    return weights.detach(), along[0], along[1] + value
