"""hardmax: one at the first largest entry of a row, by NumPy; undefined rows as everywhere."""

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, NAN

from omegamax.kernels.hardmax import hardmax


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 33, 300])
def test_one_at_the_first_largest(twin, dtype, n):
    rows = torch.cat([normal(7, n), normal(5, n, seed=1).round(), torch.zeros(1, n), 1e30 * normal(2, n, seed=2)])
    rows = torch.where(normal(*rows.shape, seed=3) > 1.5, -INF, rows).to(dtype)
    near = rows[:3].clone()  # the largest, and its neighbour by one rounding
    near[:, -1] = torch.nextafter(near.amax(-1), torch.tensor(INF, dtype=dtype))
    rows = torch.cat([rows, near])
    weights, value = twin(hardmax, rows)
    expected = np.zeros(rows.shape)
    expected[np.arange(len(rows)), rows.numpy().argmax(-1)] = 1
    expected[np.isneginf(rows.numpy()).all(-1)] = 0
    assert torch.equal(weights, torch.from_numpy(expected).to(dtype))
    assert torch.equal(value, rows.amax(-1))


def test_rows_without_an_answer(twin):
    rows = torch.tensor([[-INF, -INF, -INF], [0, NAN, 1], [INF, 0, 1], [0, 2, -INF]])
    weights, value = twin(hardmax, rows)
    assert weights.isnan().all(-1).tolist() == value.isnan().tolist() == [False, True, True, False]
    assert weights[0].tolist() == [0, 0, 0] and value[0] == -INF
    assert weights[3].tolist() == [0, 1, 0] and value[3] == 2
    assert twin(hardmax, torch.empty(2, 0))[1].tolist() == [-INF, -INF]
