"""Chains: sequences of tags, scored by neighbouring pairs.

    dense     potentials (..., N, C, C): [n, i, j] scores tag j at n after i at n − 1; at n = 0 only [0, 0, j] is read
    factored  emissions (..., N, C), transitions (C, C) or (..., C, C), start (C,), end (C,); never multiplied out

A structure is 0/1 in the same shape: one cell [n, i, j] per position; in factored form how often each is used.

`positions` (..., N) may remove some: what is left is a shorter chain. [n, i, j] then scores tag j at n after tag i at
the last position before n that is kept, and of the first one that is kept only row 0 is read; start and end belong to
the first and the last that are kept. Removed positions are not read, and have no weight and no gradient.
The recursion runs left to right. Lafferty, McCallum & Pereira, ICML 2001; Mensch & Blondel, ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.hypergraphs.chain_program import ChainProgram
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.topology import Topology
from omegamax.inference.program import Parts, Program
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures import measures
from omegamax.structures.dynamic_program import DynamicProgram
from omegamax.structures.gold_tags import GoldTags
from omegamax.structures.problem import Problem, Sizes

_SHANNON = Shannon()


class FactoredChain(NamedTuple):
    """Potentials of a chain in factored form, and weights in the same form."""

    emissions: Tensor  # (..., N, C)
    transitions: Tensor  # (..., C, C): [i, j] = tag j after tag i
    start: Tensor  # (..., C)
    end: Tensor  # (..., C)


class TransitionMatrices(NamedTuple):
    """The random walk of a chain, backwards: q of the recursion, in the shapes of the tutorial."""

    transitions: Tensor  # (..., N, C, C): [n, i, j] = probability of having come from tag i, given tag j at n
    last: Tensor  # (..., C): distribution of the last tag


@dataclass(frozen=True)
class Chain(DynamicProgram):
    """Sequences of C tags of length N. Under Shannon `max` is the log-partition of a linear-chain CRF."""

    event_ndim = 3
    n_regularized = 1
    labels_are = "tags (..., N)"
    any_labels_fit = True
    takes_positions = True
    compiled_omegas = frozenset(Omega)

    @staticmethod
    def from_emissions(
        emissions: Tensor, transitions: Tensor, start: Tensor | None = None, end: Tensor | None = None
    ) -> FactoredChain:
        """Makes factored potentials, which every method accepts in place of the dense tensor.

        Arguments:
            emissions: (..., N, C), scores of tags at positions
            transitions: (C, C) or (..., C, C), [i, j] = tag j after tag i
            start: (C,) or (..., C), scores of the first tag; None is zero
            end: (C,) or (..., C), scores of the last tag; None is zero
        """
        nothing = emissions.new_zeros(emissions.shape[-1:])
        return FactoredChain(
            emissions, transitions, nothing if start is None else start, nothing if end is None else end
        )

    @staticmethod
    def from_tags(
        tags: Tensor, n_tags: int, *, lengths: Any = None, positions: Any = None, dtype: Any = None
    ) -> Tensor:
        """Makes a dense structure (..., N, C, C), 0/1, from tags (..., N), zero where there is no position.

        Arguments:
            tags: integers (..., N); beyond the lengths and where a position is removed they may be anything, as −100
            n_tags: how many tags there are, C
            lengths: how many positions each item has
            positions: in place of lengths, boolean (..., N): False where a position is removed
            dtype: of the result
        """
        return GoldTags.of("Chain.from_tags", tags, n_tags, lengths, positions).dense(dtype)

    @staticmethod
    def factored_from_tags(
        tags: Tensor, n_tags: int, *, lengths: Any = None, positions: Any = None, dtype: Any = None
    ) -> FactoredChain:
        """Makes a structure in factored form from tags (..., N): how often each emission and transition is used.

        Arguments:
            tags: integers (..., N); beyond the lengths and where a position is removed they may be anything, as −100
            n_tags: how many tags there are, C
            lengths: how many positions each item has
            positions: in place of lengths, boolean (..., N): False where a position is removed
            dtype: of the result
        """
        return FactoredChain(*GoldTags.of("Chain.factored_from_tags", tags, n_tags, lengths, positions).factored(dtype))

    def parts_from_labels(self, problem: Problem, labels: Tensor) -> Parts:
        who = f"Chain.{'factored_' if len(problem.parts) > 1 else ''}from_tags"
        lengths, kept = problem.lengths[0], None if problem.is_compacted else problem.kept
        given = GoldTags.checked(who, labels, problem.sizes[0][-1], lengths, kept)
        dtype = problem.parts[0].dtype
        return given.factored(dtype) if len(problem.parts) > 1 else (given.dense(dtype),)

    def allowed_by_labels(self, problem: Problem, labels: Tensor, unknown: int) -> Tensor:
        is_known = labels != unknown
        kept, lengths = problem.kept, problem.lengths[0]
        given = GoldTags.checked("Chain", torch.where(is_known, labels, 0), problem.sizes[0][-1], lengths, kept)
        hot = torch.nn.functional.one_hot(given.tags, given.n_tags) > 0
        allowed = hot | ~(is_known & given.within).unsqueeze(-1)
        return (allowed if len(problem.parts) > 1 else allowed.unsqueeze(-2)).expand(problem.parts[0].shape)

    def allowed_in_shape(self, problem: Problem, allowed: Tensor) -> Tensor:
        """Tags (..., N, C) are allowed whatever the tag before them; cells (..., N, C, C) stay as they are."""
        of_tags = allowed.dim() == len(problem.batch_shape) + 2
        return allowed.unsqueeze(-2) if len(problem.parts) == 1 and of_tags else allowed

    @staticmethod
    def tags(structure: Tensor | FactoredChain) -> Tensor:
        """Reads the tags (..., N) of a structure (from `map`, `topk`, `sample`); −1 where there is no position."""
        hot = structure.emissions if isinstance(structure, FactoredChain) else structure.sum(-2)
        return torch.where(hot.sum(-1) > 0.5, hot.argmax(-1), -1)

    def is_structure(self, problem: Problem, target: Parts, entries: Any) -> Tensor:
        """Checks that every position has one cell, which begins with the tag that the cell before it ends with."""
        if len(target) > 1:  # reads the tags off the target, and compares with the structure of those tags
            tags = self.tags(FactoredChain(*target)).clamp(min=0)
            built = self.parts_from_labels(problem, tags)
            return torch.stack([(given == part).flatten(1).all(1) for given, part in zip(target, built)]).all(0)
        ((items, places, values),) = entries
        n, c, _ = problem.sizes[0]
        count = items.bincount(minlength=problem.n_items)
        number = torch.arange(len(items), device=items.device) - (count.cumsum(0) - count)[items]  # within its item
        cell = places % (n * c * c)
        before = torch.nn.functional.pad(cell[:-1] % c, (1, 0))[: len(cell)]
        before = torch.where(number == 0, 0, before)
        place = number if problem.order is None else problem.order.to(cell)[items, number.clamp(max=n - 1)]
        wrong = (values != 1) | (cell != (place * c + before) * c + cell % c)
        return (count == problem.lengths[0].to(count.device)) & (items[wrong].bincount(minlength=problem.n_items) == 0)

    def hamming(self, target: Any) -> Tensor:
        """Costs one for every position with another tag, whatever the tag before it."""
        if isinstance(target, FactoredChain):
            return super().hamming(target)
        return (1 - target.sum(-2, keepdim=True)).clamp(min=0)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        if isinstance(potentials, FactoredChain):
            emissions, transitions, start, end = potentials
            n_tags = emissions.shape[-1] if isinstance(emissions, Tensor) and emissions.dim() else 0
            checks.check_event("Chain", "emissions", emissions, (None, n_tags), "(..., N, C)")
            checks.check_event("Chain", "transitions", transitions, (n_tags, n_tags), "(C, C) or (..., C, C)")
            checks.check_event("Chain", "start", start, (n_tags,), "(C,)")
            checks.check_event("Chain", "end", end, (n_tags,), "(C,)")
            return (emissions, 2), (transitions, 2), (start, 1), (end, 1)
        checks.check_floating("Chain", potentials)
        n_tags = potentials.shape[-1] if potentials.dim() else 0
        checks.check_event("Chain", "potentials", potentials, (None, n_tags, n_tags), "(..., N, C, C)")
        return ((potentials, 3),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0],)

    def build(self, sizes: Sizes) -> Lattice:
        """Node 0 is the start; then N·C nodes (n, j); then N ends, one per possible length."""
        n, c = sizes[0][0], sizes[0][-1]
        j = np.arange(c)
        first = 1 + j  # the nodes of position 0
        place, before, after = np.meshgrid(np.arange(1, n), j, j, indexing="ij")
        length = np.repeat(np.arange(1, n + 1), c)
        heads = np.concatenate([first, (1 + place * c + after).ravel(), n * c + length])
        tails = np.concatenate([0 * j, (1 + (place - 1) * c + before).ravel(), 1 + (length - 1) * c + np.tile(j, n)])
        levels = np.concatenate([[0], np.repeat(np.arange(1, n + 1), c), np.arange(2, n + 2)])
        order = np.argsort(heads, kind="stable")  # edges into (n, j) by i: ties go to the lowest tag
        topology = Topology.from_edges(levels, heads[order], tails[order, None], leaves=[0])
        none = np.full
        if len(sizes) == 1:
            dense = np.concatenate([j, ((place * c + before) * c + after).ravel(), none(n * c, -1)])
            return Lattice.from_parts(topology, [dense[order]], [n * c * c], parts_are_edges=True)
        emission = np.concatenate([j, (place * c + after).ravel(), none(n * c, -1)])
        transition = np.concatenate([none(c, -1), (before * c + after).ravel(), none(n * c, -1)])
        start = np.concatenate([j, none(place.size + n * c, -1)])
        end = np.concatenate([none(c + place.size, -1), np.tile(j, n)])
        parts = [part[order] for part in (emission, transition, start, end)]
        return Lattice.from_parts(topology, parts, [n * c, c * c, c, c])

    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """An item ends in the end that belongs to its length."""
        n, c = sizes[0][0], sizes[0][-1]
        return n * c + lengths[0]

    def transition_matrices(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> TransitionMatrices:
        """Returns the local weights of the recursion as matrices, differentiable; zero where there is no position.

        The first position has no tag before it: its row 0 holds ones, as it does in a structure.
        """
        problem, regularizer = self._bind(potentials, regularizer, lengths, mask, positions)
        weights, heads, _ = measures.backpointers(problem, regularizer)
        weights = weights.reshape(problem.n_items, -1)
        n, c = problem.sizes[0][0], problem.sizes[0][-1]
        dense = self.lattice(((n, c, c),))  # both forms have the same edges
        (found,) = dense.sum_over_edges(weights, (weights.new_empty(problem.n_items, n, c, c),))
        within = torch.arange(n) < problem.lengths[0].unsqueeze(-1)
        found = torch.where(within[..., None, None].to(found.device), found, 0)
        (found,) = problem.put_back((found,), torch.arange(problem.n_items))
        into_goal = torch.searchsorted(heads, problem.goals.to(heads.device)).unsqueeze(-1) + torch.arange(c)
        last = weights.gather(1, into_goal.to(weights.device))
        shape = problem.batch_shape
        return TransitionMatrices(found.reshape(*shape, n, c, c), last.reshape(*shape, c))

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        n_places, n_tags, factored = *problem.sizes[0][:1], problem.sizes[0][-1], int(len(problem.parts) > 1)
        if 0 in problem.sizes[0]:
            return super().oracle(problem)
        return CompiledOracle(OracleKind.CHAIN, [n_places, n_tags, factored], [problem.lengths[0].long().contiguous()])

    def with_extra(self, scores: Any, extra: Any) -> FactoredChain:
        """Takes emissions as scores; transitions, or (transitions, start, end), as extra."""
        return self.from_emissions(scores, *((extra,) if isinstance(extra, Tensor) else extra))

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        if 0 in problem.parts[0].shape[1:]:
            return None
        lengths = problem.lengths[0].to(torch.int64).contiguous()
        return ChainProgram(omega, lengths, len(problem.parts), problem.order)
