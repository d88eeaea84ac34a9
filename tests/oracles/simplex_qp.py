"""max <p, x> − Ω(p) over the simplex, three ways.

- `by_orderings`: Ω = ½(‖p‖² − 1) + a penalty that is linear wherever the order of the weights is fixed. The optimum
  lies inside one cell of the arrangement of all weak orderings; on each cell the problem is a least-squares problem.
- `entmax`: Ω = (Σ p^α − 1)/(α (α − 1)): on the support p^(α−1) = (α − 1)(x − τ), one unknown.
- `by_programming`: any smooth Ω, by sequential quadratic programming on every support; to about 1e-6.
"""

import functools
import itertools

import numpy as np
from scipy import optimize


@functools.cache
def weak_orderings(n):
    """All ways to rank n items with ties: lists of blocks, from the largest to the smallest."""
    return [
        [np.flatnonzero(np.array(ranks) == r) for r in range(max(ranks) + 1)]
        for ranks in itertools.product(range(n), repeat=n)
        if set(ranks) == set(range(max(ranks) + 1))
    ]


def by_orderings(x, penalty, *, simplex=True):
    """The maximiser of <p, x> − ½‖p‖² − penalty(p) over the simplex, or over p >= 0.

    `x` holds floats, or rational numbers for an exact answer. On a cell the penalty is <c, p>; c is read off at a
    point of the cell. The stationary point on the cell's span is the mean of x − c over each block, shifted for
    Σ p = 1. The last block may be held at zero.
    """
    x = np.asarray(x)
    best, at = -np.inf, None
    for blocks in weak_orderings(len(x)):
        slope = _gradient_on_blocks(penalty, blocks, x)
        for free in (blocks, blocks[:-1]):
            p = 0 * x
            for block in free:
                p[block] = (x[block] - slope[block]).sum() / len(block)
            if simplex:
                if not free:
                    continue
                used = np.concatenate(free)
                p[used] += (1 - p[used].sum()) / len(used)
            if p.min() < 0:
                continue
            value = p @ (x - p / 2) - penalty(p)
            if value > best:
                best, at = value, p
    return at


def _gradient_on_blocks(penalty, blocks, like):
    """For each block, the slope of the penalty along a move of the whole block, spread evenly."""
    inside, slope = 0 * like, 0 * like
    for rank, block in enumerate(blocks):
        inside[block] = 4 * (len(blocks) - rank)
    for block in blocks:
        move = 0 * like
        move[block] += 1
        slope[block] = (penalty(inside + move) - penalty(inside - move)) / (2 * len(block))
    return slope


def entmax(x, alpha):
    """The maximiser for a Tsallis entropy; Shannon's at alpha = 1.

    The unknown is w, the least weight of the support, because the multiplier loses it: with e = alpha − 1 the others
    are (w^e + e (x_i − x_min))^(1/e).
    """
    x = np.asarray(x, dtype=np.float64)
    e = alpha - 1

    def weights(w, gaps):
        if e == 0:
            return w * np.exp(gaps)
        least = np.expm1(e * np.log(w)) if w > 0 else -1.0
        base = least + e * gaps  # minus one
        return np.where(base > -1, np.exp(np.log1p(np.where(base > -1, base, 0)) / e), 0)

    order = np.sort(x)[::-1]
    for size in range(len(x), 0, -1):
        gaps = order[:size] - order[size - 1]
        if weights(0.0, gaps).sum() <= 1:
            break
    w = optimize.brentq(lambda w: weights(w, gaps).sum() - 1, 0.0, 1.0, xtol=1e-300, rtol=1e-15)
    p = np.zeros(len(x))
    inside = x >= order[size - 1]
    p[inside] = weights(w, x[inside] - order[size - 1])
    return p


def by_programming(x, omega):
    """The best of all supports, each solved from its centre."""
    x = np.asarray(x, dtype=np.float64)
    best, at = -np.inf, None
    for kept in itertools.product([False, True], repeat=len(x)):
        support = np.flatnonzero(kept)
        if len(support) == 0:
            continue

        def spread(y, support=support):
            p = np.zeros(len(x))
            p[support] = y
            return p

        result = optimize.minimize(
            lambda y: omega(spread(y)) - spread(y) @ x,
            np.full(len(support), 1 / len(support)),
            bounds=[(1e-12, 1)] * len(support),
            constraints={"type": "eq", "fun": lambda y: y.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 300},
        )
        p = spread(np.clip(result.x, 0, 1))
        p /= p.sum()
        value = p @ x - omega(p)
        if value > best:
            best, at = value, p
    return at
