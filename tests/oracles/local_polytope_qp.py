"""LP-SparseMAP with every local polytope written out as a convex hull: slow and obvious.

    max over μ, p_f of  <θ, μ> + Σ_f <η_f, N_f p_f> − ½‖μ‖²      s.t.  M_f p_f = μ on f,  Σ p_f = 1,  p_f ≥ 0

SciPy's linear programs give corners of this polytope along the gradient; the quadratic program on the corners found so
far is solved exactly; this ends when no corner is better, which proves that the answer is the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, nnls

from oracles import vertex_qp


class Hull(NamedTuple):
    """A factor: the entries it sees, its members there (members, width), and their scores' places and counts."""

    entries: list[int]
    members: np.ndarray
    places: list[int]
    extra: np.ndarray


def solve(scores: np.ndarray, extra_scores: np.ndarray, hulls: list[Hull]) -> tuple[np.ndarray, np.ndarray]:
    """μ and ν."""
    corner = _corners(scores, extra_scores, hulls)
    corners = [corner(scores)]
    for _ in range(200):
        vertices, counts = (np.stack(each) for each in zip(*corners))
        mean = vertex_qp.solve(vertices, vertices @ scores + counts @ extra_scores)
        gradient = scores - mean
        along = vertices @ gradient + counts @ extra_scores
        new = corner(gradient)
        if new[0] @ gradient + new[1] @ extra_scores <= along.max() + 1e-11:
            return mean, _weights(vertices, along, mean) @ counts
        corners.append(new)
    raise AssertionError("local_polytope_qp: no optimum found")


def best(scores: np.ndarray, extra_scores: np.ndarray, hulls: list[Hull]) -> float:
    """The optimum of the linear program, without ½‖μ‖²."""
    entries, counts = _corners(scores, extra_scores, hulls)(scores)
    return float(entries @ scores + counts @ extra_scores)


def _weights(vertices, along, mean):
    """p of the best corners whose mean is μ."""
    best = along >= along.max() - 1e-9
    p = np.zeros(len(along))
    p[best], _ = nnls(np.vstack([vertices[best].T, np.ones(best.sum())]), np.append(mean, 1.0))
    return p


def _corners(scores, extra_scores, hulls):
    n = len(scores)
    firsts = n + np.concatenate([[0], np.cumsum([len(hull.members) for hull in hulls])]).astype(int)
    total = firsts[-1]
    rows, right, price = [], [], np.zeros(total)
    for hull, first in zip(hulls, firsts):
        place = slice(first, first + len(hull.members))
        price[place] = hull.extra @ extra_scores[hull.places] if hull.places else 0
        for entry, column in zip(hull.entries, hull.members.T):
            row = np.zeros(total)
            row[entry], row[place] = -1, column
            rows.append(row)
        row = np.zeros(total)
        row[place] = 1
        rows.append(row)
        right += [0.0] * len(hull.entries) + [1.0]

    def corner(gradient):
        price[:n] = gradient
        found = linprog(-price, A_eq=np.array(rows), b_eq=right, bounds=[(0, None)] * total, method="highs-ds")
        assert found.status == 0, found.message
        nu = np.zeros(len(extra_scores))
        for hull, first in zip(hulls, firsts):
            np.add.at(nu, hull.places, found.x[first : first + len(hull.members)] @ hull.extra)
        return found.x[:n], nu

    return corner
