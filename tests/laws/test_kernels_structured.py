"""Fused, clustered and grouped kernels: native = reference, and both against slow and obvious solvers."""

import itertools

import numpy as np
import pytest
import torch
from scipy import optimize

from omegamax import routing
from omegamax.kernels.fusedmax import fusedmax, fusedmax_product
from omegamax.kernels.groupmax import groupmax, groupmax_product
from omegamax.kernels.isotonic import isotonic, pool, pool_by_formula
from omegamax.kernels.oscarmax import oscarmax, oscarmax_product
from omegamax.kernels.owl import owl_product, prox_owl
from omegamax.kernels.prox_group import prox_group, prox_group_product
from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.kernels.tv1d import prox_tv1d, segment_mean

INF, NAN = torch.inf, torch.nan
DTYPES = [torch.float32, torch.float64]
ARCHES = ["baseline", "v3", "v4"]
needs_native = pytest.mark.skipif(routing.native is None, reason="the extension is not built")


def tolerance(dtype):
    return {"atol": 2e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-13, "rtol": 1e-11}


@pytest.fixture(params=["reference", *ARCHES])
def backend(request):
    """Calls a kernel by its reference or by its native twin for one instruction set."""
    if request.param == "reference":

        def reference(kernel, *inputs):
            return kernel.reference(*inputs)

        yield reference
        return
    if routing.native is None:
        pytest.skip("the extension is not built")

    def native(kernel, *inputs):
        return kernel.native(*inputs)

    before = routing.native.arch()
    try:
        routing.native.use_arch(request.param)
        yield native
    finally:
        routing.native.use_arch(before)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# ---------------------------------------------------------------- oracles, in numpy and float64


def every_composition(n):
    """All ways to cut 0..n-1 into consecutive blocks, as lists of (start, stop)."""
    for cuts in itertools.product([False, True], repeat=n - 1):
        edges = [0, *[i + 1 for i, cut in enumerate(cuts) if cut], n]
        yield list(itertools.pairwise(edges))


def tv_objective(y, x, strength):
    return 0.5 * ((y - x) ** 2).sum() + strength * np.abs(np.diff(y)).sum()


def tv_by_enumeration(x, strength):
    """Best of all segmentations and all signs of the steps between segments."""
    best, at = np.inf, None
    for blocks in every_composition(len(x)):
        for signs in itertools.product([-1, 1], repeat=len(blocks) - 1):
            signs = (0, *signs, 0)
            y = np.empty_like(x)
            for b, (i, j) in enumerate(blocks):
                y[i:j] = x[i:j].mean() + strength * (signs[b + 1] - signs[b]) / (j - i)
            cost = tv_objective(y, x, strength)
            if cost < best:
                best, at = cost, y
    return at


def simplex_penalties(strength, groups=None):
    return {
        "fused": lambda p: strength * np.abs(np.diff(p)).sum(),
        "oscar": lambda p: strength * sum(max(a, b) for a, b in itertools.combinations(p, 2)),
        "group": lambda p: (
            strength * sum(np.linalg.norm(p[groups == g]) for g in set(groups)) if groups is not None else 0
        ),
    }


def objective(p, x, penalty):
    return p @ x - 0.5 * (p @ p - 1) - penalty(p)


def epigraph_qp(x, rows, strength):
    """argmax <p,x> - |p|^2/2 - strength sum_r max over the two rows of r applied to p, on the simplex (SLSQP)."""
    n, m = len(x), len(rows)
    start = np.concatenate([np.full(n, 1 / n), np.full(m, 1.0)])
    lower = np.concatenate(
        [np.concatenate([-a, b], 1) for a, b in [(np.array([r[k] for r in rows]), np.eye(m)) for k in (0, 1)]]
    )
    result = optimize.minimize(
        lambda v: 0.5 * v[:n] @ v[:n] - v[:n] @ x + strength * v[n:].sum(),
        start,
        jac=lambda v: np.concatenate([v[:n] - x, np.full(m, strength)]),
        bounds=[(0, None)] * n + [(None, None)] * m,
        constraints=[
            {"type": "eq", "fun": lambda v: v[:n].sum() - 1, "jac": lambda v: np.r_[np.ones(n), np.zeros(m)]},
            {"type": "ineq", "fun": lambda v: lower @ v, "jac": lambda v: lower},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-15},
    )
    return result.x[:n]


def unit(n, i):
    return np.eye(n)[i]


