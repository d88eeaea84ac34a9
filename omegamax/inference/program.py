"""A dynamic program with its sizes, its goals and its regularizer: three sweeps over the parts of a structure."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from omegamax.inference.lattice import Lattice
from omegamax.inference.sweeps import inside, outside, tangent
from omegamax.operators.regularizer import Regularizer

Parts = tuple[Tensor, ...]  # the components of the potentials, each (batch, *event)
State = tuple[Tensor, ...]  # what the next sweep needs, and nothing more


class Swept(NamedTuple):
    """What a sweep finds."""

    parts: Parts  # shaped as the potentials
    slopes: tuple[Tensor, ...]  # (batch,) per parameter of Ω
    state: State  # what it adds to the state


class Program(abc.ABC):
    """Three sweeps; each gets the state that those before it left. No autograd inside."""

    n_parts: int

    @abc.abstractmethod
    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """DP_Ω, shape (batch,). A dynamic program gives it in float64: a loss is a difference of such values."""

    def value_ahead(self, parts: Parts) -> tuple[Tensor, State]:
        """`value`, where the marginals will be asked for next: some of their work may be done already."""
        return self.value(parts)

    @abc.abstractmethod
    def marginals(self, parts: Parts, state: State) -> Swept:
        """∇ DP_Ω, the expected structure, which may be part of the state; `slopes` are ∂ DP_Ω / ∂φ."""

    @abc.abstractmethod
    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """∇² DP_Ω · direction; `slopes` are the derivatives of ∂ DP_Ω / ∂φ along it."""

    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors among the hyper-parameters of Ω."""
        return ()

    def scaled(self, scale: float) -> Program | None:
        """The program of f(x) = DP_Ω(scale · x) / scale without a scaled copy of x; None if it cannot.

        With scale 1/γ this is DP_{γΩ}; with −1/γ it reads costs and gives a cost. ∇f = E(scale · x).
        """
        return None

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> Program:
        """The same program with other parameter tensors."""
        return self


@dataclass(frozen=True, eq=False)
class LatticeProgram(Program):
    """The generic engine: any lattice, any symmetric regularizer. The oracle of the specialised programs."""

    lattice: Lattice
    regularizer: Regularizer
    goals: Tensor  # (batch,): nodes of the topology

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        """One per component of the lattice."""
        return len(self.lattice.components)

    def value(self, parts: Parts) -> tuple[Tensor, State]:
        """One sweep up; the state is q and, where there are any, the local constants."""
        values, backpointers, constants = inside(
            self.lattice.topology, self.lattice.scores_of_edges(parts), self.regularizer
        )
        state = (backpointers,) if constants is None else (backpointers, constants)
        return values.gather(1, self.goals.unsqueeze(1)).squeeze(1), state

    def marginals(self, parts: Parts, state: State) -> Swept:
        """One sweep down; the state gains the visits of nodes."""
        backpointers, constants = state[0], state[1] if len(state) > 1 else None
        edges, visits, slopes = outside(self.lattice.topology, backpointers, constants, self.regularizer, self.goals)
        return Swept(self._parts_of(edges, parts), slopes, (visits,))

    def tangent(self, parts: Parts, state: State, direction: Parts) -> Swept:
        """One sweep up, one down."""
        backpointers, constants, visits = state[0], state[1] if len(state) > 2 else None, state[-1]
        along = self.lattice.scores_of_edges(direction)
        edges, slopes = tangent(self.lattice.topology, backpointers, constants, visits, self.regularizer, along)
        return Swept(self._parts_of(edges, parts), slopes, ())

    def _parts_of(self, edges: Tensor, like: Parts) -> Parts:
        found = self.lattice.sum_over_edges(edges, like)
        return tuple(part.to(given.dtype) for part, given in zip(found, like))

    def parameters(self) -> tuple[Tensor, ...]:
        """Those of the regularizer."""
        return self.regularizer.parameters()

    def with_parameters(self, parameters: tuple[Tensor, ...]) -> LatticeProgram:
        """With a regularizer that holds these tensors."""
        return replace(self, regularizer=self.regularizer.with_parameters(parameters)) if parameters else self
