"""The threshold of a row, searched in a bracket that is proved: what all kernels here share.

With e = α − 1 (1 for sparsemax) and d ≥ 0 the distance of a score from the largest, the weights are

    p = (c − e d)_+^(1/e)          where c solves T(c) = Σ p = 1

T increases with c. T(1) ≥ 1, because the largest score alone gives 1, and T(n^−e) ≤ 1, because no weight of n is above
c^(1/e): this is the first bracket. Newton's method on T^e, which is convex, proposes points, and every point that is
tried moves one end of the bracket. The search ends

  - for sparsemax when Newton's point is the point itself: c is exact for its own support;
  - for other orders when T passes 1 between two neighbouring floating-point numbers;

and it does end: positive numbers are ordered as their bits are, every fourth step halves the number of floating-point
numbers in the bracket, and there are fewer than 2^30 of them in [0, 1] (2^62 in double precision).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def bits_of(x):
    """Returns the bits of positive numbers as integers, which are ordered as the numbers are."""
    if x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True)
    else:
        return x.to(tl.int32, bitcast=True)


@triton.jit
def number_of(bits):
    """Returns the number with these bits."""
    if bits.dtype == tl.int64:
        return bits.to(tl.float64, bitcast=True)
    else:
        return bits.to(tl.float32, bitcast=True)


@triton.jit
def powers(gap, c, e, ORDER: tl.constexpr):
    """Computes the weights (c − e d)_+^(1/e) before they are divided by their sum. ORDER is 2α, or 0 for any α."""
    u = c[:, None] - e * gap
    inside = u > 0
    if ORDER == 4:
        return tl.where(inside, u, 0.0)
    elif ORDER == 3:
        return tl.where(inside, u * u, 0.0)
    else:
        return tl.where(inside, tl.exp2(tl.log2(tl.where(inside, u, 1.0)) / e), 0.0)


@triton.jit
def tile_sums(gap, c, e, ORDER: tl.constexpr):
    """Adds up a tile of distances at c, one number per row: Σ p and e times its derivative.

    For sparsemax the second is the number of scores inside and a third, their Σ d, makes Newton's point exact.
    """
    u = c[:, None] - e * gap
    inside = u > 0
    if ORDER == 4:
        total = tl.sum(tl.where(inside, u, 0.0), 1)
        slope = tl.sum(tl.where(inside, 1.0, 0.0).to(u.dtype), 1)
        return total, slope, tl.sum(tl.where(inside, gap, 0.0), 1)
    elif ORDER == 3:
        above = tl.where(inside, u, 0.0)
        slope = tl.sum(above, 1)
        return tl.sum(above * above, 1), slope, slope
    else:
        safe = tl.where(inside, u, 1.0)
        power = tl.where(inside, tl.exp2(tl.log2(safe) / e), 0.0)
        slope = tl.sum(power / safe, 1)
        return tl.sum(power, 1), slope, slope


@triton.jit
def newton(c, total, slope, inside, e, ORDER: tl.constexpr):
    """Computes Newton's next point for T(c)^e = 1 from the sums at c. Rows that have none (NaN, −inf) divide by 1."""
    slope = tl.where(slope > 0, slope, 1.0)
    total = tl.where(total > 0, total, 1.0)
    if ORDER == 4:
        return (1.0 + inside) / slope
    elif ORDER == 3:
        return c - (total - tl.sqrt(total)) / slope
    else:
        return c - (total - tl.exp2((1.0 - e) * tl.log2(total))) / slope


@triton.jit
def advance(step, c, low, high, is_open, total, slope, inside, e, ORDER: tl.constexpr):
    """Moves one end of the bracket to c, and proposes the next point.

    `low` and `high` are bits. Returns the next c (the threshold of rows that have just ended), the bracket, and which
    rows are still open.
    """
    here = bits_of(c)
    reached = total >= 1.0
    high = tl.where(is_open & reached, here, high)
    low = tl.where(is_open & (total < 1.0), here, low)
    point = newton(c, total, slope, inside, e, ORDER)
    if ORDER == 4:
        is_open_now = is_open & (point != c) & (high - low > 1)
        solved = point == c
        shift = high - high
    else:
        is_open_now = is_open & (high - low > 1)
        solved = is_open & (is_open == 0)  # nowhere
        # Newton's point is a little past the solution on purpose, so that the next sign closes the other end.
        shift = tl.where(reached, high - high - 2, high - high + 2)
    point = tl.minimum(tl.maximum(point, number_of(low)), number_of(high))
    proposed = tl.minimum(tl.maximum(bits_of(point) + shift, low + 1), high - 1)
    middle = low + (high - low) // 2
    halve = (high - low <= 8) | ((step % 4 == 3) & (step > 6))
    following = number_of(tl.where(halve, middle, proposed))
    ended = tl.where(solved, c, number_of(high))
    following = tl.where(is_open_now, following, ended)
    return tl.where(is_open, following, c), low, high, is_open_now


@triton.jit
def first_low(count, e, like):
    """Returns the bits of the lower end of the first bracket, a little below count^−e, shaped as `like`."""
    counts = tl.zeros_like(like) + count
    return bits_of(0.999 * tl.exp2(-e * tl.log2(counts)))