def fused_rows(n):
    return [(unit(n, i + 1) - unit(n, i), unit(n, i) - unit(n, i + 1)) for i in range(n - 1)]


def oscar_rows(n):
    return [(unit(n, i), unit(n, j)) for i, j in itertools.combinations(range(n), 2)]


def dense_jacobian(solve, x, h=1e-6):
    columns = []
    for i in range(x.shape[-1]):
        e = torch.zeros_like(x)
        e[..., i] = h
        columns.append((solve(x + e) - solve(x - e)) / (2 * h))
    return torch.stack(columns, -1)


def partition(joined):
    return (~joined).cumsum(-1)


# ---------------------------------------------------------------- total variation


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.3, 2.0])
def test_tv_is_the_best_segmentation(backend, strength):
    for n in (1, 2, 3, 6):
        x = normal(5, n, seed=n)
        solution, _ = backend(prox_tv1d, x, strength)
        for row, y in zip(x.numpy(), solution.numpy()):
            np.testing.assert_allclose(y, tv_by_enumeration(row, strength), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 90])
def test_tv_native_is_reference(backend, dtype, n):
    rows = torch.cat([normal(8, n), normal(4, n).cumsum(-1), torch.zeros(1, n), torch.arange(n)[None] * 0.01]).to(dtype)
    rows = torch.cat([rows, rows[:1] * 1e4])
    for strength in (0.0, 0.1, 1.0, 30.0, torch.linspace(0, 3, len(rows), dtype=dtype)[:, None]):
        y, joined = backend(prox_tv1d, rows, strength)
        expected, expected_joined = prox_tv1d.reference(rows, strength)
        torch.testing.assert_close(y, expected, **tolerance(dtype))
        assert torch.equal(joined, expected_joined)
        assert not joined[:, :1].any()
        assert torch.equal(y[:, 1:][joined[:, 1:]], y[:, :-1][joined[:, 1:]])


def test_tv_edges(backend):
    rows = torch.tensor([[1.0, 1.0, 2.0], [NAN, 1.0, 2.0], [1.0, INF, 0.0], [1.0, -INF, 0.0], [3.0, 2.0, 1.0]])
    y, joined = backend(prox_tv1d, rows, 0.0)
    assert torch.equal(y[[0, 4]], rows[[0, 4]]) and not joined.any()
    assert y[1:4].isnan().all()
    y, joined = backend(prox_tv1d, rows, torch.tensor([[1e30], [1.0], [1.0], [1.0], [-1.0]]))
    torch.testing.assert_close(y[0], torch.full((3,), 4 / 3))
    assert joined[0].tolist() == [False, True, True]
    assert y[4].isnan().all() and not joined[1:].any()
    y, joined = backend(prox_tv1d, torch.empty(2, 0), 1.0)
    assert y.shape == joined.shape == (2, 0)


