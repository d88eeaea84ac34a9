"""Matchings of rows with columns: bipartite assignments, permutations where both sides are equal.

    potentials (..., R, C)                 [i, j] scores the pair; every row of the smaller side is matched exactly once
    NullableScores(pairs, rows, columns)   rows and columns may also stay unmatched, for a score of their own

A structure is 0/1 in the same shape. There are max(r, c)! / |r − c|! matchings of r rows with c columns, and
Σ_k C(r, k) C(c, k) k! where all may stay unmatched. The best is found by Jonker & Volgenant's algorithm in O(n³)
(Computing 1987). Their log-partition is the permanent of a matrix, which is #P-hard (Valiant, 1979), so no Ω smooths a
recursion here: use `sparsemap` for sparse marginals of matchings, or `sinkhorn` for entropic transport plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.matchings.matching_program import MatchingProgram
from omegamax.inference.program import Parts, Program
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.structure import Structure
from omegamax.structures.transport import ATOL, MAX_ITER, check_transport, transport_plan


class NullableScores(NamedTuple):
    """Potentials of a matching in which rows and columns may stay unmatched (NULL), and structures in the same form."""

    pairs: Tensor  # (..., R, C)
    rows: Tensor  # (..., R): score of a row that stays unmatched; −inf means that it must be matched
    columns: Tensor  # (..., C): the same for columns


@dataclass(frozen=True)
class Matching(Structure):
    """One-to-one matchings; lengths are a pair (rows, columns).

    >>> scores = torch.tensor([[1.0, 2.0, 0.0], [0.0, 3.0, 0.5]])
    >>> Matching.permutation(Matching().map(scores))
    tensor([0, 1])
    >>> Matching.permutation(Matching().map(Matching.with_null(scores, rows=1.5)))
    tensor([-1,  1])
    """

    event_ndim = 2
    n_regularized = 1  # the scores of unmatched rows and columns are not regularised
    labels_are = "columns (..., R)"

    @staticmethod
    def with_null(pairs: Tensor, rows: float | Tensor = 0.0, columns: float | Tensor = 0.0) -> NullableScores:
        """Adds scores for staying unmatched: numbers, or tensors (..., R) and (..., C); −inf means "must be matched".

        Arguments:
            pairs: scores (..., R, C)
            rows: of rows that stay unmatched
            columns: of columns that stay unmatched
        """
        found = []
        for unmatched, size in zip((rows, columns), pairs.shape[-2:]):
            each = torch.as_tensor(unmatched, dtype=pairs.dtype, device=pairs.device)
            found.append(each if each.dim() else each.expand(size))
        return NullableScores(pairs, *found)

    @staticmethod
    def permutation(structure: Tensor | NullableScores) -> Tensor:
        """Reads the column of every row (..., R); −1 for a row that has none.

        Arguments:
            structure: 0/1 (..., R, C), or `NullableScores` of such
        """
        pairs = structure.pairs if isinstance(structure, NullableScores) else structure
        return torch.where(pairs.sum(-1) > 0.5, pairs.argmax(-1), -1)

    @staticmethod
    def from_permutation(permutation: Tensor, n_columns: int | None = None, *, dtype: Any = None) -> Tensor:
        """Makes a structure (..., R, C), 0/1, from the columns of rows (..., R), −1 for none; C is R unless given.

        Arguments:
            permutation: integers (..., R)
            n_columns: how many columns there are, C; None takes R
            dtype: of the result
        """
        who = "Matching.from_permutation"
        if not isinstance(permutation, Tensor) or permutation.is_floating_point() or permutation.dtype is torch.bool:
            given = permutation.dtype if isinstance(permutation, Tensor) else type(permutation).__name__
            raise TypeError(f"{who}: permutation must be an integer Tensor, got {given}; use .long()")
        n = permutation.shape[-1] if n_columns is None else n_columns
        if permutation.numel() and not (int(permutation.min()) >= -1 and int(permutation.max()) < n):
            raise ValueError(
                f"{who}: columns must lie between 0 and {n - 1} (or be −1 for none), got {int(permutation.min())} to "
                f"{int(permutation.max())}; n_columns says how many there are"
            )
        pairs = permutation.unsqueeze(-1) == torch.arange(n, device=permutation.device)
        if bool((pairs.sum(-2) > 1).any()):
            raise ValueError(f"{who}: columns must be distinct, got one of them twice; a matching is one-to-one")
        return pairs.to(torch.get_default_dtype() if dtype is None else dtype)

    @staticmethod
    def nullable_from_permutation(
        permutation: Tensor, n_columns: int | None = None, *, lengths: Any = None, dtype: Any = None
    ) -> NullableScores:
        """Does the same for potentials with NULL: rows and columns without a partner are marked as unmatched.

        Arguments:
            permutation: integers (..., R)
            n_columns: how many columns there are, C; None takes R
            lengths: a pair, the rows and columns of each item
            dtype: of the result
        """
        pairs = Matching.from_permutation(permutation, n_columns, dtype=dtype)
        unmatched = []
        for axis, length in zip((-1, -2), (None, None) if lengths is None else lengths):
            found = 1 - pairs.sum(axis)
            if length is not None:
                length = checks.as_lengths(length).to(found.device)
                found = found * (torch.arange(found.shape[-1], device=found.device) < length.unsqueeze(-1))
            unmatched.append(found)
        return NullableScores(pairs, *unmatched)

    def parts_from_labels(self, problem: Problem, labels: Tensor) -> Parts:
        dtype, n_columns, (rows, columns) = problem.parts[0].dtype, problem.sizes[0][-1], problem.lengths
        within = torch.arange(labels.shape[-1], device=labels.device) < rows.to(labels.device).unsqueeze(-1)
        labels = torch.where(within, labels, -1)
        if len(problem.parts) == 1:
            return (self.from_permutation(labels, n_columns, dtype=dtype),)
        lengths = (rows.to(labels.device), columns.to(labels.device))
        return tuple(self.nullable_from_permutation(labels, n_columns, lengths=lengths, dtype=dtype))

    def sinkhorn(
        self,
        potentials: Any,
        gamma: float | Tensor = 1.0,
        *,
        lengths: Any = None,
        mask: Any = None,
        max_iter: int = MAX_ITER,
        atol: float = ATOL,
    ) -> Any:
        """Returns the plan of entropic optimal transport, shaped as the potentials. Differentiable twice.

            argmax over the polytope of matchings of  <P, θ> − γ Σ P log P

        P does *not* hold the marginals of a distribution over matchings: those of the Gibbs distribution are #P-hard,
        those of `sparsemap` are exact. Where R ≠ C, the sums over the larger side are at most 1. As γ → 0 (`gamma`), P
        tends to the best matching. It is solved in double precision until every sum is 1 to `atol`; stopping at
        `max_iter` warns. `om.Sinkhorn` is the same as an object with a value, for losses.
        """
        check_transport("Matching.sinkhorn", gamma, max_iter, atol)
        problem = self.bind(potentials, lengths, mask)
        return problem.in_user_shape(transport_plan(problem, gamma, max_iter, atol).parts)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if isinstance(potentials, NullableScores):
            pairs, rows, columns = potentials
            checks.check_event("Matching", "pairs", pairs, (None, None), "(..., R, C)")
            checks.check_event("Matching", "rows", rows, (pairs.shape[-2],), "(..., R)")
            checks.check_event("Matching", "columns", columns, (pairs.shape[-1],), "(..., C)")
            return (pairs, 2), (rows, 1), (columns, 1)
        checks.check_floating("Matching", potentials)
        checks.check_event("Matching", "potentials", potentials, (None, None), "(..., R, C)")
        return ((potentials, 2),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return sizes[0][0], sizes[0][1]

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Returns the best matching; there is no other program."""
        if not isinstance(regularizer, Hard):
            raise ValueError(
                f"Matching: regularizer must be Hard, got {type(regularizer).__name__}, for which one would sum over "
                "all matchings (a permanent, #P-hard); use sparsemap for sparse marginals of matchings, or sinkhorn "
                "for entropic transport plans"
            )
        rows, columns = problem.lengths
        return MatchingProgram((rows, columns), len(problem.parts))

    def is_structure(self, problem: Problem, target: Parts, entries: Any) -> Tensor:
        """Checks that partners are one-to-one and within the lengths, and that all others are marked as unmatched."""
        pairs, *unmatched = target
        inside = [
            torch.arange(size, device=pairs.device) < length.to(pairs.device).unsqueeze(1)
            for size, length in zip(problem.sizes[0], problem.lengths)
        ]
        possible = inside[0].unsqueeze(2) & inside[1].unsqueeze(1)
        member = ((pairs == 0) | ((pairs == 1) & possible)).flatten(1).all(1)
        partners = pairs.sum(2), pairs.sum(1)
        for found, there, given in zip(partners, inside, unmatched or (None, None)):
            member &= (found <= 1).all(1)
            if given is not None:
                member &= (given == there.to(found) - found).all(1)
        if not unmatched:
            smaller = torch.minimum(*problem.lengths).to(pairs.device)
            member &= partners[0].sum(1) == smaller
        return member

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        """Returns the same algorithm; it starts from the matching that it found for the scores before."""
        sizes = [*problem.sizes[0], int(len(problem.parts) > 1)]
        return CompiledOracle(OracleKind.MATCHING, sizes, [length.contiguous() for length in problem.lengths])

    def with_extra(self, scores: Any, extra: Any) -> Any:
        """Takes pairs as scores; the scores of unmatched rows and columns are extra, which is not regularised."""
        if not isinstance(extra, (tuple, list)) or len(extra) != 2:
            kind = type(extra).__name__
            raise TypeError(f"Matching.sparsemap: extra must be a pair (rows, columns), got {kind}; 0.0 is a score too")
        return Matching.with_null(scores, *extra)
