"""A structure that a dynamic program can search: a hypergraph for each size, and the methods that follow from it."""

from __future__ import annotations

import abc
from typing import Any

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.compiled_omega import compiled_omega
from omegamax.inference.hypergraphs.lattice import Lattice
from omegamax.inference.hypergraphs.lattice_program import LatticeProgram
from omegamax.inference.program import Program
from omegamax.inference.reordered_program import ReorderedProgram
from omegamax.kernels.structures.omega import Omega
from omegamax.kernels.structures.sparsemap import CompiledOracle, OracleKind
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures import lists, measures
from omegamax.structures.lists import BestStructures, Marginal, Support
from omegamax.structures.measures import Backpointers
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.smoothing import count_samples
from omegamax.structures.structure import Structure

_SHANNON = Shannon()
_BUILT: dict[tuple[DynamicProgram, Sizes], Lattice] = {}
_MAX_BUILT = 16


class DynamicProgram(Structure):
    """A set of structures that are the derivations of a hypergraph, which subclasses build; the methods are common."""

    compiled_omegas: frozenset[Omega] = frozenset()  # the Ω for which `compiled_for` has a program

    # What a subclass describes.

    @property
    def why_no_hypergraph(self) -> str | None:
        """The reason why there is no hypergraph (a factor graph with cycles), None where there is one."""
        return None

    @abc.abstractmethod
    def build(self, sizes: Sizes) -> Lattice:
        """Builds the hypergraph for components of these event sizes."""

    @abc.abstractmethod
    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """Returns the node, as the description numbers it, in which each item ends, (batch,)."""

    def compiled_for(self, problem: Problem, omega: Omega) -> Program | None:
        """Returns the compiled program for `omega`, one of `compiled_omegas`, None for sizes that it does not take."""
        return None

    def compiled_program(self, problem: Problem, regularizer: Regularizer) -> Program | None:
        """Returns the compiled program if there is one for this Ω and native code may read these tensors, else None."""
        omega = compiled_omega(regularizer)
        if omega is None or omega not in self.compiled_omegas or not routing.in_native_memory(*problem.parts):
            return None
        return self.compiled_for(problem, omega)

    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Returns the compiled program or, where there is none for these inputs, the generic engine."""
        compiled = self.compiled_program(problem, regularizer)
        if compiled is not None:
            return compiled
        generic = LatticeProgram(problem.lattice, regularizer, problem.goals)
        return generic if problem.order is None else ReorderedProgram(generic, problem.order)

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        """Returns one sweep over the hypergraph; a structure with a compiled sweep of its own overrides it."""
        lattice, topology = problem.lattice, problem.lattice.topology
        first_entry, parts, scales = lattice.entries()
        sizes = [topology.n_nodes, topology.n_leaves, *topology.tails.shape]
        integers = [topology.tails, topology.first_edges(), problem.goals_on_host, first_entry, parts]
        return CompiledOracle(OracleKind.LATTICE, sizes, [tensor.contiguous() for tensor in integers], scales)

    # What users call.

    @torch.no_grad()
    def topk(
        self, potentials: Any, k: int, *, lengths: Any = None, mask: Any = None, positions: Any = None
    ) -> BestStructures:
        """Finds the k best structures, distinct, in exact order."""
        checks.check_count(f"{self._name}.topk", "k", k)
        return lists.topk(self.bind(potentials, lengths, mask, positions).compacted(), k)

    @torch.no_grad()
    def support(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        limit: int = 100,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Support:
        """Lists every structure of non-zero probability in the random walk, ranked; at most `limit` per item."""
        checks.check_count(f"{self._name}.support", "limit", limit)
        return lists.support(*self._bind(potentials, regularizer, lengths, mask, positions), limit)

    def marginal(
        self,
        potentials: Any,
        regularizer: SmoothMax,
        *,
        limit: int = 1000,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Marginal:
        """Computes argmax_Ω over the scores of *all* structures, for a sparse Ω; differentiable in the weights.

        It is not the same as `argmax`, which smooths inside the recursion: the two agree for Shannon's Ω only.
        Only the structures that get weight are listed; for `Oscar` these may be all there are.
        """
        checks.check_count(f"{self._name}.marginal", "limit", limit)
        return lists.marginal(self._name, *self._bind(potentials, regularizer, lengths, mask, positions), limit)

    @torch.no_grad()
    def sample(
        self,
        potentials: Any,
        regularizer: SmoothMax | int = _SHANNON,
        *,
        n_samples: int | None = None,
        generator: torch.Generator | None = None,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Any:
        """Draws random structures (n_samples, *batch, *event), 0/1; their mean is `argmax`.

        `sample(potentials, 5)` draws five, as `topk(potentials, 5)` lists five; for another Ω than Shannon's, write
        `sample(potentials, regularizer, n_samples=5)`. Without a number it draws one.
        """
        regularizer, n_samples = count_samples(f"{self._name}.sample", regularizer, n_samples)
        return lists.sample(*self._bind(potentials, regularizer, lengths, mask, positions), n_samples, generator)

    @torch.no_grad()
    def enumerate(
        self, potentials: Any, *, limit: int = 100_000, lengths: Any = None, mask: Any = None, positions: Any = None
    ) -> Any:
        """Lists all structures (number, *event); a list of such where there is a batch."""
        return lists.enumerate_all(self._name, self.bind(potentials, lengths, mask, positions).compacted(), limit)

    def count(self, potentials: Any, *, lengths: Any = None, mask: Any = None, positions: Any = None) -> Any:
        """Counts the structures of a score above −inf: an exact integer; a list of them where there is a batch."""
        return lists.count(self.bind(potentials, lengths, mask, positions).compacted())

    def backpointers(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Backpointers:
        """Computes the local weights q of every edge: the random walk's transition probabilities; differentiable."""
        return measures.backpointers(*self._bind(potentials, regularizer, lengths, mask, positions))

    def lattice(self, sizes: Sizes) -> Lattice:
        """Returns what `build` built, remembered for the sizes in use."""
        found = _BUILT.get((self, sizes))
        if found is None:
            while len(_BUILT) >= _MAX_BUILT:  # drops the oldest: a training loop cycles through few sizes
                _BUILT.pop(next(iter(_BUILT)), None)
            # A lattice that is kept must not be made inside a transform or in inference mode: training may come next.
            with routing.outside_transforms(), torch.inference_mode(False):
                found = _BUILT[self, sizes] = self.build(sizes)
        return found
