"""Factor graphs: variables tied by factors, each of which depends on its own variables only.

    sparsemap  max over μ, ν of  <θ, μ> + Σ_f <η_f, ν_f> − ½‖μ‖²     (μ_f, ν_f) in conv(Y_f), μ_f = μ on f's variables
    map        the same without −½‖μ‖²

    variables (..., V): one score per entry: one entry per binary variable (that it is on), one per value of another
    factors   (..., E): scores of pairs, tables and transitions, factor after factor; not regularised

A structure is 0/1 in the same shapes. With one factor this is SparseMAP, without cycles it is SparseMAP and MAP of the
assignments that satisfy all factors; with cycles it is a relaxation (LP-SparseMAP, LP-MAP), which may be fractional.
Niculae & Martins, "LP-SparseMAP", ICML 2020; Martins et al., JMLR 2015.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.factor_graphs.agreement import Agreement
from omegamax.inference.factor_graphs.lp_sparsemap import (
    GraphSolution,
    LpMapProgram,
    Stopping,
    lp_sparsemap,
    warn_if_stopped,
)
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.program import Parts, Program
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.structures import factor_tree
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.factor_problems import agreement_of, tables_of
from omegamax.structures.factors import Block, Count, Factor, StructureFactor, Variable
from omegamax.structures.problem import Problem, Sizes

MAX_ITER = 10_000
ATOL = 1e-9


class FactorGraphScores(NamedTuple):
    """Potentials of a factor graph, and weights in the same form."""

    variables: Tensor  # (..., V)
    factors: Tensor  # (..., E)


class LPSparseMAPSolution(NamedTuple):
    """The solution of LP-SparseMAP, and how exactly it was found."""

    marginals: Any  # as the potentials; differentiable
    primal_residual: Tensor  # (*batch,) float64: the largest disagreement of a factor with the marginals
    dual_residual: Tensor  # (*batch,) float64: about the largest change of a score that would make them optimal
    n_iterations: Tensor  # (*batch,)


@dataclass(frozen=True)
class FactorGraph(DynamicProgram):
    """Assignments to variables that satisfy all factors; made by `FactorGraphBuilder`.

    Without cycles it is a dynamic program, and all methods of one are exact. With cycles only `map`
    (LP-MAP) and `sparsemap` (LP-SparseMAP) are offered; the other methods raise, and name a cycle.

    Arguments:
        blocks: named groups of variables, from the builder
        variables: what is chosen, from the builder
        factors: what constrains and scores the variables, from the builder
    """

    blocks: tuple[Block, ...]
    variables: tuple[Variable, ...]
    factors: tuple[Factor, ...]

    event_ndim = 1
    n_regularized = 1

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        names = ", ".join(block.name for block in self.blocks[:5]) + (", ..." if len(self.blocks) > 5 else "")
        return f"FactorGraph({names}: {len(self.variables)} variables, {len(self.factors)} factors)"

    @cached_property
    def _hash(self) -> int:
        return hash((self.blocks, self.variables, self.factors))

    # Layout.

    @cached_property
    def n_entries(self) -> int:
        """The number V of variable scores."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def score_blocks(self) -> tuple[Block, ...]:
        """The places of named factor scores."""
        return tuple(block for factor in self.factors for block in factor.blocks)

    @cached_property
    def n_scores(self) -> int:
        """The number E of factor scores."""
        return sum(block.size for block in self.score_blocks)

    def scores(self, variables: Mapping[str, Tensor], factors: Mapping[str, Tensor] | None = None) -> Any:
        """Makes potentials from scores by name, each (*batch, *its shape); what is not named is 0.

        One tensor where no factor has scores, `FactorGraphScores` where some have.
        """
        given = [*variables.values(), *(factors or {}).values()]
        if not given:
            raise ValueError("FactorGraph.scores: takes at least one tensor, got none; it tells the type and the batch")
        batch = _common_batch({**dict(variables), **dict(factors or {})}, (*self.blocks, *self.score_blocks))
        first = _laid_out(self.blocks, variables, self.n_entries, batch, given[0])
        if not self.n_scores and not factors:
            return first
        return FactorGraphScores(first, _laid_out(self.score_blocks, factors or {}, self.n_scores, batch, given[0]))

    def named(self, weights: Any) -> dict[str, Tensor]:
        """Reads `weights` (marginals, structures or scores) by the names of variables and of factors with scores."""
        parts = (weights,) if isinstance(weights, Tensor) else tuple(weights)
        found = {}
        for part, blocks in zip(parts, (self.blocks, self.score_blocks)):
            for block in blocks:
                piece = part[..., block.first : block.first + block.size]
                found[block.name] = piece.reshape((*part.shape[:-1], *block.shape))
        return found

    # What a structure describes.

    @property
    def has_empty(self) -> bool:  # type: ignore[override]
        """Whether all variables may be off."""
        if any(not variable.binary for variable in self.variables):
            return False
        for factor in self.factors:
            if isinstance(factor, Count):
                true = sum(literal.negated for literal in factor.literals)
                if not factor.least <= true <= factor.most:
                    return False
            elif isinstance(factor, StructureFactor) and not factor.structure.has_empty:
                return False
        return True

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if isinstance(potentials, FactorGraphScores):
            layout = f"(..., {self.n_entries})"
            checks.check_event("FactorGraph", "variables", potentials.variables, (self.n_entries,), layout)
            if not self.n_scores:
                raise ValueError(
                    "FactorGraph: potentials must be one Tensor where no factor has scores, got FactorGraphScores; "
                    "pass its variables"
                )
            checks.check_event(
                "FactorGraph", "factors", potentials.factors, (self.n_scores,), f"(..., {self.n_scores})"
            )
            return (potentials.variables, 1), (potentials.factors, 1)
        if not isinstance(potentials, Tensor):
            raise TypeError(
                f"FactorGraph: potentials must be a Tensor (..., {self.n_entries}) or FactorGraphScores, got "
                f"{type(potentials).__name__}; build them with graph.scores"
            )
        checks.check_event(
            "FactorGraph", "potentials", potentials, (self.n_entries,), f"(..., {self.n_entries} entries of variables)"
        )
        return ((potentials, 1),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return ()

    def with_extra(self, scores: Any, extra: Any) -> FactorGraphScores:
        return FactorGraphScores(scores, extra)

    # Without cycles.

    @cached_property
    def why_no_hypergraph(self) -> str | None:
        """The reason why there is no hypergraph, a cycle or a factor without a table; None where there is one."""
        tables = []
        for factor in self.factors:
            local = tables_of(self.variables, factor)
            if local is None:
                assert isinstance(factor, StructureFactor)
                return f"factor {factor.name!r} over a {type(factor.structure).__name__}, which is no table or count"
            tables += local
        cycle = factor_tree.cycle_of(len(self.variables), tables)
        if cycle is None:
            return None
        steps = [self.variables[number].name if kind == "variable" else tables[number].name for kind, number in cycle]
        return f"a cycle: {' – '.join([*steps, steps[0]])}"

    def build(self, sizes: Sizes) -> Lattice:
        """Builds the hypergraph of messages from the leaves of the graph to its roots."""
        if self.why_no_hypergraph is not None:
            raise ValueError(
                f"FactorGraph: only a graph without cycles is a dynamic program, got {self.why_no_hypergraph}; "
                "use sparsemap, or map"
            )
        tables = [local for factor in self.factors for local in tables_of(self.variables, factor) or ()]
        n_scores = self.n_scores if len(sizes) > 1 else 0
        return factor_tree.build(self.variables, tables, self.n_entries, n_scores)

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """Every item ends in the last node that was made."""
        return torch.tensor([self.lattice(sizes).topology.n_nodes - 1])

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Uses the hypergraph where there is one.

        With cycles it is LP-MAP for Hard, and a ValueError that names a cycle for another Ω.
        """
        if self.why_no_hypergraph is not None and isinstance(regularizer, Hard):
            return LpMapProgram(self.agreement, len(problem.parts), Stopping(MAX_ITER, ATOL))
        return super().program(problem, regularizer)

    # With or without cycles.

    @cached_property
    def agreement(self) -> Agreement:
        """The factors' local problems, grouped."""
        return agreement_of(self.variables, self.factors, self.n_entries, self.n_scores)

    def sparsemap(  # type: ignore[override]
        self,
        scores: Any,
        *,
        extra: Any = None,
        lengths: Any = None,
        mask: Any = None,
        max_iter: int = MAX_ITER,
        atol: float = ATOL,
    ) -> LPSparseMAPSolution:
        """Solves LP-SparseMAP by alternating directions; differentiable any number of times.

        It ends where the solution on the factors' faces is exact, or where both residuals (the dual one relative to the
        scores) are at most `atol`, or after `max_iter` iterations, with a warning.
        """
        potentials = scores if extra is None else self.with_extra(scores, extra)
        problem = self.bind(potentials, lengths, mask)
        found = self._solve(problem, Stopping(max_iter, atol))
        batch = problem.batch_shape
        return LPSparseMAPSolution(
            problem.in_user_shape(found.parts),
            found.primal.reshape(batch),
            found.dual.reshape(batch),
            found.n_iterations.reshape(batch),
        )

    def sparsemap_parts(self, problem: Problem, max_iter: int, atol: float = 0.0) -> tuple[Parts, Tensor]:
        found = self._solve(problem, Stopping(max_iter, max(atol, ATOL)))
        return found.parts, found.value

    def _solve(self, problem: Problem, stopping: Stopping) -> GraphSolution:
        checks.check_count("FactorGraph.sparsemap", "max_iter", stopping.max_iter)
        checks.check_gap("FactorGraph.sparsemap", "atol", stopping.atol)
        found = lp_sparsemap(self.agreement, problem.parts, stopping)
        warn_if_stopped("FactorGraph.sparsemap", found, stopping)
        return found


def _common_batch(given: Mapping[str, Tensor], blocks: tuple[Block, ...]) -> tuple[int, ...]:
    shapes, known = [], {block.name: block for block in blocks}
    for name, tensor in given.items():
        if name not in known:
            raise ValueError(f"FactorGraph.scores: names must be of {sorted(known)}, got {name!r}; see the builder")
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise TypeError(f"FactorGraph.scores: {name!r} must be a Tensor, got {kind}; wrap it with torch.tensor")
        shape, event = tuple(tensor.shape), known[name].shape
        lead = len(shape) - len(event)
        if lead < 0 or shape[lead:] != event:
            raise ValueError(
                f"FactorGraph.scores: {name!r} must have the shape (..., {', '.join(map(str, event))}), got {shape}; "
                "batch axes lead"
            )
        shapes.append(shape[:lead])
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        raise ValueError(
            f"FactorGraph.scores: the batch axes must broadcast, got {shapes}; shared scores may have none"
        ) from None


def _laid_out(
    blocks: tuple[Block, ...], given: Mapping[str, Tensor], size: int, batch: tuple[int, ...], like: Tensor
) -> Tensor:
    pieces = []
    for block in blocks:
        if block.name in given:
            piece = given[block.name].expand((*batch, *block.shape)).reshape(*batch, block.size)
            pieces.append(piece)
        else:
            pieces.append(like.new_zeros(*batch, block.size))
    return torch.cat(pieces, -1) if pieces else like.new_zeros(*batch, size)
