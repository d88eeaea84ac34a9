"""A row that holds NaN or +inf anywhere is NaN throughout, on every instruction set, and its neighbours are not."""

import numpy as np
import pytest
import torch
from kernel_cases import DTYPES, INF, NAN, THRESHOLD_KERNELS

from omegamax.kernels.entmax import entmax
from omegamax.kernels.entmax_pull import entmax_pull
from omegamax.kernels.fusedmax import fusedmax, fusedmax_product
from omegamax.kernels.groupmax import groupmax, groupmax_product
from omegamax.kernels.hardmax import hardmax
from omegamax.kernels.isotonic import isotonic
from omegamax.kernels.oscarmax import oscarmax, oscarmax_product
from omegamax.kernels.owl import prox_owl
from omegamax.kernels.prox_group import prox_group
from omegamax.kernels.softmax import softmax, softmax_product
from omegamax.kernels.sparsemax import sparsemax, sparsemax_product
from omegamax.kernels.tv1d import prox_tv1d

# Around the lengths at which kernels change their ways: vectors, blocks, lockstep, panels.
LENGTHS = [1, 2, 8, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 200, 256, 511, 512, 700, 1023, 1024, 1025, 2100]


def groups_of(n):
    return torch.arange(n) // 3


def of_order(kernel, order):
    return kernel.solver, lambda n: (order,), lambda w, n, v: kernel.product(w[0], order, v)


SIMPLEX = {
    "softmax": (softmax, lambda n: (), lambda w, n, v: softmax_product(w[0], v)),
    "sparsemax": (sparsemax, lambda n: (), lambda w, n, v: sparsemax_product(w[0], v)),
    "hardmax": (hardmax, lambda n: (), None),
    **{f"{each.name}({a:.10g})": of_order(each, a) for each in THRESHOLD_KERNELS for a in each.few},
    "entmax, learnable": (entmax, lambda n: (1.3,), lambda w, n, v: entmax_pull(w[0], 1.3, v)[0]),
    **{
        f"fusedmax({s})": (fusedmax, lambda n, s=s: (s,), lambda w, n, v: fusedmax_product(w[0], w[2], v))
        for s in (0.0, 0.1, 1.0, 50.0)
    },
    **{
        f"oscarmax({s})": (oscarmax, lambda n, s=s: (s,), lambda w, n, v: oscarmax_product(w[0], w[2], v))
        for s in (0.0, 0.01, 5.0)
    },
    "groupmax": (
        groupmax,
        lambda n: (groups_of(n), 0.1),
        lambda w, n, v: groupmax_product(w[0], groups_of(n), 0.1, v),
    ),
}
PROXIMAL = {
    "prox_tv1d": (prox_tv1d, lambda n: (0.1,)),
    "isotonic": (isotonic, lambda n: ()),
    "prox_owl": (prox_owl, lambda n: (torch.linspace(1, 0, n),)),
    "prox_group": (prox_group, lambda n: (groups_of(n), 0.1)),
}


def poisoned(n, dtype, poisons=(NAN, INF)):
    """Flat, ordinary and peaked rows: good ones at even places, and after each the same with a poison somewhere."""
    rows = []
    for kind in (torch.zeros(n), 0.01 * torch.randn(n), torch.randn(n), 5 * torch.randn(n)):
        for poison in poisons:
            for place in sorted({0, 7 % n, n // 2, n - 1}):
                bad = kind.clone()
                bad[place] = poison
                rows += [kind, bad]
    return torch.stack(rows).to(dtype)


def assert_poisoned(results):
    for result in results:
        flat = result.reshape(len(result), -1)
        assert not flat[::2].isnan().any()
        assert flat[1::2].isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SIMPLEX)
@pytest.mark.thinned(5)
def test_weights_and_values(arch, name, dtype):
    kernel, parameters, product = SIMPLEX[name]
    for n in LENGTHS:
        rows = poisoned(n, dtype)
        found = kernel(rows, *parameters(n))
        assert_poisoned(found[:2])
        assert_poisoned([kernel.weights(rows, *parameters(n))])  # with results that are not wanted
        if product is not None:
            direction = torch.randn(found[0].shape).to(dtype)
            assert_poisoned([product(found, n, direction)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROXIMAL)
def test_proximal_operators(arch, name, dtype):
    kernel, parameters = PROXIMAL[name]
    for n in LENGTHS:
        given = [p.to(dtype) if torch.is_tensor(p) and p.is_floating_point() else p for p in parameters(n)]
        found = kernel(poisoned(n, dtype, (NAN, INF, -INF)), *given)
        assert_poisoned([found[0] if isinstance(found, tuple) else found])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*SIMPLEX, *PROXIMAL])
@pytest.mark.thinned(5)
def test_long_double_arithmetic_survives(arch, name, dtype):
    """A compiler that leaves the MMX unit in use makes every long double in the process NaN."""
    kernel, parameters, *_ = {**SIMPLEX, **PROXIMAL}[name]
    given = [p.to(dtype) if torch.is_tensor(p) and p.is_floating_point() else p for p in parameters(40)]
    for scale in (0.1, 1.0):
        kernel((scale * torch.randn(30, 40)).to(dtype), *given)
        assert [float(np.sqrt(np.longdouble(4 * k * k))) for k in range(12)] == [2.0 * k for k in range(12)]
