"""SparseMAP of one item, as a search that calls an oracle for vertices: the specification of csrc/sparsemap/, in NumPy.

    maximise over μ in conv(Y)   <scores, μ> − ½ ‖μ‖²              (the norm of the regularised parts)

μ = Σ p_y m_y is kept as a few vertices with probabilities. Each step finds the best vertex along the gradient
g = scores − μ; the gap <g, vertex> − <g, μ> bounds what is left to win. A vertex that wins enters, p moves to the
optimum of the convex hull, and vertices whose probability vanishes leave: finitely many steps, as the value rises.

The derivative depends on the face of all vertices that are best along g. Where scores tie, the active set may not span
it: then MAP calls along g, slightly turned to either side of the hull, find the missing vertices.

Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 1976; Nocedal & Wright, "Numerical
Optimization", ch. 16 (unregularised scores make the Hessian singular); Niculae, Martins, Blondel & Cardie, ICML 2018.
"""

from __future__ import annotations

import enum
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_ROUNDING = 2 * np.finfo(np.float64).eps
_NOTHING = 4 * np.finfo(np.float64).eps  # a probability of zero, rounded
_DEPENDENT = 1e-16  # the part of a vertex outside the hull of others, squared and relative
_COORDINATE = 1e-10  # a coordinate of zero, rounded
_TIED = 1e-11  # relative: scores closer than this count as equal
_TURNS = (1e-7, 1e-9, 1e-11)  # how far the gradient is turned: far above rounding, less if the face was missed
_IDLE = 32


class Ending(enum.IntEnum):
    """How a search ended; the numbers are those of csrc/sparsemap/sparsemap.hpp."""

    OPTIMAL = 0
    INFEASIBLE = 1
    NOT_A_NUMBER = 2
    NOT_CONVERGED = 3
    BAD_ORACLE = 4


class OracleAnswer(NamedTuple):
    """The answer of an oracle: the score of the best vertex (−inf: there is none), and the vertex (parts,)."""

    value: float
    vertex: np.ndarray


@dataclass
class Outcome:
    """The result of a search: vertices (n, parts) with probabilities, zero for those that only span the face."""

    ending: Ending
    gap: float = np.inf
    n_calls: int = 0
    vertices: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0))
    factor: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (n, n): see `_ActiveSet.factor`