@pytest.mark.parametrize("shape", ["ramp", "parabola", "steps", "noise"])
def test_tv_optimality_on_long_rows(backend, shape):
    n = 3000
    t = torch.arange(n, dtype=torch.float64)
    x = {"ramp": t * 1e-3, "parabola": (t / n - 0.5) ** 2 * 10, "steps": (t // 100) % 2, "noise": normal(n)}[shape][
        None
    ]
    if backend.__name__ == "reference":
        x = x[:, ::20].contiguous()
    for strength in (0.1, 5.0):
        y, joined = backend(prox_tv1d, x, strength)
        dual = (x - y).cumsum(-1)  # in [-strength, strength], at the bound between segments, zero at the end
        assert dual.abs().max() <= strength + 1e-9 and dual[0, -1].abs() < 1e-9
        assert torch.allclose(dual[:, :-1][~joined[:, 1:]].abs(), torch.tensor(strength, dtype=x.dtype))
        rising = torch.sign(y[:, :-1] - y[:, 1:])
        assert torch.allclose(
            (dual[:, :-1] * rising)[~joined[:, 1:]], strength * rising.abs()[~joined[:, 1:]], atol=1e-8
        )


@needs_native
@pytest.mark.parametrize("strength", [0.01, 0.2, 2.0, 40.0])
def test_tv_is_the_same_on_every_arch(strength):
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


def test_segment_mean(backend):
    x = normal(3, 4, 9)
    joined = prox_tv1d(x, 0.8)[1]
    v = normal(3, 4, 9, seed=2)
    out = backend(segment_mean, joined, v)
    expected = torch.stack(
        [v_[own == k].mean() for v_, own in zip(v.reshape(-1, 9), partition(joined).reshape(-1, 9)) for k in own]
    )
    torch.testing.assert_close(out.reshape(-1), expected)
    jacobian = dense_jacobian(lambda z: backend(prox_tv1d, z, 0.8)[0], x)
    torch.testing.assert_close((jacobian @ v[..., None]).squeeze(-1), out, atol=1e-8, rtol=0)


# ---------------------------------------------------------------- fusedmax and oscarmax

CLUSTERED = {"fused": (fusedmax, fusedmax_product, fused_rows), "oscar": (oscarmax, oscarmax_product, oscar_rows)}


@pytest.fixture(params=CLUSTERED)
def clustered(request):
    return (request.param, *CLUSTERED[request.param])


def same_grouping(kind, a, b):
    if kind == "fused":
        return torch.equal(a, b)
    return torch.equal(a[..., :, None] == a[..., None, :], b[..., :, None] == b[..., None, :]) and torch.equal(
        a < 0, b < 0
    )


@pytest.mark.parametrize("strength", [0.0, 0.02, 0.1, 0.7])
def test_clustered_solve_their_problem(backend, clustered, strength):
    kind, kernel, _, rows = clustered
    generator = np.random.default_rng(0)
    for n, scale in itertools.product([2, 3, 5], [0.1, 1.0]):
        x = scale * normal(4, n, seed=n)
        weights, value, _ = backend(kernel, x, strength)
        penalty = simplex_penalties(strength)[kind]
        for row, p, v in zip(x.numpy(), weights.numpy(), value.numpy()):
            best = objective(p, row, penalty)
            np.testing.assert_allclose(v, best, atol=1e-13)
            np.testing.assert_allclose(p, epigraph_qp(row, rows(n), strength), atol=2e-5)
            for other in generator.dirichlet(np.full(n, 0.5), 50):
                near = 0.99 * p + 0.01 * other
                assert objective(other, row, penalty) <= best + 1e-13 and objective(near, row, penalty) <= best + 1e-13


def assorted(n, dtype):
    rows = [normal(6, n), 10 * normal(3, n, seed=1), 0.1 * normal(3, n, seed=2), 1e-3 * normal(2, n, seed=3)]
    rows += [
        torch.zeros(1, n),
        torch.arange(n)[None] * 0.03,
        -torch.arange(n)[None] * 0.5,
        (normal(3, n, seed=4) * 2).round() / 2,
    ]
    rows = torch.cat(rows).to(torch.float64)
    hidden = torch.where(normal(*rows.shape, seed=5) > 0.3, -INF, rows)
    tail = torch.where(torch.arange(n) >= max(1, n // 2), -INF, rows)
    special = torch.cat([torch.full((1, n), -INF), rows[:1] + 1e4, rows[:1] * 1e30, rows[:1].round() + 1e6])
    return torch.cat([rows, hidden, tail, special]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 16, 80])
def test_clustered_native_is_reference(backend, clustered, dtype, n):
    kind, kernel, product, _ = clustered
    rows = assorted(n, dtype)
    v = normal(*rows.shape, seed=9, dtype=dtype)
    for strength in (0.0, 0.5 / n, 0.1, 3.0, torch.linspace(0, 1, len(rows), dtype=dtype)[:, None]):
        weights, value, groups = backend(kernel, rows, strength)
        expected = kernel.reference(rows, strength)
        torch.testing.assert_close(weights, expected[0], **tolerance(dtype))
        torch.testing.assert_close(value, expected[1], rtol=1e-6 if dtype == torch.float32 else 1e-12, atol=1e-12)
        if dtype == torch.float64:  # on normal scores: the others are full of exact ties between "joined" and "not"
            assert same_grouping(kind, groups[:14], expected[2][:14])
            assert same_grouping(kind, groups[14:15], expected[2][14:15])
        alive = rows.amax(-1) > -INF
        total = weights.double().sum(-1)
        exact = 64 * torch.finfo(dtype).eps if backend.__name__ == "native" else 1e-12
        assert (total - alive.double()).abs().max() <= max(exact, 2e-6 * (dtype == torch.float32))
        out = backend(product, weights, groups, v)
        torch.testing.assert_close(out, product.reference(weights, groups, v), **tolerance(dtype))
        assert (out[weights == 0] == 0).all()


def test_clustered_bad_rows(backend, clustered):
    _, kernel, product, _ = clustered
    rows = torch.tensor([[NAN, 1.0, 2.0], [1.0, INF, 2.0], [-INF, -INF, -INF], [1.0, 2.0, -INF], [NAN, INF, -INF]])
    weights, value, groups = backend(kernel, rows, 0.1)
    assert weights[[0, 1, 4]].isnan().all() and value[[0, 1, 4]].isnan().all()
    assert (weights[2] == 0).all() and value[2] == -INF
    assert weights[3, 2] == 0 and abs(weights[3].sum() - 1) < 1e-6
    out = backend(product, weights, groups, torch.ones(5, 3))
    assert out[[0, 1, 4]].isnan().all() and (out[2] == 0).all() and out[3].abs().max() < 1e-6
    weights, value, _ = backend(kernel, rows[3:4].expand(3, 3), torch.tensor([[-0.1], [NAN], [0.1]]))
    assert weights[:2].isnan().all() and value[:2].isnan().all() and not weights[2].isnan().any()
    weights, value, groups = backend(kernel, torch.empty(2, 0), 0.1)
    assert weights.shape == groups.shape == (2, 0) and (value == -INF).all()


def test_removing_is_masking(backend, clustered):
    kind, kernel, _, _ = clustered
    x = normal(20, 12, seed=3)
    x[:, [0, 3, 4, 9]] = -INF
    keep = [1, 2, 5, 6, 7, 8, 10, 11]
    weights, value, groups = backend(kernel, x, 0.15)
    small = backend(kernel, x[:, keep].contiguous(), 0.15)
    assert (
        torch.equal(weights[:, keep], small[0])
        and torch.equal(value, small[1])
        and same_grouping(kind, groups[:, keep], small[2])
    )


def test_strength_zero_is_sparsemax(backend, clustered):
    _, kernel, product, _ = clustered
    x = torch.cat([normal(10, 8), torch.tensor([[1.0, 1, 0, -9, -9, -9, -9, -9]])])
    v = normal(11, 8, seed=1)
    weights, value, groups = backend(kernel, x, 0.0)
    expected, expected_value = sparsemax.reference(x)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(value, expected_value)
    torch.testing.assert_close(backend(product, weights, groups, v), sparsemax_product.reference(weights, v))


@pytest.mark.parametrize("strength", [0.05, 0.3])
def test_clustered_products(backend, clustered, strength):
    _, kernel, product, _ = clustered
    x, v = normal(12, 7, seed=6), normal(12, 7, seed=7)
    weights, _, groups = backend(kernel, x, strength)
    jacobian = dense_jacobian(lambda z: backend(kernel, z, strength)[0], x)
    torch.testing.assert_close(
        (jacobian @ v[..., None]).squeeze(-1), backend(product, weights, groups, v), atol=1e-8, rtol=0
    )


def test_ties_are_equal_to_the_bit(backend):
    x = (normal(50, 40, seed=8) * 3).round().float() / 8
    weights, _, labels = backend(oscarmax, x, 0.01)
    tied = (x[:, :, None] == x[:, None, :]) & (weights[:, :, None] > 0)
    assert (weights[:, :, None] == weights[:, None, :])[tied].all()
    assert (labels[:, :, None] == labels[:, None, :])[tied].all()
    weights, _, joined = backend(fusedmax, x, 0.1)
    support = weights > 0
    for p, j, s in zip(weights, joined, support):
        p, j = p[s], j[s]
        assert torch.equal(p[1:][j[1:]], p[:-1][j[1:]])
    assert not joined[~support].any()


@needs_native
@pytest.mark.parametrize("arch", ARCHES)
def test_clustered_large_rows(clustered, arch):
    kind, kernel, product, _ = clustered
    before = routing.native.arch()
    routing.native.use_arch(arch)
    try:
        x = normal(4, 5000, dtype=torch.float32)
        x = torch.cat([x, 10 * x[:2], 0.01 * x[:2], 0 * x[:1]])
        strength = 0.1 if kind == "fused" else 1 / 5000
        weights, value, groups = kernel.native(x, strength)
        exact, exact_value, _ = kernel.native(x.double(), strength)
        torch.testing.assert_close(weights.double(), exact, atol=1e-8, rtol=1e-5)
        torch.testing.assert_close(value.double(), exact_value, atol=1e-6, rtol=1e-6)
        assert (weights.double().sum(-1) - 1).abs().max() < 1e-6 and (exact.sum(-1) - 1).abs().max() < 1e-14
        y = (
            kernel.reference(x[[0, 4, 8]], strength)[0]
            if kind == "oscar"
            else kernel.reference(x[[0, 4, 8], :700], strength)[0]
        )
        z = weights[[0, 4, 8]] if kind == "oscar" else kernel.native(x[[0, 4, 8], :700], strength)[0]
        torch.testing.assert_close(z, y)
        v = normal(*x.shape, seed=1, dtype=torch.float32)
        torch.testing.assert_close(
            product.native(weights, groups, v), product.reference(weights, groups, v), atol=1e-5, rtol=1e-4
        )
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        assert torch.equal(kernel.native(x, strength)[0], weights)
        torch.set_num_threads(threads)
    finally:
        routing.native.use_arch(before)


# ---------------------------------------------------------------- isotonic regression and OWL


def isotonic_by_formula(x):
    n = len(x)
    return np.array([max(min(x[a : b + 1].mean() for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_isotonic(backend, dtype):
    rows = torch.cat([normal(20, 12), (normal(10, 12) * 2).round(), -torch.arange(12.0)[None], torch.ones(1, 12)]).to(
        dtype
    )
    y, joined = backend(isotonic, rows)
    expected = np.stack([isotonic_by_formula(r) for r in rows.double().numpy()])
    np.testing.assert_allclose(y.numpy(), expected, **tolerance(dtype))
    reference, reference_joined = isotonic.reference(rows)
    torch.testing.assert_close(y, reference)
    assert torch.equal(joined, reference_joined) and not joined[-1].any() and joined[-2, 1:].all()
    bad, joined = backend(isotonic, torch.tensor([[1.0, NAN], [1.0, -INF], [2.0, 1.0]], dtype=dtype))
    assert bad[:2].isnan().all() and bad[2].tolist() == [1.5, 1.5] and joined[:, 1].tolist() == [False, False, True]


def test_isotonic_formula_agrees():
    rows = torch.cat(
        [normal(20, 15), normal(5, 15, seed=1).sort().values, torch.ones(1, 15), (normal(20, 15) * 2).round()]
    )
    y, joined = pool(rows)
    z, joined_z = pool_by_formula(rows)
    torch.testing.assert_close(y, z)
    assert torch.equal(joined, joined_z)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 40, 700, 3000])
def test_owl_native_is_reference(backend, dtype, n):
    x = torch.cat([normal(4, n), (normal(2, n) * 2).round(), 0 * normal(1, n)]).to(dtype)
    for w in (
        torch.arange(n).flip(0) * (2 / n),
        torch.full((n,), 0.1),
        torch.zeros(n),
        normal(7, n).abs().sort(descending=True).values,
    ):
        y, labels = backend(prox_owl, x, w.to(dtype))
        expected, expected_labels = prox_owl.reference(x, w.to(dtype))
        torch.testing.assert_close(y, expected)
        assert same_grouping("oscar", labels[:, :500], expected_labels[:, :500])
        assert torch.equal(labels < 0, y == 0)
        v = normal(*x.shape, seed=4, dtype=dtype)
        torch.testing.assert_close(
            backend(owl_product, y, labels, v), owl_product.reference(y, labels, v), **tolerance(dtype)
        )


def test_owl_solves_its_problem(backend):
    x = normal(10, 5)
    w = torch.tensor([0.9, 0.6, 0.6, 0.2, 0.0], dtype=torch.float64)
    y, labels = backend(prox_owl, x, w)
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
    jacobian = dense_jacobian(lambda z: backend(prox_owl, z, w)[0], x)
    torch.testing.assert_close(
        (jacobian @ v[..., None]).squeeze(-1), backend(owl_product, y, labels, v), atol=1e-8, rtol=0
    )


# ---------------------------------------------------------------- groups


def test_groupmax_solves_its_problem():
    groups = torch.tensor([0, 0, 1, 2, 1, 2])
    generator = np.random.default_rng(0)
    for strength, scale in itertools.product([0.0, 0.1, 0.6, 5.0], [0.2, 1.0, 5.0]):
        x = scale * normal(5, 6)
        weights, value = groupmax(x, groups, strength)
        assert (weights.sum(-1) - 1).abs().max() < 1e-15 * 8
        penalty = simplex_penalties(strength, groups.numpy())["group"]
        for row, p, v in zip(x.numpy(), weights.numpy(), value.numpy()):
            best = objective(p, row, penalty)
            np.testing.assert_allclose(v, best, atol=1e-12)
            for other in np.concatenate([generator.dirichlet(np.full(6, 0.5), 100), np.eye(6)]):
                for mix in (1.0, 0.1, 1e-3):
                    assert objective((1 - mix) * p + mix * other, row, penalty) <= best + 1e-13


def test_groupmax_edges():
    groups = torch.tensor([0, 1, 0])
    x = torch.tensor(
        [[NAN, 1.0, 2.0], [1.0, INF, 2.0], [-INF] * 3, [1.0, -INF, 1e30], [1e4, 1e4, -INF], [2.0, 1.0, 1.5]]
    )
    weights, value = groupmax(x, groups, 0.3)
    assert weights[:2].isnan().all() and value[:2].isnan().all()
    assert (weights[2] == 0).all() and value[2] == -INF
    assert weights[3].tolist() == [0, 0, 1] and weights[4].tolist() == [0.5, 0.5, 0]
    small, small_value = groupmax(x[4:5, :2], groups[:2], 0.3)
    assert torch.equal(weights[4:5, :2], small) and torch.equal(value[4:5], small_value)
    out = groupmax_product(weights, groups, 0.3, torch.ones_like(x))
    assert out[:2].isnan().all() and (out[2] == 0).all() and out[3:].abs().max() < 1e-6
    assert groupmax(x[5:], groups, torch.tensor([[-1.0]]))[0].isnan().all()
    y, _ = groupmax(normal(3, 6), torch.arange(6), 0.0)
    torch.testing.assert_close(y, sparsemax.reference(normal(3, 6))[0])


def test_groupmax_product():
    groups = torch.tensor([0, 0, 1, 2, 1, 2, 0])
    x, v = normal(10, 7), normal(10, 7, seed=2)
    for strength in (0.0, 0.2, torch.linspace(0.1, 1, 10, dtype=x.dtype)[:, None]):
        weights, _ = groupmax(x, groups, strength)
        jacobian = dense_jacobian(lambda z, s=strength: groupmax(z, groups, s)[0], x)
        torch.testing.assert_close(
            (jacobian @ v[..., None]).squeeze(-1), groupmax_product(weights, groups, strength, v), atol=1e-7, rtol=0
        )


def test_prox_group():
    groups = torch.tensor([0, 1, 0, 2, 1, 1])
    x, v = normal(10, 6), normal(10, 6, seed=2)
    for strength in (0.0, 0.8, torch.linspace(0.1, 2, 10, dtype=x.dtype)[:, None]):
        y = prox_group(x, groups, strength)
        jacobian = dense_jacobian(lambda z, s=strength: prox_group(z, groups, s), x)
        torch.testing.assert_close(
            (jacobian @ v[..., None]).squeeze(-1), prox_group_product(x, groups, strength, v), atol=1e-8, rtol=0
        )
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


# ---------------------------------------------------------------- the products can be differentiated again, and vmapped


def products():
    x, v = normal(3, 6), normal(3, 6, seed=2)
    x[:, 5] = -INF
    x[2] = -INF
    x[0, 1] = x[0, 2]
    groups = torch.tensor([0, 1, 0, 2, 1, 1])
    fused, oscar, group = fusedmax(x, 0.1), oscarmax(x, 0.1), groupmax(x, groups, 0.3)
    y, labels = prox_owl(normal(3, 6), torch.tensor([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], dtype=x.dtype))
    strength = torch.tensor(0.3, dtype=x.dtype)
    return {
        "segment_mean": (lambda w, v: segment_mean.reference(fused[2], v), fused[0], v),
        "fusedmax": (lambda w, v: fusedmax_product.reference(w, fused[2], v), fused[0], v),
        "oscarmax": (lambda w, v: oscarmax_product.reference(w, oscar[2], v), oscar[0], v),
        "owl": (lambda w, v: owl_product.reference(w, labels, v), y, v),
        "groupmax": (lambda w, v: groupmax_product.reference(w, groups, strength, v), group[0], v),
        "prox_group": (lambda w, v: prox_group_product.reference(w, groups, strength, v), normal(3, 6), v),
    }


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", products())
def test_products_have_derivatives_and_batch(name):
    product, w, v = products()[name]
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


def test_groupmax_product_learns_its_strength():
    w, groups, v = (
        groupmax(normal(2, 6), torch.tensor([0, 1, 0, 2, 1, 1]), 0.3)[0],
        torch.tensor([0, 1, 0, 2, 1, 1]),
        normal(2, 6, seed=1),
    )
    strength = torch.tensor(0.3, dtype=w.dtype, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: groupmax_product(w, groups, s, v), (strength,))
