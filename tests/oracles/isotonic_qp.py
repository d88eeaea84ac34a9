"""Proximal operators as quadratic programs that scipy solves exactly."""

from fractions import Fraction

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
    """argmin ½‖y − x‖² + Σ w_i |y|_(i): the signs are those of x, the magnitudes by enumerating orderings.

    In rational numbers: comparing objectives cannot tell apart points closer than the root of a rounding error.
    """
    magnitude, weights = _rational(np.abs(x)), _rational(weights)
    y = by_orderings(magnitude, lambda y: weights @ np.sort(y)[::-1], simplex=False)
    return np.sign(x) * y.astype(np.float64)


def _rational(row):
    return np.array([Fraction(float(number)) for number in row], dtype=object)


def group_shrinkage(x, labels, strength):
    """argmin ½‖y − x‖² + strength Σ ‖y_g‖: for y_g = r x_g / ‖x_g‖, r >= 0 the slope r − ‖x_g‖ + strength decides."""
    x, labels = np.asarray(x, dtype=np.float64), np.asarray(labels)
    y = np.zeros_like(x)
    for g in set(labels.tolist()):
        radius = np.linalg.norm(x[labels == g])
        if radius > strength:
            y[labels == g] = x[labels == g] / radius * (radius - strength)
    return y