class _Basis(NamedTuple):
    """The lifted vertices (a, unit) as columns Q R: Q (lifted parts, n) is orthonormal, R (n, n) upper triangular."""

    unit: float
    q: np.ndarray
    r: np.ndarray

    def split(self, lifted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns Qᵀ lifted and the part outside the span; two rounds, because the first leaves its rounding errors."""
        inside = lifted @ self.q
        left = lifted - self.q @ inside
        again = left @ self.q
        return inside + again, left - self.q @ again

    def with_column(self, lifted: np.ndarray) -> _Basis:
        inside, left = self.split(lifted)
        n, norm = len(inside), np.linalg.norm(left)
        r = np.zeros((n + 1, n + 1))
        r[:n, :n], r[:n, n], r[n, n] = self.r, inside, norm
        return _Basis(self.unit, np.column_stack([self.q, left / norm]), r)


@dataclass
class _ActiveSet:
    """Vertices, affinely independent in their regularised entries, and the optimum p of their convex hull."""

    scores: np.ndarray
    n_regularized: int
    vertices: np.ndarray = field(init=False)  # (n, parts)
    p: np.ndarray = field(default_factory=lambda: np.zeros(0))
    _basis: _Basis | None = None  # of the vertices as they are; None after one left

    def __post_init__(self) -> None:
        self.vertices = np.zeros((0, len(self.scores)))

    @property
    def matrix(self) -> np.ndarray:
        """A: the regularised entries of the vertices, (n, regularised parts)."""
        return self.vertices[:, : self.n_regularized]

    @property
    def lift(self) -> float:
        """A squared norm of the vertices, which stands for 1 in their lifted form: their unit does not matter."""
        return float(np.square(self.matrix).sum(1).max()) or 1.0

    def basis(self, unit: float) -> _Basis:
        """Factors the vertices, lifted by `unit`, unless that is done."""
        if self._basis is None or self._basis.unit != unit:
            lifted = np.concatenate([self.matrix, np.full((len(self.vertices), 1), unit)], axis=1)
            self._basis = _Basis(unit, *np.linalg.qr(lifted.T))
        return self._basis

    def factor(self) -> np.ndarray:
        """Returns the Cholesky factor L of G = A Aᵀ + lift · 1 1ᵀ, from the vertices: their squares lose digits."""
        upper = self.basis(self.lift**0.5).r
        return (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T

    def direction(self) -> np.ndarray:
        found = self.scores.copy()
        found[: self.n_regularized] -= self.p @ self.matrix
        return found

    def scores_along(self, direction: np.ndarray) -> np.ndarray:
        return self.vertices @ np.where(np.isfinite(direction), direction, 0)  # no vertex uses a score of −inf

    def value(self) -> float:
        mean = self.p @ self.matrix
        return float(self.p @ self.scores_along(self.scores) - 0.5 * mean @ mean)

    def holds(self, vertex: np.ndarray) -> bool:
        return bool((self.vertices == vertex).all(1).any())

    def coordinates(self, vertex: np.ndarray) -> tuple[np.ndarray, bool]:
        """Returns affine coordinates of the nearest point in the hull, and whether the vertex lies in it."""
        own = vertex[: self.n_regularized]
        if not len(self.vertices):
            return np.zeros(0), False
        unit = float(np.sqrt(max(self.lift if self.matrix.any() else 0.0, own @ own) or 1.0))
        basis = self.basis(unit)
        inside, left = basis.split(np.append(own, unit))
        found = np.linalg.solve(basis.r, inside)
        terms = own @ own + np.square(found) @ np.square(self.matrix).sum(1)
        return found, bool(left @ left <= _DEPENDENT * terms + (8 * _ROUNDING * unit) ** 2)

    def append(self, vertex: np.ndarray, probability: float) -> bool:
        """Enters a vertex, unless it lies in the affine hull of the others."""
        if self.coordinates(vertex)[1]:
            return False
        self._enter(vertex, probability)
        return True

    def add(self, vertex: np.ndarray) -> None:
        """Enters a vertex that wins, and moves to the optimum."""
        coordinates, dependent = self.coordinates(vertex)
        if dependent:  # it replaces a member: along p − t · coordinates the value rises linearly in t
            ratios = np.where(coordinates > _COORDINATE, self.p, np.inf) / np.where(
                coordinates > _COORDINATE, coordinates, 1
            )
            blocking = int(ratios.argmin())
            self.p = self.p - ratios[blocking] * coordinates
            self.drop(blocking)
            self.append(vertex, float(ratios[blocking]))
        else:
            self._enter(vertex, 0.0)
        self.settle()

    def _enter(self, vertex: np.ndarray, probability: float) -> None:
        if self._basis is not None:
            self._basis = self._basis.with_column(np.append(vertex[: self.n_regularized], self._basis.unit))
        self.vertices = np.concatenate([self.vertices, vertex[None]])
        self.p = np.append(self.p, probability)

    def settle(self) -> None:
        """Moves p to the optimum of the convex hull; members that lose all their probability leave."""
        while True:
            slack = self.scores_along(self.direction())
            root = np.linalg.inv(self.factor())
            inverse = root.T @ root
            step, ones = inverse @ (slack - slack[0]), inverse.sum(1)
            step = step + (1 - self.p.sum() - step.sum()) / ones.sum() * ones
            wanted = self.p + step
            leaving = wanted <= _NOTHING
            if not leaving.any():
                self.p = wanted
                return
            positive = leaving & (self.p > 0)
            ratios = np.where(leaving, 0.0, np.inf)
            ratios[positive] = np.minimum(1, self.p[positive] / (self.p - wanted)[positive])
            blocking = int(ratios.argmin())
            self.p = self.p + ratios[blocking] * step
            self.drop(blocking)

    def drop(self, gone: int) -> None:
        self.vertices, self.p = np.delete(self.vertices, gone, 0), np.delete(self.p, gone)
        self._basis = None

    def orthogonal(self, numbers: np.ndarray) -> np.ndarray:
        """Projects numbers (regularised parts,) onto what is orthogonal to all differences of vertices."""
        span = self.matrix[1:] - self.matrix[0]
        if not len(span):
            return numbers
        return numbers - np.linalg.lstsq(span.T, numbers, rcond=None)[0] @ span


Search = Generator[np.ndarray, OracleAnswer, Outcome]


def search(
    scores: np.ndarray,
    n_regularized: int,
    *,
    max_calls: int,
    atol: float,
    wants_face: bool,
    start: list[tuple[np.ndarray, float]],
) -> Search:
    """Yields scores (parts,), is sent the oracle's `OracleAnswer`, returns the `Outcome`."""
    active = _ActiveSet(scores, n_regularized)
    for vertex, probability in start:
        if probability > 0 and np.isfinite(scores[vertex != 0]).all():
            active.append(vertex, probability)
    n_calls = 0
    if len(active.vertices):
        active.settle()
    else:
        answer, n_calls = (yield scores), 1
        if not np.isfinite(answer.value):
            ending = Ending.INFEASIBLE if answer.value == -np.inf else Ending.NOT_A_NUMBER
            return Outcome(ending, n_calls=n_calls)
        active.add(answer.vertex)
    ending, n_idle = Ending.NOT_CONVERGED, 0
    gap, least, best = np.inf, np.inf, -np.inf
    while n_calls < max_calls:
        direction = active.direction()
        answer = yield direction
        n_calls += 1
        if not np.isfinite(answer.value):
            ending = Ending.BAD_ORACLE if answer.value == -np.inf else Ending.NOT_A_NUMBER
            return Outcome(ending, n_calls=n_calls)
        gap = _along(direction, answer.vertex) - float(active.p @ active.scores_along(direction))
        # Twice the gap bounds the squared error of the mean: below the last term it is that of the mean's own rounding.
        terms = _magnitude(active, direction, answer.vertex) + _ROUNDING * active.lift
        rounding = _ROUNDING * (1 + 2 * len(active.vertices) ** 0.5) * terms
        if gap < -1e4 * rounding:
            return Outcome(Ending.BAD_ORACLE, gap, n_calls)
        if gap <= atol + rounding or active.holds(answer.vertex):
            ending = Ending.OPTIMAL
            break
        value = active.value()
        n_idle = 1 if value > best or gap < 0.5 * least else n_idle + 1
        best, least = max(best, value), min(least, gap)
        # A step gains about the squared gap, which may be lost in rounding; but only a few steps may gain nothing.
        if n_idle > (_IDLE if gap <= 8 * rounding else _IDLE + len(active.vertices)):
            ending = Ending.OPTIMAL if gap <= 1e3 * rounding else ending
            break
        active.add(answer.vertex)
    if wants_face:
        yield from _span_face(active)
    return Outcome(ending, max(gap, 0.0), n_calls, active.vertices, active.p, active.factor())


def _span_face(active: _ActiveSet) -> Generator[np.ndarray, OracleAnswer, None]:
    """Adds vertices until they span the face: a random direction orthogonal to their hull is then constant on it."""
    random = np.random.default_rng(0)
    while len(active.vertices) <= active.n_regularized:
        direction = active.direction()
        level = float(active.p @ active.scores_along(direction))
        side = active.orthogonal(random.uniform(-1, 1, active.n_regularized))
        used = active.vertices.any(0)
        scale = np.abs(direction[used]).max(initial=np.abs(active.matrix).max(initial=0))
        for sign in (1, -1):
            if (yield from _turn(active, direction, level, sign * scale * side)):
                break
        else:
            return


def _turn(
    active: _ActiveSet, direction: np.ndarray, level: float, side: np.ndarray
) -> Generator[np.ndarray, OracleAnswer, bool]:
    """Asks along a gradient that is turned to a side; it turns less if a vertex just off the face comes first."""
    for turn in _TURNS:
        turned = direction.copy()
        turned[: active.n_regularized] += turn * side
        value, vertex = yield turned
        if not np.isfinite(value):  # an oracle that fails now does not undo what was found
            return False
        tied = _TIED * (active.lift + _magnitude(active, direction, vertex))
        if _along(direction, vertex) >= level - tied:
            return not active.holds(vertex) and active.append(vertex, 0.0)
    return False


def _along(numbers: np.ndarray, vertex: np.ndarray) -> float:
    used = vertex != 0
    return float(numbers[used] @ vertex[used])


def _magnitude(active: _ActiveSet, direction: np.ndarray, vertex: np.ndarray) -> float:
    """Returns the size of the numbers whose rounding errors the gap contains."""
    used = vertex != 0
    return float(np.abs(direction[used] * vertex[used]).sum() + np.abs(active.scores_along(active.scores)).max())
