"""isotonic: native == reference == the min-max formula."""

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, NAN, tolerance

from omegamax.kernels.isotonic import isotonic, pool, pool_by_formula


def isotonic_by_formula(x):
    n = len(x)
    return np.array([max(min(x[a : b + 1].mean() for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_isotonic(twin, dtype):
    rows = torch.cat([normal(20, 12), (normal(10, 12) * 2).round(), -torch.arange(12.0)[None], torch.ones(1, 12)]).to(
        dtype
    )
    y, joined = twin(isotonic, rows)
    expected = np.stack([isotonic_by_formula(r) for r in rows.double().numpy()])
    np.testing.assert_allclose(y.numpy(), expected, **tolerance(dtype))
    reference, reference_joined = isotonic.reference(rows)
    torch.testing.assert_close(y, reference)
    assert torch.equal(joined, reference_joined) and not joined[-1].any() and joined[-2, 1:].all()
    bad, joined = twin(isotonic, torch.tensor([[1.0, NAN], [1.0, -INF], [2.0, 1.0]], dtype=dtype))
    assert bad[:2].isnan().all() and bad[2].tolist() == [1.5, 1.5] and joined[:, 1].tolist() == [False, False, True]


def test_isotonic_formula_agrees():
    rows = torch.cat(
        [normal(20, 15), normal(5, 15, seed=1).sort().values, torch.ones(1, 15), (normal(20, 15) * 2).round()]
    )
    y, joined = pool(rows)
    z, joined_z = pool_by_formula(rows)
    torch.testing.assert_close(y, z)
    assert torch.equal(joined, joined_z)


def test_isotonic_formula_is_one_program_for_all_lengths():
    class Pool(torch.nn.Module):
        def forward(self, rows):
            return pool_by_formula(rows)

    program = torch.export.export(Pool(), (normal(2, 5),), dynamic_shapes=({1: torch.export.Dim("length", min=3)},))
    for size in (3, 8, 20):
        rows = normal(4, size, seed=size)[:2]
        torch.testing.assert_close(program.module()(rows)[0], pool(rows)[0])
