"""LP-SparseMAP with every local polytope written out as a convex hull: slow and obvious.

    min over μ, p_f of  ½‖μ‖² − <θ, μ> − Σ_f <η_f, N_f p_f>      s.t.  M_f p_f = μ on f,  Σ p_f = 1,  p_f ≥ 0

SciPy's SLSQP finds which p are positive; the equalities that are left are solved by least squares, to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize


class Hull(NamedTuple):
    """A factor: the entries it sees, its members there (members, width), and their scores' places and counts."""

    entries: list[int]
    members: np.ndarray
    places: list[int]
    extra: np.ndarray


def solve(scores: np.ndarray, extra_scores: np.ndarray, hulls: list[Hull], start: np.ndarray | None = None):
    """μ and ν."""
    n = len(scores)
    sizes = [len(hull.members) for hull in hulls]
    firsts = n + np.concatenate([[0], np.cumsum(sizes)])
    total = int(firsts[-1])
    linear = np.zeros(total)
    linear[:n] = scores
    rows, right = [], []
    for hull, first in zip(hulls, firsts):
        place = slice(int(first), int(first) + len(hull.members))
        linear[place] = hull.extra @ extra_scores[hull.places] if hull.places else 0
        for entry, column in zip(hull.entries, hull.members.T):
            row = np.zeros(total)
            row[entry], row[place] = -1, column
            rows.append(row)
            right.append(0.0)
        row = np.zeros(total)
        row[place] = 1
        rows.append(row)
        right.append(1.0)
    matrix, right = np.array(rows), np.array(right)
    independent = _independent_rows(np.column_stack([matrix, right]))
    matrix, right = matrix[independent], right[independent]
    quadratic = np.zeros(total)
    quadratic[:n] = 1
    found = minimize(
        lambda x: 0.5 * (quadratic * x) @ x - linear @ x,
        np.full(total, 0.5),
        jac=lambda x: quadratic * x - linear,
        bounds=[(None, None)] * n + [(0, None)] * (total - n),
        constraints=[{"type": "eq", "fun": lambda x: matrix @ x - right, "jac": lambda x: matrix}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert np.abs(matrix @ found.x - right).max() < 1e-6, found.message
    x = _polished(found.x, n, quadratic, linear, matrix, right)
    nu = np.zeros(len(extra_scores))
    for hull, first in zip(hulls, firsts):
        np.add.at(nu, hull.places, x[int(first) : int(first) + len(hull.members)] @ hull.extra)
    return x[:n], nu


def _independent_rows(matrix):
    kept: list[int] = []
    for row in range(len(matrix)):
        if np.linalg.matrix_rank(matrix[[*kept, row]], tol=1e-9) == len(kept) + 1:
            kept.append(row)
    return kept


def _polished(x, n, quadratic, linear, matrix, right):
    """Equalities among the positive p; a p that comes out negative was zero."""
    used = np.concatenate([np.ones(n, dtype=bool), x[n:] > 1e-5])
    for _ in range(len(x)):
        a = matrix[:, used]
        size = int(used.sum())
        kkt = np.block([[np.diag(quadratic[used]), a.T], [a, np.zeros((len(a), len(a)))]])
        solution = np.linalg.lstsq(kkt, np.concatenate([linear[used], right]), rcond=1e-12)[0]
        point = np.zeros_like(x)
        point[used] = solution[:size]
        price = linear - quadratic * point - matrix.T @ solution[size:]  # what a p that is zero would win
        if (point[n:] < -1e-9).any():
            used[n + int(point[n:].argmin())] = False
        elif (price[~used] > 1e-7).any():
            used[np.flatnonzero(~used)[int(price[~used].argmax())]] = True
        else:
            return point
    raise AssertionError("no active set was found")
