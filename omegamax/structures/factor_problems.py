"""Converts factors to what solvers take: grouped local problems for the iterations, tables for a hypergraph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax.inference.factor_graphs.agreement import Agreement
from omegamax.inference.factor_graphs.local_problem import LocalProblem
from omegamax.inference.factor_graphs.logic_problems import CountProblem, PairProblem
from omegamax.inference.factor_graphs.oracle_problem import OracleProblem
from omegamax.inference.sparsemap.oracle import Oracle
from omegamax.structures.chain import Chain
from omegamax.structures.factors import Block, Count, Factor, Literal, Pair, StructureFactor, TableFactor, Variable
from omegamax.structures.sparsemap import oracle_of
from omegamax.structures.table import Table


def agreement_of(variables: Sequence[Variable], factors: Sequence[Factor], n_entries: int, n_scores: int) -> Agreement:
    """Groups factors of one kind and width; a variable whose domain no factor enforces gets a factor that does."""
    counts: dict[int, list[Count]] = {}
    pairs: list[Pair] = []
    parts: dict[Any, list[StructureFactor]] = {}
    for factor in (*factors, *_domains(variables, factors)):
        if isinstance(factor, Count):
            counts.setdefault(len(factor.literals), []).append(factor)
        elif isinstance(factor, Pair):
            pairs.append(factor)
        else:
            parts.setdefault((factor.structure, factor.shape, factor.kind), []).append(factor)
    groups: list[LocalProblem] = [_count_problem(same) for _, same in sorted(counts.items())]
    groups += [_pair_problem(pairs)] if pairs else []
    groups += [_oracle_problem(same) for same in parts.values()]
    return Agreement(n_entries, n_scores, tuple(groups))


def _domains(variables: Sequence[Variable], factors: Sequence[Factor]) -> list[Count]:
    """Returns counts for binary variables without a factor, and for others that no factor gives exactly one value."""
    seen = {
        literal.variable for factor in factors if not isinstance(factor, StructureFactor) for literal in factor.literals
    }
    tied: set[int] = set()
    for factor in factors:
        if isinstance(factor, StructureFactor):
            seen.update(variable.number for variable in factor.variables)
            if isinstance(factor.structure, (Table, Chain)):
                tied.update(variable.number for variable in factor.variables)
    found = []
    for variable in variables:
        if variable.binary and variable.number not in seen:
            found.append(Count(variable.name, (variable.literal(),), 0, 1))
        elif not variable.binary and variable.number not in tied:
            found.append(Count(variable.name, tuple(variable[k] for k in range(variable.n_values)), 1, 1))
    return found


def _count_problem(factors: list[Count]) -> CountProblem:
    return CountProblem(
        _entries(factors),
        torch.zeros(len(factors), 0, dtype=torch.long),
        _negated(factors),
        torch.tensor([factor.least for factor in factors], dtype=torch.float64),
        torch.tensor([factor.most for factor in factors], dtype=torch.float64),
    )


def _pair_problem(factors: list[Pair]) -> PairProblem:
    scores = torch.tensor([[factor.blocks[0].first] for factor in factors])
    return PairProblem(_entries(factors), scores, _negated(factors))


def _entries(factors: Sequence[Count | Pair]) -> Tensor:
    return torch.tensor([[literal.entry for literal in factor.literals] for factor in factors])


def _negated(factors: Sequence[Count | Pair]) -> Tensor:
    return torch.tensor([[literal.negated for literal in factor.literals] for factor in factors])


def _oracle_problem(factors: list[StructureFactor]) -> OracleProblem:
    entries = torch.tensor([factor.entries for factor in factors])
    places = [
        [i for block in factor.blocks for i in range(block.first, block.first + block.size)] for factor in factors
    ]
    scores = torch.tensor(places, dtype=torch.long).reshape(len(factors), -1)
    return OracleProblem(entries, scores, _oracles(factors[0]))


def _oracles(factor: StructureFactor) -> Callable[[int], Oracle]:
    shapes = [factor.shape, *(block.shape for block in factor.blocks)]

    def of(n: int) -> Oracle:
        parts = [torch.zeros(n, *shape, dtype=torch.float64) for shape in shapes]
        return oracle_of(factor.structure.bind(parts[0] if factor.kind is None else factor.kind(*parts)))

    return of


def tables_of(variables: Sequence[Variable], factor: Factor) -> list[Count | TableFactor] | None:
    """Returns a factor as counts and tables over few variables, chained where it is a sequence.

    Returns None where the factor is neither.
    """
    if isinstance(factor, Count):
        return [factor]
    if isinstance(factor, Pair):
        return [_pair_table(variables, factor)]
    numbers = tuple(variable.number for variable in factor.variables)
    if isinstance(factor.structure, Table):
        return [TableFactor.of(factor.name, numbers, _places(factor.blocks[0]))]
    if isinstance(factor.structure, Chain) and factor.blocks:
        transitions, start, end = (_places(block) for block in factor.blocks)
        links = [TableFactor.of(factor.name, pair, transitions) for pair in itertools.pairwise(numbers)]
        ends = [TableFactor.of(factor.name, numbers[:1], start), TableFactor.of(factor.name, numbers[-1:], end)]
        return [*links, *ends]
    return None


def _places(block: Block) -> np.ndarray:
    return block.first + np.arange(block.size).reshape(block.shape)


def _pair_table(variables: Sequence[Variable], factor: Pair) -> TableFactor:
    first, second = factor.literals
    both = np.multiply.outer(_true(variables, first), _true(variables, second))
    table = np.where(both, factor.blocks[0].first, -1)
    if first.variable == second.variable:  # two values of one variable
        return TableFactor.of(factor.name, (first.variable,), table.diagonal().copy())
    return TableFactor.of(factor.name, (first.variable, second.variable), table)


def _true(variables: Sequence[Variable], literal: Literal) -> np.ndarray:
    return (np.arange(variables[literal.variable].n_values) == literal.value) != literal.negated
