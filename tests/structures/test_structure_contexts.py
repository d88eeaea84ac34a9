"""Structures in the places where PyTorch calls them."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import omegamax as om


@pytest.fixture
def potentials():
    return torch.randn(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)


def loss(potentials):
    chain = om.Chain()
    return (2 * chain.max(2 * potentials, om.SquaredNorm())).sum() + chain.argmax(potentials).square().sum()


def test_torch_func(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    torch.testing.assert_close(torch.func.grad(loss)(potentials.detach()), expected)
    direction = torch.randn_like(expected)
    _, along = torch.func.jvp(loss, (potentials.detach(),), (direction,))
    torch.testing.assert_close(along, (expected * direction).sum())
    jacobian = torch.func.jacrev(om.Chain().max, chunk_size=1)(potentials.detach()[0])
    torch.testing.assert_close(jacobian, om.Chain().argmax(potentials.detach()[0]))


def test_forward_mode_twice(potentials):
    """The value has a second derivative in forward mode too; the marginals refuse theirs."""
    chain, x, v = om.Chain(), potentials.detach(), torch.randn_like(potentials)

    def along(function):
        return lambda x: torch.func.jvp(function, (x,), (v,))[1]

    def value(x):
        return chain.max(x, om.SquaredNorm()).sum()

    expected = (torch.autograd.functional.vhp(value, x, v)[1] * v).sum()
    torch.testing.assert_close(along(along(value))(x), expected)
    for outer in (along, torch.func.grad):
        with pytest.raises(RuntimeError, match="differentiate once"):
            outer(along(lambda x: chain.argmax(x).square().sum()))(x)


def test_a_solver_refuses_fake_tensors():
    """It reads memory, of which they have none."""
    real = torch.randn(2, 4, 4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        for scores in (real, torch.empty(2, 4, 4)):
            with pytest.raises(RuntimeError, match="SparseMAP: scores must hold numbers"):
                om.Matching().sparsemap(scores)


def test_checkpointing(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    (found,) = torch.autograd.grad(checkpoint(loss, potentials, use_reentrant=False), potentials)
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiling_breaks_the_graph_and_stays_right(potentials):
    (expected,) = torch.autograd.grad(loss(potentials), potentials)
    torch.compiler.reset()
    (found,) = torch.autograd.grad(torch.compile(loss, backend="eager")(potentials), potentials)
    torch.testing.assert_close(found, expected)


def test_the_product_of_the_contract(potentials):
    smooth = om.Smoothed(om.Chain(), om.SquaredNorm())
    scores = potentials.detach()
    weights, value, certificate = smooth.solve(scores)
    torch.testing.assert_close(weights, om.Chain().argmax(scores, om.SquaredNorm()))
    torch.testing.assert_close(value, om.Chain().max(scores, om.SquaredNorm()))
    direction, step = torch.randn_like(scores), 1e-6
    product = smooth.hessian_product(certificate, direction)
    ahead, behind = (smooth.argmax(scores + sign * step * direction) for sign in (1, -1))
    torch.testing.assert_close(product, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)
    assert smooth.event_ndim == 3


def test_half_precision_gradients_flow(potentials):
    half = potentials.detach().bfloat16().requires_grad_()
    om.Chain().max(half).sum().backward()
    assert half.grad.dtype == torch.bfloat16 and torch.isfinite(half.grad).all()


@pytest.mark.parametrize("structure", [om.Chain(), om.Arborescence()], ids=str)
def test_lengths_may_be_overwritten_before_the_backward_pass(structure, potentials):
    """A loader may keep them in one buffer."""
    scores = potentials if isinstance(structure, om.Chain) else potentials.flatten(1)[:, :25].unflatten(1, (5, 5))
    lengths = torch.tensor([2, 4])
    (expected,) = torch.autograd.grad(structure.max(scores, lengths=lengths).sum(), potentials, retain_graph=True)
    value = structure.max(scores, lengths=lengths).sum()
    lengths.fill_(4)
    (found,) = torch.autograd.grad(value, potentials)
    assert torch.equal(found, expected)
