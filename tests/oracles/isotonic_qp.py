"""Proximal operators as quadratic programs that scipy solves exactly."""

import numpy as np
from scipy import optimize

from oracles.simplex_qp import by_orderings


def differences(n):
    """The matrix D with (D y)_i = y_{i+1} − y_i."""
    return np.diff(np.eye(n), axis=0)


def isotonic(x):
    """argmin ½‖y − x‖² over D y >= 0. Its dual: y = x + D'z with z >= 0 of least norm."""
    x = np.asarray(x, dtype=np.float64)
    if len(x) == 1:
        return x.copy()
    z, _ = optimize.nnls(-differences(len(x)).T, x)
    return x + differences(len(x)).T @ z


def total_variation(x, strength):
    """argmin ½‖y − x‖² + strength ‖D y‖₁. Its dual: y = x − D'z with |z| <= strength of least norm."""
    x = np.asarray(x, dtype=np.float64)
    if len(x) == 1 or strength == 0:
        return x.copy()
    d = differences(len(x)).T
    dual = optimize.lsq_linear(d, x, bounds=(-strength, strength), method="bvls", tol=1e-15)
    return x - d @ dual.x


def ordered_l1(x, weights):
    """argmin ½‖y − x‖² + Σ w_i |y|_(i): the signs are those of x, the magnitudes by enumerating orderings."""
    x, weights = np.asarray(x, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    magnitude = by_orderings(np.abs(x), lambda y: weights @ np.sort(y)[::-1], simplex=False)
    return np.sign(x) * magnitude


def group_shrinkage(x, labels, strength):
    """argmin ½‖y − x‖² + strength Σ ‖y_g‖: along each group's direction, a problem in one number."""
    x, labels = np.asarray(x, dtype=np.float64), np.asarray(labels)
    y = np.zeros_like(x)
    for g in set(labels.tolist()):
        radius = np.linalg.norm(x[labels == g])
        cost = lambda r, radius=radius: 0.5 * (r - radius) ** 2 + strength * r  # noqa: E731
        best = optimize.minimize_scalar(cost, bounds=(0, radius + 1), method="bounded", options={"xatol": 1e-12}).x
        if cost(0) > cost(best):
            y[labels == g] = x[labels == g] * best / radius
    return y
