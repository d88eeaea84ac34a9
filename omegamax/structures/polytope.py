"""A polytope that is given by a function, which returns a best vertex for scores.

    best(scores) = argmax over the vertices y of  <scores, y>

SparseMAP needs no more: projections, sparse distributions over vertices and losses follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.program import Parts, Program
from omegamax.inference.sparsemap.oracle_program import OracleProgram
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.structure import Structure


class WithExtra(NamedTuple):
    """Scores of a user's polytope, and extra scores that SparseMAP does not regularise; vertices in the same form."""

    scores: Tensor  # (..., *event)
    extra: Tensor  # (..., n_extra)


@dataclass(frozen=True, eq=False)
class Polytope(Structure):
    """The convex hull of what a function finds best; `map` and `sparsemap` are offered.

    Arguments:
        function: from scores to the best vertex, which must be shaped as the scores
        event_ndim: how many trailing axes form one problem

    >>> corners = Polytope.from_oracle(lambda scores: torch.nn.functional.one_hot(scores.argmax(), len(scores)))
    >>> corners.sparsemap(torch.tensor([1.0, 0.9, -1.0])).marginals
    tensor([0.5500, 0.4500, 0.0000])
    """

    function: Callable[..., Any]
    event_ndim: int = 1  # type: ignore[misc]

    n_regularized = 1
    has_empty = True  # the origin may be a vertex: the function tells

    @classmethod
    def from_oracle(cls, function: Callable[..., Any], *, event_ndim: int = 1) -> Polytope:
        """Makes a polytope from `function(scores)`, or `function(scores, extra)` where there are extra scores.

        The function gets one item as float64 tensors (−inf forbids) and returns a best vertex in the same shape (a
        pair of them where there is extra), as a tensor, an array or a list; None where there is no vertex. It is called
        again and again with other scores, and must not return less than the best.
        """
        if not callable(function):
            raise TypeError(
                f"Polytope.from_oracle: function must be callable, got {type(function).__name__}; it maps scores to a "
                "best vertex"
            )
        checks.check_count("Polytope.from_oracle", "event_ndim", event_ndim)
        return cls(function, event_ndim)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        scores = potentials.scores if isinstance(potentials, WithExtra) else potentials
        checks.check_floating("Polytope", scores)
        checks.check_event("Polytope", "scores", scores, (None,) * self.event_ndim, f"{self.event_ndim} event axes")
        if not isinstance(potentials, WithExtra):
            return ((scores, self.event_ndim),)
        checks.check_event("Polytope", "extra", potentials.extra, (None,), "(..., n_extra)")
        return ((scores, self.event_ndim), (potentials.extra, 1))

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        """No axis has a length: −inf forbids what is not there."""
        return ()

    def with_extra(self, scores: Any, extra: Any) -> WithExtra:
        return WithExtra(scores, extra)

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        if not isinstance(regularizer, Hard):
            raise ValueError(
                f"Polytope: regularizer must be Hard, got {type(regularizer).__name__}; a best vertex is all "
                "that is known of it: use sparsemap"
            )
        return OracleProgram(self._best, len(problem.parts))

    def _best(self, scores: Parts) -> Parts | None:
        given = self.function(*(score.clone() for score in scores))
        if given is None:
            return None
        if len(scores) > 1 and not (isinstance(given, (tuple, list)) and len(given) == len(scores)):
            raise TypeError(
                f"Polytope: the oracle must return a pair (vertex, extra) where there are extra scores, got "
                f"{type(given).__name__}; return both"
            )
        vertex = tuple(map(_numbers, given)) if len(scores) > 1 else (_numbers(given),)
        if [tuple(part.shape) for part in vertex] != [tuple(score.shape) for score in scores]:
            raise ValueError(
                f"Polytope: the oracle must return a vertex in the shape of its scores, "
                f"{[tuple(score.shape) for score in scores]}, got {[tuple(part.shape) for part in vertex]}; return the "
                "vertex itself, not its index"
            )
        if not all(bool(part.isfinite().all()) for part in vertex):
            raise ValueError("Polytope: the oracle must return a vertex of finite numbers, got NaN or inf; check it")
        return vertex


def _numbers(given: Any) -> Tensor:
    try:
        return torch.as_tensor(given, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"Polytope: the oracle must return a vertex as a tensor, an array or a list of numbers, got "
            f"{type(given).__name__}; return the vertex in the shape of its scores"
        ) from None
