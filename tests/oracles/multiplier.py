"""max <p, x> − Ω(p) over the simplex by its one multiplier, in long double.

For a given τ the best p >= 0 of <p, x − τ> − Ω(p) has a closed form in u = (x − τ)₊; its sum grows as τ falls, so that
bisection finds where it is 1. Rows are (..., n).
"""

import numpy as np


def bisect(f, low, high):
    """The root of an increasing function, one per row."""
    low, high = np.array(low), np.array(high)
    for _ in range(90):
        middle = (low + high) / 2
        above = f(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


def by_multiplier(x, best, reach):
    """best(u) where it sums to 1, for a τ between max x − reach and max x."""
    x = np.asarray(x, dtype=np.longdouble)
    gap = x.max(-1, keepdims=True) - x
    nothing = np.zeros_like(gap[..., :1])
    height = bisect(lambda c: best(np.maximum(c - gap, 0)).sum(-1, keepdims=True) - 1, nothing, nothing + reach)
    return best(np.maximum(height - gap, 0))


def sqpnormmax(x, p):
    """Ω = ½(‖p‖_p² − 1). The derivative of its conjugate ½‖u‖_q², 1/p + 1/q = 1, is u^(q−1) ‖u‖_q^(2−q)."""
    q = np.longdouble(p) / (np.longdouble(p) - 1)

    def best(u):
        top = u.max(-1, keepdims=True)
        z = u / top
        power = z ** (q - 1)
        return top * power * (z * power).sum(-1, keepdims=True) ** (2 / q - 1)

    return by_multiplier(x, best, 1)


def normmax(x, alpha):
    """Ω = ‖p‖_α − 1. Its gradient (p/‖p‖_α)^(α−1) is x − τ where p > 0, and p/‖p‖_α has the α-norm 1: that finds τ."""
    alpha = np.longdouble(alpha)
    x = np.asarray(x, dtype=np.longdouble)
    gap = x.max(-1, keepdims=True) - x

    def ratio(c):  # p/‖p‖_α, given the largest x − τ
        u = np.maximum(c - gap, 0)
        return np.where(u > 0, np.where(u > 0, u, 1) ** (1 / (alpha - 1)), 0)

    nothing = np.zeros_like(gap[..., :1])
    c = bisect(lambda c: (ratio(c) ** alpha).sum(-1, keepdims=True) - 1, nothing, nothing + 1)
    return ratio(c) / ratio(c).sum(-1, keepdims=True)


def groupmax(x, groups, strength):
    """Ω = ½(‖p‖² − 1) + strength Σ_g ‖p_g‖: each group of u is shortened by strength."""
    same = np.asarray(groups)[:, None] == np.asarray(groups)[None, :]

    def best(u):
        norm = np.sqrt((u * u) @ same)
        return np.where(norm > strength, u - strength * u / np.where(norm > 0, norm, 1), 0)

    return by_multiplier(x, best, 1 + np.longdouble(strength))
