"""`compat.torchsparseattn`: the cases of the package's own tests, against quadratic programs."""

import itertools

import pytest
import torch
from oracles import simplex_qp
from torch import nn

import omegamax as om
from omegamax.compat import torchsparseattn as ours

LAYERS = [ours.Sparsemax(), ours.Fusedmax(0.1), ours.Oscarmax(0.05)]


def penalty(layer):
    if isinstance(layer, ours.Fusedmax):
        return lambda p: 0.1 * sum(abs(b - a) for a, b in itertools.pairwise(p))
    if isinstance(layer, ours.Oscarmax):
        return lambda p: 0.05 * sum(max(a, b) for i, a in enumerate(p) for b in p[i + 1 :])
    return lambda p: 0.0 * p[0]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_rows_with_lengths_solve_their_problems(layer):
    rows = torch.randn(3, 5, dtype=torch.double, generator=torch.Generator().manual_seed(4))
    lengths = torch.tensor([5, 3, 1])
    found = layer(rows, lengths)
    for row, weights, n in zip(rows, found, lengths.tolist()):
        expected = simplex_qp.by_orderings(row[:n].numpy(), penalty(layer))
        torch.testing.assert_close(weights[:n], torch.as_tensor(expected), atol=1e-9, rtol=0)
        assert (weights[n:] == 0).all()
    torch.testing.assert_close(layer(rows[0]), found[0])
    torch.testing.assert_close(layer(rows.expand(2, 3, 5)), layer(rows).expand(2, 3, 5))
    leaf = rows.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, lengths), (leaf,))


def test_functions_take_the_strengths():
    x = torch.randn(2, 6)
    torch.testing.assert_close(ours.fusedmax(x, 0.3, [6, 4]), ours.Fusedmax(0.3)(x, [6, 4]))
    torch.testing.assert_close(ours.oscarmax(x, 0.3), om.oscarmax(x, strength=0.3))
    torch.testing.assert_close(ours.sparsemax(x), om.sparsemax(x))
    torch.testing.assert_close(ours.fused_prox(x, 0.3), om.prox_tv1d(x, 0.3))
    torch.testing.assert_close(ours.oscar_prox(x, beta=0.3), om.prox_oscar(x, 0.3))
    shrunk = x.sign() * (x.abs() - 0.5).clamp(min=0)
    torch.testing.assert_close(ours.oscar_prox(x, alpha=0.5, beta=0.0), shrunk)
    with pytest.raises(TypeError, match="lengths must be an integer Tensor"):
        ours.sparsemax(x, torch.ones(2))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_attention_learns(layer):
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 9, (12,), generator=generator)
    words = torch.randn(12, 8, 6, generator=generator) * (torch.arange(8) < lengths[:, None])[..., None]
    target = torch.randn(12, generator=generator)
    template = nn.Parameter(0.1 * torch.randn(6, generator=generator))
    losses = []
    for _ in range(30):
        weights = layer(words @ template, lengths)
        loss = ((words * weights[..., None]).sum((1, 2)) - target).square().mean()
        losses.append(loss.item())
        (grad,) = torch.autograd.grad(loss, template)
        with torch.no_grad():
            template -= 0.01 * grad
    assert losses[-1] < losses[0]
