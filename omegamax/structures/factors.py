"""What a factor graph is made of: variables, literals, and factors, which allow and score assignments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from omegamax.structures.structure import Structure


@dataclass(frozen=True)
class Literal:
    """States that a variable is on, or has a certain value; negated, that it is not so. `~literal` is the opposite."""

    entry: int  # in the vector of all marginals
    variable: int
    value: int
    negated: bool = False

    def __invert__(self) -> Literal:
        return Literal(self.entry, self.variable, self.value, not self.negated)


@dataclass(frozen=True)
class Variable:
    """A variable of a factor graph. `~variable` negates a binary one, `variable[k]` says that it has the value k."""

    name: str
    number: int
    first: int  # of its entries in the vector of all marginals
    n_values: int
    binary: bool  # one entry, that it is on; otherwise one entry per value

    @property
    def entries(self) -> tuple[int, ...]:
        """The places of its marginals."""
        return tuple(range(self.first, self.first + (1 if self.binary else self.n_values)))

    def entry(self, value: int) -> int:
        """Returns the place of the marginal of a value; −1 for a binary variable that is off."""
        if self.binary:
            return self.first if value else -1
        return self.first + value

    def literal(self) -> Literal:
        """Returns the literal that it is on."""
        if not self.binary:
            raise TypeError(
                f"FactorGraphBuilder: a logic factor takes binary variables and values of others, got all of "
                f"{self.name!r}; write variable[k] for one of its {self.n_values} values"
            )
        return Literal(self.first, self.number, 1)

    def __invert__(self) -> Literal:
        return ~self.literal()

    def __getitem__(self, value: int) -> Literal:
        if self.binary:
            raise TypeError(f"FactorGraphBuilder: {self.name!r} is binary, got [{value}]; use it as it is, or ~ it")
        if not 0 <= value < self.n_values:
            raise IndexError(f"FactorGraphBuilder: {self.name!r} has the values 0 to {self.n_values - 1}, got {value}")
        return Literal(self.first + int(value), self.number, int(value))


@dataclass(frozen=True)
class Block:
    """Variables, or scores, under one name: a range of a vector, and the shape in which it is read."""

    name: str
    first: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Count:
    """Bounds how many literals are true: xor, at most one, or, a budget."""

    name: str
    literals: tuple[Literal, ...]
    least: int
    most: int

    blocks = ()


@dataclass(frozen=True)
class Pair:
    """A score for two literals both being true."""

    name: str
    literals: tuple[Literal, ...]
    blocks: tuple[Block, ...]  # of its one score


@dataclass(frozen=True)
class StructureFactor:
    """Any structure whose first component consists of variables, not negated, and whose others are factor scores."""

    name: str
    structure: Structure
    variables: tuple[Variable, ...]
    shape: tuple[int, ...]  # of the first component
    kind: Any  # NamedTuple class of its potentials, None where they are one tensor
    blocks: tuple[Block, ...]  # one per further component

    @property
    def entries(self) -> tuple[int, ...]:
        """The entries of all its variables, in the order of the first component."""
        return tuple(entry for variable in self.variables for entry in variable.entries)


Factor = Count | Pair | StructureFactor


@dataclass(frozen=True)
class TableFactor:
    """A factor as a table over few variables, for a hypergraph: it says which score a joint assignment has."""

    name: str
    variables: tuple[int, ...]
    scores: tuple[tuple[int, ...], tuple[int, ...]]  # shape, and flat: the place of each score, −1 for none

    @classmethod
    def of(cls, name: str, variables: tuple[int, ...], scores: np.ndarray) -> TableFactor:
        """Makes a table from an array of places."""
        return cls(name, variables, (scores.shape, tuple(scores.ravel().tolist())))

    @property
    def array(self) -> np.ndarray:
        """The places, one axis per variable."""
        return np.array(self.scores[1], dtype=np.int64).reshape(self.scores[0])
