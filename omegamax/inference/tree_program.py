"""The compiled programs of trees: charts of spans instead of a hypergraph, memory quadratic in the sentence.

They group edges into local problems exactly as the hypergraphs of `ProjectiveTree` and `ConstituencyTree` do, so they
equal the generic engine to rounding. The sweeps are in csrc/projective.hpp and csrc/constituency.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax import routing
from omegamax.inference.oracle import CompiledOracle, Kind
from omegamax.inference.program import Parts, Program, State, Swept
from omegamax.inference.widened_program import WidenedProgram, largest_score
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm

_OMEGAS: dict[type, int] = {Hard: 0, Shannon: 1, SquaredNorm: 2}  # as csrc/charts.hpp numbers them
_SLACK = 16  # kChartSlack
_LARGEST_VALUE = 1024.0  # float32 numbers of this size are 6e-5 apart
_CHARTS = {"projective": (10, 4), "constituency": (5, 1)}  # arrays that the value leaves, and the marginals


@dataclass(frozen=True, eq=False)
class TreeProgram(Program):
    """A native program over a chart; `tree_program` makes it where it applies."""

    name: str  # "projective" or "constituency"
    n_charts: int  # arrays (size, size + slack) per item that the value leaves
    n_visits: int  # and that the marginals leave
    reads_scores: bool  # whether the later sweeps need the scores again
    option: int  # single_root, or the number of labels
    lengths: Tensor
    omega: int
    generic: Callable[[], Program]  # the same program on the hypergraph, for tensors that have no memory

    n_parts = 1

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """One sweep up."""
        if not routing.in_native_memory(*parts):
            return self.generic().value(parts)
        scores = parts[0].contiguous()
        charts, value = self._charts(scores, self.n_charts), scores.new_empty(scores.shape[0])
        self._launch("value", scores, scores, self.lengths, charts, value)
        return value.double(), (charts,)

    def marginals(self, parts: Parts, state: State) -> Swept:
        """One sweep down; the state gains the visits of nodes."""
        if not routing.in_native_memory(*parts, *state):
            generic = self.generic()
            return generic.marginals(parts, generic.value(parts)[1])
        scores = parts[0].contiguous()
        visits, marginals = self._charts(scores, self.n_visits), torch.empty_like(scores)
        self._launch("marginals", scores, *self._again(scores), self.lengths, state[0], visits, marginals)
        return Swept((marginals,), (), (visits,))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """One sweep up, one down."""
        if not routing.in_native_memory(*parts, *state, *direction):
            generic = self.generic()
            _, below = generic.value(parts)
            return generic.tangent(parts, (*below, *generic.marginals(parts, below).state), direction)
        scores = parts[0].contiguous()
        along = torch.zeros_like(scores) if direction[0]._is_zerotensor() else direction[0].contiguous()
        charts, visits = state
        product = torch.empty_like(scores)
        self._launch("tangent", scores, *self._again(scores), self.lengths, charts, visits, along, product)
        return Swept((product,), (), ())

    def _charts(self, scores: Tensor, count: int) -> Tensor:
        size = scores.shape[1]
        return scores.new_empty(scores.shape[0], count, size, size + _SLACK)

    def _again(self, scores: Tensor) -> tuple[Tensor, ...]:
        return (scores,) if self.reads_scores else ()

    def _launch(self, sweep: str, scores: Tensor, *tensors: Tensor) -> None:
        batch, size = scores.shape[:2]
        getattr(routing.native, f"{self.name}_{sweep}")(
            scores.element_size(),
            *(routing.address(tensor) for tensor in tensors),
            size,
            self.option,
            self.omega,
            batch,
            size**3,  # the cost of an item
            torch.get_num_threads(),
        )


def tree_oracle(kind: Kind, size: int, option: int, lengths: Tensor) -> CompiledOracle:
    """The same chart under the hard maximum, for SparseMAP."""
    sizes = [size, option, *_CHARTS["projective" if kind is Kind.PROJECTIVE else "constituency"], _SLACK]
    return CompiledOracle(kind, sizes, [lengths.long().contiguous()])


def tree_program(
    name: str, option: int, parts: Parts, lengths: Tensor, regularizer: Regularizer, generic: Callable[[], Program]
) -> Program | None:
    """The native program, or None where there is none for this Ω or for tensors like these.

    Values of spans are as large as the scores of all their words together: float32 scores are swept in float64 where
    that is so large that rounding would show in the weights.
    """
    omega = _OMEGAS.get(type(regularizer))
    if omega is None or not routing.in_native_memory(*parts):
        return None
    n_charts, n_visits = _CHARTS[name]
    lengths = lengths.contiguous()
    program = TreeProgram(name, n_charts, n_visits, name == "constituency", option, lengths, omega, generic)
    too_large = parts[0].dtype is torch.float32 and parts[0].shape[1] * largest_score(parts) > _LARGEST_VALUE
    return WidenedProgram(program) if too_large else program
