"""The bits of a row depend on that row alone: not on the rows beside it, and not on the number of threads."""

import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, NAN
from test_kernels_unusual import PROXIMAL, SIMPLEX, groups_of
from threads import with_threads

from omegamax.kernels.entmax import entmax
from omegamax.kernels.fusedmax import fusedmax
from omegamax.kernels.groupmax import groupmax
from omegamax.kernels.oscarmax import oscarmax


def mixed(n, dtype, count=90):
    """Flat, ordinary and peaked rows side by side, some masked and some without an answer."""
    x = normal(count, n) * torch.logspace(-3, 1, count, dtype=torch.float64)[torch.randperm(count)][:, None]
    x[5, ::2], x[40], x[11, 0], x[64, -1] = -INF, -INF, NAN, INF
    return x.to(dtype)


def check(solve, count):
    """`solve(rows)` for a slice of rows: all by two threads, all by one, shifted by three, and one by one."""
    together = with_threads(2, lambda: solve(slice(None)))
    pieces = [slice(None), slice(3, None), *(slice(i, i + 1) for i in range(0, count, 13))]
    for piece in pieces:
        for whole, part in zip(together, solve(piece)):
            assert torch.equal(whole[piece].nan_to_num(9), part.nan_to_num(9)), piece


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*SIMPLEX, *PROXIMAL])
@pytest.mark.thinned(5)
def test_one_parameter_for_all_rows(arch, name, dtype):
    kernel, parameters, *_ = {**SIMPLEX, **PROXIMAL}[name]
    for n in (7, 48, 128, 300):
        x = mixed(n, dtype)
        given = [p.to(dtype) if torch.is_tensor(p) and p.is_floating_point() else p for p in parameters(n)]

        def solve(piece, x=x, given=given):
            found = kernel(x[piece].contiguous(), *given)
            return found[:2] if isinstance(found, tuple) else (found,)

        check(solve, len(x))


STRENGTHS = torch.tensor([0.0, 1e-3, 0.1, 0.2, 1.0, 50.0, 101.0, 1e3, 3e5, 1e6, 1e9], dtype=torch.float64)
BY_ROW = {
    "fusedmax": (fusedmax, lambda n: (), STRENGTHS),
    "oscarmax": (oscarmax, lambda n: (), STRENGTHS / 10),
    "groupmax": (groupmax, lambda n: (groups_of(n),), STRENGTHS),
    "entmax": (entmax, lambda n: (), torch.tensor([1, 1 + 1e-9, 1.2, 1.5, 1.9, 2, 2.5, 4], dtype=torch.float64)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BY_ROW)
@pytest.mark.parametrize("same", [True, False], ids=["one number", "a number for each row"])
def test_every_size_of_parameter(arch, name, dtype, same):
    kernel, before, choices = BY_ROW[name]
    for n in (9, 128, 200):
        x = mixed(n, dtype)
        by_row = choices[torch.randint(len(choices), (len(x), 1))]
        for parameter in choices.tolist() if same else [by_row]:

            def solve(piece, x=x, parameter=parameter):
                own = parameter if same else parameter[piece]
                return kernel(x[piece].contiguous(), *before(x.shape[-1]), own)[:2]

            check(solve, len(x))
