"""Derivatives by central differences, extrapolated once."""

import numpy as np


def derivative(f, t, step=1e-4):
    """f'(t) for a function of one number, of any shape; the error is of order step^4."""
    wide = (np.asarray(f(t + step)) - np.asarray(f(t - step))) / (2 * step)
    narrow = (np.asarray(f(t + step / 2)) - np.asarray(f(t - step / 2))) / step
    return (4 * narrow - wide) / 3


def jacobian(f, x, step=1e-4):
    """∂f_i / ∂x_j of a function that maps rows to rows."""
    x = np.asarray(x, dtype=np.float64)
    return derivative(lambda t: np.asarray(f(x + t * np.eye(len(x)))), 0.0, step).T
