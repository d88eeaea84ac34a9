"""SparseMAP as one would write it with NumPy and SciPy: an active set and a textbook oracle, one item after the other.

The compiled solver is compared with it where lp-sparsemap cannot be built (its only release on the registry lacks the
Cython sources that its setup needs).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment


def sparsemap(best: Callable[[np.ndarray, np.ndarray], tuple], scores: np.ndarray, extra: np.ndarray) -> tuple:
    """The mean, and the vertices (n, parts) of the face; `best(scores, extra)` returns a vertex and its extra parts."""
    vertices, extras = (part[None] for part in best(scores, extra))
    p = np.ones(1)
    for _ in range(10_000):
        gradient = scores - p @ vertices
        vertex, more = best(gradient, extra)
        gap = gradient @ vertex + extra @ more - p @ (vertices @ gradient + extras @ extra)
        if gap < 1e-10 or ((vertices == vertex).all(1) & (extras == more).all(1)).any():
            break
        vertices, extras, p = np.vstack([vertices, vertex]), np.vstack([extras, more]), np.append(p, 0.0)
        while True:
            n = len(p)
            system = np.ones((n + 1, n + 1))
            system[:n, :n] = vertices @ vertices.T
            system[n, n] = 0
            wanted = np.linalg.lstsq(system, np.append(vertices @ scores + extras @ extra, 1.0), rcond=None)[0][:n]
            if wanted.min() > 1e-12:
                p = wanted
                break
            falling = wanted <= 1e-12
            ratios = np.where(falling, p / np.where(falling, p - wanted, 1), np.inf)
            gone = int(ratios.argmin())
            p = np.delete(p + min(1.0, ratios[gone]) * (wanted - p), gone)
            vertices, extras = np.delete(vertices, gone, 0), np.delete(extras, gone, 0)
    return p @ vertices, vertices


def pull(vertices: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """The projector onto the face, times a direction."""
    span = vertices[1:] - vertices[0]
    return np.linalg.lstsq(span.T, direction, rcond=None)[0] @ span if len(span) else 0 * direction


def matching(n: int) -> Callable:
    def best(scores: np.ndarray, extra: np.ndarray) -> tuple:
        rows, columns = linear_sum_assignment(scores.reshape(n, n), maximize=True)
        vertex = np.zeros(n * n)
        vertex[rows * n + columns] = 1
        return vertex, extra[:0]

    return best


def chain(n: int, c: int) -> Callable:
    def best(scores: np.ndarray, extra: np.ndarray) -> tuple:
        emissions, transitions = scores.reshape(n, c), extra.reshape(c, c)
        value, back = emissions[0], np.zeros((n, c), dtype=int)
        for place in range(1, n):
            total = value[:, None] + transitions
            back[place] = total.argmax(0)
            value = total.max(0) + emissions[place]
        tags = [int(value.argmax())]
        for place in range(n - 1, 0, -1):
            tags.append(int(back[place, tags[-1]]))
        tags = np.array(tags[::-1])
        vertex, more = np.zeros((n, c)), np.zeros((c, c))
        vertex[np.arange(n), tags] = 1
        np.add.at(more, (tags[:-1], tags[1:]), 1)
        return vertex.ravel(), more.ravel()

    return best


def arborescence(size: int) -> Callable:
    """Any number of words under the root, by Chu-Liu and Edmonds."""

    def best(scores: np.ndarray, extra: np.ndarray) -> tuple:
        arcs = scores.reshape(size, size).copy()
        np.fill_diagonal(arcs, -np.inf)
        vertex = np.zeros((size, size))
        heads = _edmonds(arcs)
        vertex[heads[1:], np.arange(1, size)] = 1
        return vertex.ravel(), extra[:0]

    return best


def _edmonds(arcs: np.ndarray) -> np.ndarray:
    """The head of every node of the best tree rooted in 0, by contracting cycles, recursively."""
    n = len(arcs)
    heads = arcs.argmax(0)
    heads[0] = 0
    cycle = _cycle(heads)
    if cycle is None:
        return heads
    inside = np.zeros(n, dtype=bool)
    inside[cycle] = True
    outside = np.flatnonzero(~inside)
    chosen = arcs[heads, np.arange(n)]
    gain = arcs - np.where(np.isfinite(chosen), chosen, 0)
    small = np.full((len(outside) + 1, len(outside) + 1), -np.inf)
    small[:-1, :-1] = arcs[np.ix_(outside, outside)]
    into, out_of = gain[np.ix_(outside, cycle)], arcs[np.ix_(cycle, outside)]
    small[:-1, -1], small[-1, :-1] = into.max(1), out_of.max(0)
    found = _edmonds(small)
    result = heads.copy()
    for number, node in enumerate(outside):
        if node != 0:
            at_cycle = found[number] == len(outside)
            result[node] = cycle[out_of[:, number].argmax()] if at_cycle else outside[found[number]]
    result[cycle[into[found[-1]].argmax()]] = outside[found[-1]]
    return result


def _cycle(heads: np.ndarray) -> np.ndarray | None:
    colour = np.zeros(len(heads), dtype=int)
    colour[0] = -1
    for start in range(1, len(heads)):
        node = start
        while colour[node] == 0:
            colour[node] = start
            node = heads[node]
        if colour[node] == start:
            members, at = [node], heads[node]
            while at != node:
                members.append(at)
                at = heads[at]
            return np.array(members)
    return None
