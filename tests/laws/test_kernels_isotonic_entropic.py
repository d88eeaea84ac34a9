"""isotonic_entropic: native == reference == the min-max formula."""

import numpy as np
import pytest
import torch
from cases import normal
from kernel_cases import DTYPES, INF, NAN, tolerance

from omegamax.kernels.isotonic_entropic import isotonic_entropic, joined_by_formula, segment_logsumexp


def by_formula(s, w):
    def level(a, b):
        return np.logaddexp.reduce(s[a : b + 1]) - np.logaddexp.reduce(w[a : b + 1])

    n = len(s)
    return np.array([min(max(level(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_isotonic_entropic(twin, dtype):
    rows = torch.cat([normal(20, 9), 40 * normal(5, 9), torch.arange(9.0)[None], torch.ones(1, 9)]).to(dtype)
    targets = torch.cat([normal(20, 9, seed=1), normal(6, 9, seed=2), torch.zeros(1, 9)]).to(dtype)
    targets[26] = 0
    v, joined = twin(isotonic_entropic, rows, targets)
    expected = np.stack([by_formula(s, w) for s, w in zip(rows.double().numpy(), targets.double().numpy())])
    np.testing.assert_allclose(v.numpy(), expected, **tolerance(dtype))
    reference, reference_joined = isotonic_entropic.reference(rows, targets)
    torch.testing.assert_close(v, reference)
    assert torch.equal(joined, reference_joined) and not joined[-1].any()
    tail = torch.where(torch.arange(9) < 3, 0.0, -INF).to(dtype)
    v, joined = twin(isotonic_entropic, rows[:3].sort(descending=True).values, tail.expand(3, 9).contiguous())
    assert v.isfinite().all() and joined[:, 3:].all()
    torch.testing.assert_close(
        v, isotonic_entropic.reference(rows[:3].sort(descending=True).values, tail.expand(3, 9))[0]
    )


def test_rows_that_are_not_numbers(twin):
    rows = torch.tensor([[1.0, NAN], [1.0, -INF], [1.0, 2.0], [1.0, 2.0]])
    targets = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, INF], [0.0, 0.0]])
    v, joined = twin(isotonic_entropic, rows, targets)
    assert v[:3].isnan().all() and v[3].isfinite().all() and joined[:, 1].tolist() == [False, False, False, True]
    assert twin(isotonic_entropic, torch.zeros(2, 0), torch.zeros(2, 0))[0].shape == (2, 0)
    assert twin(isotonic_entropic, torch.zeros(0, 3), torch.zeros(0, 3))[1].shape == (0, 3)


def test_the_formula_agrees():
    s, w = normal(20, 8), normal(20, 8, seed=1)
    assert torch.equal(joined_by_formula(s, w), isotonic_entropic.reference(s, w)[1])
    joined = torch.tensor([[False, True, False]])
    found = segment_logsumexp(joined, torch.tensor([[1.0, 2.0, 5.0]]))
    torch.testing.assert_close(found, torch.tensor([[np.logaddexp(1, 2)] * 2 + [5.0]], dtype=torch.float32))
