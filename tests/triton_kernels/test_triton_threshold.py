"""The search ends with a certificate: T passes 1 between two neighbouring numbers, or c solves its own support."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from omegamax.kernels.triton.rows import STEPS, TRITON_TYPE, order_of
from omegamax.kernels.triton.threshold import advance, bits_of, first_low, tile_sums


@triton.jit
def search(gaps, thresholds, steps, n, e: tl.constexpr, ORDER: tl.constexpr, N: tl.constexpr, STEPS: tl.constexpr):
    """Searches the threshold of one row, and counts the points that it tries."""
    column = tl.arange(0, N)
    row = tl.program_id(0)
    gap = tl.load(gaps + row * n + column, mask=column < n, other=float("inf"))[None, :]
    c = tl.max(tl.zeros_like(gap), 1) + 1.0
    high = bits_of(c)
    low = first_low(n, e, c)
    is_open = c > 0
    step = 0
    while (tl.max(is_open.to(tl.int32), 0) > 0) & (step < STEPS):
        total, slope, inside = tile_sums(gap, c, e, ORDER)
        c, low, high, is_open = advance(step, c, low, high, is_open, total, slope, inside, e, ORDER)
        step += 1
    at = row + tl.arange(0, 1)
    tl.store(thresholds + at, c)
    tl.store(steps + at, tl.zeros((1,), tl.int32) + step)


@triton.jit
def evaluate(gaps, points, totals, n, e: tl.constexpr, ORDER: tl.constexpr, N: tl.constexpr):
    """Computes T at one point for each row, with the operations of the search."""
    column = tl.arange(0, N)
    at = tl.program_id(0) + tl.arange(0, 1)
    gap = tl.load(gaps + tl.program_id(0) * n + column, mask=column < n, other=float("inf"))[None, :]
    total, _, _ = tile_sums(gap, tl.load(points + at), e, ORDER)
    tl.store(totals + at, total)


def hard_gaps(n, dtype, e):
    """Random, flat, one far ahead, geometric, all but equal, and −inf among them; 0 is in every row."""
    d = torch.rand(8, n, dtype=dtype) * 3
    d[1] = 0
    d[2] = 0.999 / e
    d[3] = (1 - 0.97 ** torch.arange(n, dtype=dtype)) / e
    d[4] = torch.arange(n, dtype=dtype) * torch.finfo(dtype).eps
    d[5, ::2] = torch.inf
    d[6] = 1e30
    d[7] = torch.rand(n, dtype=dtype) * 1e-3
    d[:, n // 3] = 0
    return d


def run(d, alpha):
    n = d.shape[-1]
    thresholds, steps = d.new_empty(len(d)), torch.empty(len(d), dtype=torch.int32)
    e, order, wide = alpha - 1, order_of(alpha), triton.next_power_of_2(n)
    search[(len(d),)](d, thresholds, steps, n, e, order, wide, STEPS[d.dtype])

    def at(points):
        totals = torch.empty_like(points)
        evaluate[(len(d),)](d, points, totals, n, e, order, wide)
        return totals

    return thresholds, steps, at


@pytest.mark.parametrize("dtype", TRITON_TYPE, ids=str)
@pytest.mark.parametrize("n", [1, 5, 90])
@pytest.mark.parametrize("alpha", [1.5, 1.05, 1.3, 1.9])
def test_the_sum_passes_one_between_neighbouring_numbers(alpha, n, dtype):
    thresholds, steps, total_at = run(hard_gaps(n, dtype, alpha - 1), alpha)
    below = torch.from_numpy(np.nextafter(thresholds.numpy(), np.zeros_like(thresholds.numpy())))
    assert (total_at(thresholds) >= 1).all() and (total_at(below) < 1).all()
    assert steps.max() < STEPS[dtype]


@pytest.mark.parametrize("dtype", TRITON_TYPE, ids=str)
@pytest.mark.parametrize("n", [1, 5, 90])
def test_the_threshold_of_sparsemax_solves_its_own_support(n, dtype):
    d = hard_gaps(n, dtype, 1.0)
    thresholds, steps, _ = run(d, 2.0)
    for row, c in zip(d.double(), thresholds.double()):
        inside = row[row < c]
        exact = (1 + inside.sum()) / len(inside)
        assert abs(c - exact) <= 4 * torch.finfo(dtype).eps * exact
        ahead = row[row >= c]
        assert not len(ahead) or ahead.min() >= exact * (1 - 4 * torch.finfo(dtype).eps)
    assert steps.max() < STEPS[dtype]


def test_few_points_are_tried():
    """On random rows: not a bound, but what makes the search worth its while."""
    d = torch.rand(10, 90) * 3
    d[:, 0] = 0
    assert run(d, 2.0)[1].max() <= 10
    assert run(d, 1.5)[1].max() <= 20
