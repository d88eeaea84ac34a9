"""The builder of factor graphs: named variables, then factors over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.factor_graph import FactorGraph
from omegamax.structures.factors import Block, Count, Factor, Literal, Pair, StructureFactor, Variable
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.structures.structure import Structure
from omegamax.structures.table import Table, TableScores

_WHO = "FactorGraphBuilder"


class FactorGraphBuilder:
    """Collects variables and factors; `build` makes the graph.

    Logic factors take binary variables, values of others (`tag[2]`), and their opposites (`~x`). Scored factors keep
    their scores under their name, in the layout given with each.

    >>> builder = FactorGraphBuilder()
    >>> x = builder.binary("x", (2, 2))
    >>> for line in (*x, *x.T):
    ...     builder.xor(line)
    >>> graph = builder.build()
    >>> graph.sparsemap(torch.tensor([1.0, 0.0, 0.0, 1.0])).marginals
    tensor([1., 0., 0., 1.])
    """

    def __init__(self) -> None:
        self._variables: list[Variable] = []
        self._blocks: dict[str, Block] = {}
        self._factors: dict[str, Factor] = {}
        self._names: set[str] = set()  # of blocks, of factors, and of their scores: results are read by them
        self._n_entries = 0
        self._n_scores = 0

    # Variables.

    def binary(self, name: str, shape: tuple[int, ...] | int = ()) -> Any:
        """Adds a binary variable, or an array of them; its marginals are read in this shape."""
        return self._add(name, _shape(shape), 2, binary=True)

    def variable(self, name: str, n_values: int, shape: tuple[int, ...] | int = ()) -> Any:
        """Adds a variable with the values 0 to n_values − 1, or an array of them; marginals (*shape, n_values)."""
        if not isinstance(n_values, int) or isinstance(n_values, bool) or n_values < 1:
            raise ValueError(f"{_WHO}.variable: n_values must be a positive int, got {n_values!r}; count the values")
        return self._add(name, _shape(shape), n_values, binary=False)

    def _add(self, name: str, shape: tuple[int, ...], n_values: int, *, binary: bool) -> Any:
        self._check_name(name)
        width = 1 if binary else n_values
        first, n = self._n_entries, math.prod(shape)
        made = np.empty(n, dtype=object)
        for place in range(n):
            index = np.unravel_index(place, shape) if shape else ()
            label = name + (f"[{', '.join(str(int(i)) for i in index)}]" if shape else "")
            made[place] = Variable(label, len(self._variables), first + place * width, n_values, binary)
            self._variables.append(made[place])
        self._blocks[name] = Block(name, first, shape if binary else (*shape, n_values))
        self._names.add(name)
        self._n_entries += n * width
        return made.reshape(shape) if shape else made[0]

    # Logic factors.

    def xor(self, literals: Any, *, name: str | None = None) -> None:
        """Demands that exactly one is true.

        Arguments:
            literals: binary variables, or values of variables
            name: of the factor
        """
        self._count("xor", literals, 1, 1, name)

    def at_most_one(self, literals: Any, *, name: str | None = None) -> None:
        """Demands that none or one is true.

        Arguments:
            literals: binary variables, or values of variables
            name: of the factor
        """
        self._count("at_most_one", literals, 0, 1, name)

    def or_(self, literals: Any, *, name: str | None = None) -> None:
        """Demands that at least one is true.

        Arguments:
            literals: binary variables, or values of variables
            name: of the factor
        """
        self._count("or", literals, 1, None, name)

    def budget(self, literals: Any, lo: int, hi: int, *, name: str | None = None) -> None:
        """Demands that from lo to hi of them are true.

        Arguments:
            literals: binary variables, or values of variables
            lo: the least number that is true
            hi: the largest number that is true
            name: of the factor
        """
        if not all(isinstance(bound, int) for bound in (lo, hi)) or not 0 <= lo <= hi:
            raise ValueError(
                f"{_WHO}.budget: lo and hi must be integers, 0 ≤ lo ≤ hi, got {lo!r} and {hi!r}; swap them?"
            )
        self._count("budget", literals, lo, hi, name)

    def _count(self, kind: str, literals: Any, least: int, most: int | None, name: str | None) -> None:
        found = _literals(kind, literals)
        self._put(Count(self._name(kind, name), found, least, len(found) if most is None else min(most, len(found))))

    # Scored factors.

    def pair(self, first: Any, second: Any, *, name: str | None = None) -> None:
        """Adds a score for both being true, unregularised; layout ().

        Arguments:
            first: a literal
            second: another literal
            name: of the factor
        """
        name = self._name("pair", name)
        self._put(Pair(name, _literals("pair", [first, second]), self._scores(name, [("", ())])))

    def dense(self, variables: Iterable[Variable], *, name: str | None = None) -> None:
        """Adds a score for every joint assignment of multi-valued variables, unregularised; layout (n₁, …, n_m)."""
        name, found = self._name("dense", name), _whole("dense", variables)
        sizes = tuple(variable.n_values for variable in found)
        self._put(
            StructureFactor(name, Table(sizes), found, (sum(sizes),), TableScores, self._scores(name, [("", sizes)]))
        )

    def sequence(self, variables: Iterable[Variable], *, name: str | None = None) -> None:
        """Adds a chain over variables with the same C values.

        Its scores are `name.transitions` (C, C), `name.start` (C,) and `name.end` (C,), as in `FactoredChain`. They
        are not regularised.
        """
        name, found = self._name("sequence", name), _whole("sequence", variables)
        c = found[0].n_values
        if any(variable.n_values != c for variable in found):
            sizes = [variable.n_values for variable in found]
            raise ValueError(f"{_WHO}.sequence: variables must have the same number of values, got {sizes}; use dense")
        layout = [(".transitions", (c, c)), (".start", (c,)), (".end", (c,))]
        self._put(StructureFactor(name, Chain(), found, (len(found), c), FactoredChain, self._scores(name, layout)))

    def tree(self, arcs: Any, structure: Structure | None = None, *, name: str | None = None) -> None:
        """Adds a dependency tree over binary variables (N + 1, N + 1), `arcs[head, modifier]`, 0 the root.

        `structure` is any structure over arcs: `ProjectiveTree()`, which is the default, or `Arborescence()`.
        """
        self.factor(ProjectiveTree() if structure is None else structure, arcs, name=self._name("tree", name))

    def factor(self, structure: Structure, variables: Any, *, name: str | None = None) -> None:
        """Adds any structure whose potentials are one tensor, of which each part is a variable.

        `variables` is an array, or nested lists, in the shape of the potentials; multi-valued variables are its last
        axis.
        """
        if not isinstance(structure, Structure):
            kind = type(structure).__name__
            raise TypeError(f"{_WHO}.factor: structure must be a Structure, got {kind}; for example om.Matching()")
        array = _array(variables)
        found = tuple(array.ravel())
        if not found or not all(isinstance(each, Variable) for each in found):
            raise TypeError(
                f"{_WHO}.factor: variables must be an array of variables, got {[type(x).__name__ for x in found]}; "
                "a structure takes variables, which are not negated"
            )
        widths = {len(variable.entries) for variable in found}
        if len(widths) > 1 or len({variable.binary for variable in found}) > 1:
            raise ValueError(f"{_WHO}.factor: variables must be of one kind, got {sorted(widths)} values; use dense")
        shape = array.shape if found[0].binary else (*array.shape, found[0].n_values)
        _unique("factor", [variable.name for variable in found])
        self._put(StructureFactor(self._name("factor", name), structure, found, shape, None, ()))

    # The graph.

    def build(self) -> FactorGraph:
        """Returns the graph, frozen, without data."""
        if not self._variables:
            raise ValueError(f"{_WHO}.build: a graph has at least one variable, got none; add one with binary(name)")
        return FactorGraph(tuple(self._blocks.values()), tuple(self._variables), tuple(self._factors.values()))

    def _put(self, factor: Factor) -> None:
        self._factors[factor.name] = factor
        self._names.update([factor.name, *(block.name for block in factor.blocks)])

    def _name(self, kind: str, name: str | None) -> str:
        if name is None:
            numbers = itertools.count(len(self._factors))
            return next(free for number in numbers if (free := f"{kind}_{number}") not in self._names)
        self._check_name(name)
        return name

    def _scores(self, name: str, layout: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[Block, ...]:
        for suffix, _ in layout:
            self._check_name(name + suffix)
        blocks = []
        for suffix, shape in layout:
            blocks.append(Block(name + suffix, self._n_scores, shape))
            self._n_scores += math.prod(shape)
        return tuple(blocks)

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{_WHO}: a name must be a string, got {name!r}; names are how results are read")
        if name in self._names:
            raise ValueError(f"{_WHO}: names must differ, got {name!r} again; choose another")


def _shape(shape: tuple[int, ...] | int) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(not isinstance(size, int) or size < 1 for size in shape):
        raise ValueError(f"{_WHO}: the shape of a block must be positive integers, got {shape}; for example (3, 4)")
    return shape


def _array(variables: Any) -> np.ndarray:
    if isinstance(variables, np.ndarray):
        return variables
    if isinstance(variables, (Variable, Literal)):
        found = np.empty((), dtype=object)
        found[()] = variables
        return found
    return np.stack([_array(each) for each in variables])


def _literals(kind: str, given: Any) -> tuple[Literal, ...]:
    found = []
    for each in _array(given).ravel():
        if not isinstance(each, (Variable, Literal)):
            raise TypeError(f"{_WHO}.{kind}: takes variables and literals, got {type(each).__name__}; see binary()")
        found.append(each.literal() if isinstance(each, Variable) else each)
    if not found:
        raise ValueError(f"{_WHO}.{kind}: a factor has at least one variable, got none; leave it out")
    _unique(kind, [literal.entry for literal in found])
    return tuple(found)


def _whole(kind: str, given: Any) -> tuple[Variable, ...]:
    found = tuple(_array(given).ravel())
    if not found or any(not isinstance(each, Variable) or each.binary for each in found):
        names = [getattr(each, "name", type(each).__name__) for each in found]
        raise TypeError(f"{_WHO}.{kind}: takes multi-valued variables, got {names}; make them with variable(name, n)")
    _unique(kind, [variable.name for variable in found])
    return found


def _unique(kind: str, keys: list[Any]) -> None:
    twice = [key for key in keys if keys.count(key) > 1] if len(set(keys)) < len(keys) else []
    if twice:
        raise ValueError(f"{_WHO}.{kind}: a factor sees a variable once, got {twice[0]!r} twice; leave one out")
