"""The quadratic program of SparseMAP on all vertices written out: slow and obvious.

    maximise over p in the simplex   <p, s> − ½ ‖A' p‖²        A: one vertex per row, s: its score

Accelerated projected gradient finds the support; the equations of optimality on the support give p to rounding; and the
result is checked against every vertex before it is returned.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def solve(vertices: np.ndarray, scores: np.ndarray, n_steps: int = 20_000) -> np.ndarray:
    """A' p at the optimum, for vertices (n, parts) and their scores (n,), extra ones included."""
    gram = vertices @ vertices.T
    rate = 1 / max(np.linalg.eigvalsh(gram)[-1], 1e-12)
    p = np.full(len(scores), 1 / len(scores))
    ahead, momentum = p, 1.0
    for step in range(n_steps):
        new = _project(ahead + rate * (scores - gram @ ahead))
        if (new - ahead) @ (new - p) < 0:  # restart
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - p)
        p, momentum = new, following
        if step % 50 == 49:
            for least in (1e-3, 1e-5, 1e-8):
                polished = _polished(vertices, scores, gram, np.flatnonzero(p > least))
                if polished is not None:
                    return vertices.T @ polished
    raise AssertionError("vertex_qp: no optimum found")


def _polished(vertices: np.ndarray, scores: np.ndarray, gram: np.ndarray, support: np.ndarray) -> np.ndarray | None:
    n = len(support)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = gram[np.ix_(support, support)]
    system[n, n] = 0
    found = np.linalg.lstsq(system, np.append(scores[support], 1.0), rcond=1e-13)[0][:n]
    if found.min() < 0:  # several p give the same mean: is there one among them that is a distribution?
        lifted = np.concatenate([vertices[support].T, np.ones((1, n))])
        found, left = nnls(lifted, lifted @ found)
        if left > 1e-10:
            return None
    full = np.zeros_like(scores)
    full[support] = found
    slack = scores - gram @ full
    scale = np.abs(slack).max() + np.abs(scores).max()
    return full if slack.max() - full @ slack <= 1e-13 * scale and abs(full.sum() - 1) < 1e-12 else None


def _project(x: np.ndarray) -> np.ndarray:
    ordered = np.sort(x)[::-1]
    excess = np.cumsum(ordered) - 1
    size = np.flatnonzero(ordered * np.arange(1, len(x) + 1) > excess)[-1] + 1
    return np.maximum(x - excess[size - 1] / size, 0)
