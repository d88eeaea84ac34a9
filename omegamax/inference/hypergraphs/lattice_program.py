"""The generic engine as a program: any lattice, any symmetric regularizer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.sweeps import inside, outside, tangent
from omegamax.inference.program import Parts, Program, State, SweepResult
from omegamax.operators.regularizer import Regularizer


@dataclass(frozen=True, eq=False)
class LatticeProgram(Program):
    """Sweeps over any lattice under any symmetric regularizer; the compiled programs must equal it."""

    lattice: Lattice
    regularizer: Regularizer
    goals: Tensor  # (batch,): nodes of the topology

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return len(self.lattice.components)

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """Sweeps up once. The state is q and, where there are any, the local constants."""
        values, backpointers, constants = inside(
            self.lattice.topology, self.lattice.scores_of_edges(parts), self.regularizer
        )
        state = (backpointers,) if constants is None else (backpointers, constants)
        return values.gather(1, self.goals.unsqueeze(1)).squeeze(1), state

    def marginals(self, parts: Parts, state: State) -> SweepResult:
        """Sweeps down once. The state gains the visits of nodes."""
        backpointers, constants = state[0], state[1] if len(state) > 1 else None
        edges, visits, slopes = outside(self.lattice.topology, backpointers, constants, self.regularizer, self.goals)
        return SweepResult(self._parts_of(edges, parts), slopes, (visits,))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> SweepResult:
        backpointers, constants, visits = state[0], state[1] if len(state) > 2 else None, state[-1]
        along = self.lattice.scores_of_edges(direction)
        edges, slopes = tangent(self.lattice.topology, backpointers, constants, visits, self.regularizer, along)
        return SweepResult(self._parts_of(edges, parts), slopes, ())

    def _parts_of(self, edges: Tensor, like: Parts) -> Parts:
        found = self.lattice.sum_over_edges(edges, like)
        return tuple(part.to(given.dtype) for part, given in zip(found, like))

    def parameters(self) -> tuple[Tensor, ...]:
        return self.regularizer.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> LatticeProgram:
        return replace(self, regularizer=self.regularizer.with_parameters(parameters)) if parameters else self
