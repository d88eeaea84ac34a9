"""prox_tv1d and segment_mean: native == reference == the best of all segmentations; the mean is the Jacobian."""

import itertools

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, NAN, check_differentiable, dense_jacobian, times, tolerance

from omegamax import routing
from omegamax.kernels.tv1d import prox_tv1d, segment_mean


def every_composition(n):
    """All ways to cut 0..n-1 into consecutive blocks, as lists of (start, stop)."""
    for cuts in itertools.product([False, True], repeat=n - 1):
        edges = [0, *[i + 1 for i, cut in enumerate(cuts) if cut], n]
        yield list(itertools.pairwise(edges))


def objective(y, x, strength):
    return 0.5 * ((y - x) ** 2).sum() + strength * np.abs(np.diff(y)).sum()


def best_segmentation(x, strength):
    """Best of all segmentations and all signs of the steps between segments."""
    best, at = np.inf, None
    for blocks in every_composition(len(x)):
        for signs in itertools.product([-1, 1], repeat=len(blocks) - 1):
            signs = (0, *signs, 0)
            y = np.empty_like(x)
            for b, (i, j) in enumerate(blocks):
                y[i:j] = x[i:j].mean() + strength * (signs[b + 1] - signs[b]) / (j - i)
            cost = objective(y, x, strength)
            if cost < best:
                best, at = cost, y
    return at


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.3, 2.0])
def test_is_the_best_segmentation(twin, strength):
    for n in (1, 2, 3, 6):
        x = normal(5, n, seed=n)
        solution, _ = twin(prox_tv1d, x, strength)
        for row, y in zip(x.numpy(), solution.numpy()):
            np.testing.assert_allclose(y, best_segmentation(row, strength), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 90])
def test_native_is_reference(twin, dtype, n):
    rows = torch.cat([normal(8, n), normal(4, n).cumsum(-1), torch.zeros(1, n), torch.arange(n)[None] * 0.01]).to(dtype)
    rows = torch.cat([rows, rows[:1] * 1e4])
    for strength in (0.0, 0.1, 1.0, 30.0, torch.linspace(0, 3, len(rows), dtype=dtype)[:, None]):
        y, joined = twin(prox_tv1d, rows, strength)
        expected, expected_joined = prox_tv1d.reference(rows, strength)
        torch.testing.assert_close(y, expected, **tolerance(dtype))
        assert torch.equal(joined, expected_joined)
        assert not joined[:, :1].any()
        assert torch.equal(y[:, 1:][joined[:, 1:]], y[:, :-1][joined[:, 1:]])


def test_edges(twin):
    rows = torch.tensor([[1.0, 1.0, 2.0], [NAN, 1.0, 2.0], [1.0, INF, 0.0], [1.0, -INF, 0.0], [3.0, 2.0, 1.0]])
    y, joined = twin(prox_tv1d, rows, 0.0)
    assert torch.equal(y[[0, 4]], rows[[0, 4]]) and not joined.any()
    assert y[1:4].isnan().all()
    y, joined = twin(prox_tv1d, rows, torch.tensor([[1e30], [1.0], [1.0], [1.0], [-1.0]]))
    torch.testing.assert_close(y[0], torch.full((3,), 4 / 3))
    assert joined[0].tolist() == [False, True, True]
    assert y[4].isnan().all() and not joined[1:].any()
    y, joined = twin(prox_tv1d, torch.empty(2, 0), 1.0)
    assert y.shape == joined.shape == (2, 0)


@pytest.mark.parametrize("shape", ["ramp", "parabola", "steps", "noise"])
def test_optimality_on_long_rows(twin, shape):
    n = 3000
    t = torch.arange(n, dtype=torch.float64)
    x = {"ramp": t * 1e-3, "parabola": (t / n - 0.5) ** 2 * 10, "steps": (t // 100) % 2, "noise": normal(n)}[shape][
        None
    ]
    if twin.__name__ == "reference":
        x = x[:, ::20].contiguous()
    for strength in (0.1, 5.0):
        y, joined = twin(prox_tv1d, x, strength)
        dual = (x - y).cumsum(-1)  # in [-strength, strength], at the bound between segments, zero at the end
        assert dual.abs().max() <= strength + 1e-9 and dual[0, -1].abs() < 1e-9
        assert torch.allclose(dual[:, :-1][~joined[:, 1:]].abs(), torch.tensor(strength, dtype=x.dtype))
        rising = torch.sign(y[:, :-1] - y[:, 1:])
        assert torch.allclose(
            (dual[:, :-1] * rising)[~joined[:, 1:]], strength * rising.abs()[~joined[:, 1:]], atol=1e-8
        )


@pytest.mark.skipif(routing.native is None, reason="the extension is not built")
@pytest.mark.parametrize("strength", [0.01, 0.2, 2.0, 40.0])
def test_is_the_same_on_every_arch(strength):
    """Long rows are cut into pieces where vectors are wide: the pieces must join."""
    x = normal(3, 20_001, seed=12) * torch.tensor([[0.1], [1.0], [10.0]], dtype=torch.float64)
    solutions = []
    for arch in routing.native.supported_archs():
        routing.native.use_arch(arch)
        solutions.append(prox_tv1d(x, strength))
    routing.native.use_arch("auto")
    for solution, joined in solutions[1:]:
        torch.testing.assert_close(solution, solutions[0][0], atol=1e-13, rtol=1e-13)
        assert torch.equal(joined, solutions[0][1])


def test_segment_mean(twin):
    x = normal(3, 4, 9)
    joined = prox_tv1d(x, 0.8)[1]
    v = normal(3, 4, 9, seed=2)
    out = twin(segment_mean, joined, v)
    expected = torch.stack(
        [v_[own == k].mean() for v_, own in zip(v.reshape(-1, 9), (~joined).cumsum(-1).reshape(-1, 9)) for k in own]
    )
    torch.testing.assert_close(out.reshape(-1), expected)
    jacobian = dense_jacobian(lambda z: twin(prox_tv1d, z, 0.8)[0], x)
    torch.testing.assert_close(times(jacobian, v), out, atol=1e-8, rtol=0)


def test_segment_mean_can_be_differentiated_and_batched():
    x = normal(3, 6)
    x[0, 1] = x[0, 2]
    joined = prox_tv1d(x, 0.1)[1]
    check_differentiable(lambda w, v: segment_mean.reference(joined, v), x, normal(3, 6, seed=2))
