"""`compat.softdtw` against the recursion in plain Python, and against tslearn where it is installed."""

import os

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax.compat.softdtw import SoftDTW, SoftDTWLossPyTorch

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # compiling takes tslearn a minute; its code is the same without


def recursion(costs, gamma, allowed=lambda i, j: True):
    """The textbook's recursion on one matrix of costs; differentiable."""
    m, n = costs.shape
    table = {}
    for i in range(m):
        for j in range(n):
            before = [table[cell] for cell in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if cell in table]
            if not allowed(i, j) or not (before or i == j == 0):
                continue
            soft = -gamma * torch.logsumexp(-torch.stack(before) / gamma, 0) if before else 0
            table[i, j] = costs[i, j] + soft
    return table[m - 1, n - 1]


def series(m=4, n=4, items=2, features=2):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(items, m, features, dtype=torch.double, generator=generator)
    return x, torch.randn(items, n, features, dtype=torch.double, generator=generator)


def squared(x, y):
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)


def manhattan(x, y):
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).abs().sum(-1)


@pytest.mark.parametrize("layer", [SoftDTWLossPyTorch, lambda **options: SoftDTW(False, **options)])
@pytest.mark.parametrize(("m", "n"), [(4, 4), (3, 5), (1, 1), (1, 3)])
@pytest.mark.parametrize("distance", [None, manhattan])
def test_it_is_the_recursion(layer, m, n, distance):
    x, y = series(m, n)
    costs = (distance or squared)(x, y)
    expected = torch.stack([recursion(each, 0.7) for each in costs])
    torch.testing.assert_close(layer(gamma=0.7, dist_func=distance)(x, y), expected)


@pytest.mark.parametrize("layer", [SoftDTWLossPyTorch, SoftDTW])
@pytest.mark.parametrize("n", [4, 6])
def test_normalize_is_the_divergence(layer, n):
    x, y = series(4, n)
    plain, normal = layer(gamma=0.5), layer(gamma=0.5, normalize=True)
    expected = plain(x, y) - (plain(x, x) + plain(y, y)) / 2
    torch.testing.assert_close(normal(x, y), expected)
    torch.testing.assert_close(normal(x, x), torch.zeros(2, dtype=torch.double))


@pytest.mark.parametrize(("m", "n"), [(5, 5), (4, 6), (6, 4)])
@pytest.mark.parametrize("radius", [1, 2])
def test_bands(m, n, radius):
    x, y = series(m, n)
    low, high = min(0, n - m) - radius, max(0, n - m) + radius
    expected = [recursion(each, 1.0, lambda i, j: low <= j - i <= high) for each in squared(x, y)]
    for options in ({"sakoe_chiba_radius": radius}, {"global_constraint": "sakoe_chiba", "sakoe_chiba_radius": radius}):
        torch.testing.assert_close(SoftDTWLossPyTorch(**options)(x, y), torch.stack(expected))
    if abs(m - n) <= radius:
        expected = [recursion(each, 1.0, lambda i, j: abs(i - j) <= radius) for each in squared(x, y)]
        torch.testing.assert_close(SoftDTW(bandwidth=radius)(x, y), torch.stack(expected))
    else:  # no path stays in the band
        leaf = x.clone().requires_grad_()
        found = SoftDTW(bandwidth=radius)(leaf, y)
        assert (found == torch.inf).all()
    names = [SoftDTWLossPyTorch(global_constraint=name)(x, y) for name in ("sakoe_chiba", "itakura")]
    assert all(each.isfinite().all() for each in names)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"dist_func": manhattan}, {"sakoe_chiba_radius": 1}])
def test_second_derivatives(options):
    x, y = series(3, 3, items=1)
    loss = SoftDTWLossPyTorch(gamma=0.8, **options)
    assert gradcheck(loss, (x.requires_grad_(), y.requires_grad_()))
    assert gradgradcheck(loss, (x, y))


def test_types_and_errors():
    x = torch.zeros(4, 3, 2, requires_grad=True)
    loss = SoftDTWLossPyTorch(gamma=0.1)(x, torch.arange(24).reshape(4, 3, 2)).mean()
    loss.backward()
    assert abs(float(loss.detach()) - 1081) < 0.01 and x.grad.shape == x.shape
    with pytest.raises(ValueError, match="x must be a Tensor"):
        SoftDTW()(x[0], x)
    with pytest.raises(ValueError, match="equal numbers of items and features"):
        SoftDTW()(x, x[:2])
    with pytest.raises(ValueError, match="global_constraint must be"):
        SoftDTWLossPyTorch(global_constraint="other")
    with pytest.raises(ValueError, match="give one of"):
        SoftDTWLossPyTorch(sakoe_chiba_radius=1, itakura_max_slope=2.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_against_tslearn():
    theirs = pytest.importorskip("tslearn.metrics").SoftDTWLossPyTorch
    equal, unequal = series(5, 5), series(4, 6)
    cases = [(equal, {}), (unequal, {}), (equal, {"normalize": True}), (equal, {"dist_func": manhattan})]
    cases += [(pair, {"sakoe_chiba_radius": 1}) for pair in (equal, unequal)]
    cases += [(equal, {"global_constraint": "itakura", "itakura_max_slope": 1.5}), (equal, {"itakura_max_slope": 3.0})]
    for (x, y), options in cases:
        pairs = []
        for layer in (SoftDTWLossPyTorch, theirs):
            leaf = x.clone().requires_grad_()
            value = layer(gamma=0.6, **options)(leaf, y)
            pairs.append((value.detach(), torch.autograd.grad(value.sum(), leaf)[0]))
        torch.testing.assert_close(pairs[0], pairs[1], atol=1e-5, rtol=1e-5, msg=str(options))
