"""Row problems solved slowly in exact or extended numbers, for one row of any finite length.

Every function takes a list of numbers (`Fraction` for an exact answer, `numpy.longdouble` for a fast one) and uses only
comparisons and the four operations, or long double where a power is needed. The caller takes masked positions out.
"""

from fractions import Fraction

import numpy as np


def project_simplex(x):
    """argmin ‖p − x‖² over the simplex: the largest k entries with x_(k) above their threshold keep the excess."""
    top = max(x)
    x = [y - top for y in x]
    total, threshold = -1, None
    for k, y in enumerate(sorted(x, reverse=True), 1):
        total = total + y
        if k * y <= total:
            break
        threshold = total / k
    return [max(y - threshold, 0 * y) for y in x]


def isotonic(x):
    """argmin ‖y − x‖² over y_1 <= y_2 <= ...: neighbours out of order are pooled until there are none."""
    blocks = []
    for value in x:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    return [total / size for total, size in blocks for _ in range(size)]


def oscarmax(x, strength):
    """Ω = ½(‖p‖² − 1) + strength Σ_{i<j} max(p_i, p_j): weights are ordered as scores, and then Ω is quadratic."""
    order = sorted(range(len(x)), key=lambda i: -x[i])
    top = x[order[0]]
    tilted = [-((x[i] - top) + strength * rank) for rank, i in enumerate(order)]
    weights = [0 * top] * len(x)
    for i, p in zip(order, project_simplex([-y for y in isotonic(tilted)])):
        weights[i] = p
    return weights


def total_variation(x, strength):
    """argmin ½‖y − x‖² + strength Σ |y_{i+1} − y_i| by its level sets.

    {y > t} is the smallest S that maximises Σ_S (x − t) − strength · perimeter(S), which a recursion over two labels
    finds. A stretch whose level set at its own mean is empty is constant; otherwise it is cut there, and a stretch
    depends on its neighbours only by whether they are above or below.
    """
    y = [None] * len(x)
    stretches = [(0, len(x))]
    pulls = [0 * strength] * (len(x) + 1)  # at each cut: +strength if the right side is above
    while stretches:
        first, last = stretches.pop()
        own = list(x[first:last])
        own[0] = own[0] - pulls[first]
        own[-1] = own[-1] + pulls[last]
        mean = sum(own[1:], own[0]) / len(own)
        inside = _best_labels([value - mean for value in own], strength)
        if not any(inside):
            y[first:last] = [mean] * len(own)
            continue
        begin = first
        for i in range(first + 1, last + 1):
            if i == last or inside[i - first] != inside[i - 1 - first]:
                if i < last:
                    pulls[i] = strength if inside[i - first] else -strength
                stretches.append((begin, i))
                begin = i
    return y


def _best_labels(gains, strength):
    """The smallest set with the largest Σ gains − strength · (number of changes along the row), if that is positive."""
    slack = 0 if isinstance(gains[0], Fraction) else 1e-17 * (sum(abs(g) for g in gains) + abs(strength))
    ahead = []  # how much better it is that i is inside
    lead = gains[0]
    for gain in gains[1:]:
        ahead.append(lead)
        lead = gain + max(min(lead, strength), -strength)
    label = lead > slack
    labels = [label]
    for lead in reversed(ahead):
        label = lead > -strength + slack if label else lead > strength + slack
        labels.append(label)
    labels.reverse()
    return labels if not all(labels) else [False] * len(labels)  # all inside gains nothing: the mean was taken off


def fusedmax(x, strength):
    """Ω = ½(‖p‖² − 1) + strength Σ |p_{i+1} − p_i|: denoise, then project."""
    top = max(x)
    return project_simplex(total_variation([y - top for y in x], strength))


def prox_owl(x, weights):
    """argmin ½‖y − x‖² + Σ w_i |y|_(i), w non-increasing: pool the sorted magnitudes less the weights, clip at zero."""
    order = sorted(range(len(x)), key=lambda i: -abs(x[i]))
    pooled = isotonic([weights[rank] - abs(x[i]) for rank, i in enumerate(order)])
    y = [0 * value for value in x]
    for i, value in zip(order, pooled):
        y[i] = max(-value, 0 * value) * (1 if x[i] > 0 else -1)
    return y


def entmax(x, alpha):
    """Ω = (Σ p^α − 1)/(α (α − 1)), Shannon's at α = 1; long double.

    With e = α − 1, p_i = (c + e (x_i − max x))₊^(1/e) where c = (largest weight)^e. The unknown of the bisection is the
    logarithm of the largest weight, which is well determined for every α.
    """
    gap = np.asarray(x, dtype=np.longdouble)
    gap = gap - gap.max()
    e = np.longdouble(alpha) - 1

    def weights(log_top):
        if e == 0:
            return np.exp(log_top + gap)
        below_one = np.expm1(e * log_top) + e * gap  # c + e (x − max x) − 1
        if e * log_top > -0.5:
            log_base = np.log1p(np.where(below_one > -1, below_one, 0))
            inside = below_one > -1
        else:
            base = np.exp(e * log_top) + e * gap
            inside = base > 0
            log_base = np.log(np.where(inside, base, 1))
        return np.where(inside, np.exp(log_base / e), 0)

    low, high = -np.log(np.longdouble(len(gap))) - 1e-9, np.longdouble(0)
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if weights(middle).sum() < 1 else (low, middle)
    return weights((low + high) / 2)
