"""A structure: what is chosen (paths, alignments, trees), as a hypergraph, and everything that can be asked of it.

A structure is a frozen description without data. It says how its potentials are shaped and gives a hypergraph for each
size; the methods are then the same for all structures.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.lattice import Lattice
from omegamax.inference.program import Program
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures import lists, measures
from omegamax.structures.lists import Marginal, Support, TopK
from omegamax.structures.measures import Backpointers
from omegamax.structures.problem import Problem, Sizes, computed_in
from omegamax.structures.smoothing import Local, local, smoothed_marginals, smoothed_value

_SHANNON = Shannon()
_BUILT: dict[tuple[Structure, Sizes], Lattice] = {}
_MAX_BUILT = 16


class Structure(abc.ABC):
    """A set of structures that a dynamic program can search. Subclasses describe; the methods are common.

    Common arguments: `potentials` (scores, higher is better; −inf forbids), `regularizer` (Ω, local to the recursion),
    `lengths` (integers from 1, one per batch item; a pair where two axes have lengths), `mask` (boolean, broadcasts to
    the potentials, or to their first component; True means allowed).
    """

    event_ndim: ClassVar[int]  # trailing axes of potentials that are one tensor
    has_empty: ClassVar[bool] = False  # whether one of the structures has no parts at all

    # What a structure describes.

    @abc.abstractmethod
    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        """The tensors that make up the potentials, checked, each with its number of event axes."""

    @abc.abstractmethod
    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        """The size of each axis that has a length."""

    @abc.abstractmethod
    def build(self, sizes: Sizes) -> Lattice:
        """The hypergraph for components of these event sizes."""

    @abc.abstractmethod
    def goals(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor:
        """The node, as the description numbers it, in which each item ends, (batch,)."""

    def forbidden(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor | None:
        """Parts of the first component that no structure of these lengths may use: boolean (batch, *event)."""
        return None

    def specialised(self, problem: Problem, regularizer: Regularizer) -> Program | None:
        """A faster program than the generic engine, where there is one for these inputs."""
        return None

    # What can be asked of it.

    def max(
        self, potentials: Any, regularizer: SmoothMax = _SHANNON, *, lengths: Any = None, mask: Any = None
    ) -> Tensor:
        """DP_Ω, the smoothed score of the best structure, one number per item. Its gradient is `argmax`."""
        problem = self.bind(potentials, lengths, mask)
        return problem.per_item(smoothed_value(problem, local(self._name, regularizer)))

    def argmax(
        self, potentials: Any, regularizer: SmoothMax = _SHANNON, *, lengths: Any = None, mask: Any = None
    ) -> Any:
        """∇ DP_Ω, the expected structure, shaped as the potentials. Differentiable once more."""
        problem = self.bind(potentials, lengths, mask)
        return problem.dress(smoothed_marginals(problem, local(self._name, regularizer)))

    @torch.no_grad()
    def map(self, potentials: Any, *, lengths: Any = None, mask: Any = None) -> Any:
        """The best structure, 0/1, shaped as the potentials; ties go to the first edge."""
        problem = self.bind(potentials, lengths, mask)
        return problem.dress(smoothed_marginals(problem, Local(Hard(), 1.0)))

    @torch.no_grad()
    def topk(self, potentials: Any, k: int, *, lengths: Any = None, mask: Any = None) -> TopK:
        """The k best structures, distinct, in exact order."""
        checks.check_count(f"{self._name}.topk", "k", k)
        return lists.topk(self.bind(potentials, lengths, mask), k)

    @torch.no_grad()
    def support(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        limit: int = 100,
        lengths: Any = None,
        mask: Any = None,
    ) -> Support:
        """Every structure of non-zero probability in the random walk, ranked; at most `limit` per item."""
        checks.check_count(f"{self._name}.support", "limit", limit)
        return lists.support(*self._bind(potentials, regularizer, lengths, mask), limit)

    def marginal(
        self, potentials: Any, regularizer: SmoothMax, *, limit: int = 1000, lengths: Any = None, mask: Any = None
    ) -> Marginal:
        """argmax_Ω over the scores of *all* structures, for a sparse Ω; differentiable in the weights.

        Not the same as `argmax`, which smooths inside the recursion: the two agree for Shannon's Ω only.
        """
        checks.check_count(f"{self._name}.marginal", "limit", limit)
        return lists.marginal(self._name, *self._bind(potentials, regularizer, lengths, mask), limit)

    @torch.no_grad()
    def sample(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        n_samples: int = 1,
        generator: torch.Generator | None = None,
        lengths: Any = None,
        mask: Any = None,
    ) -> Any:
        """Random structures (n_samples, *batch, *event), 0/1; their mean is `argmax`."""
        checks.check_count(f"{self._name}.sample", "n_samples", n_samples)
        return lists.sample(*self._bind(potentials, regularizer, lengths, mask), n_samples, generator)

    @torch.no_grad()
    def enumerate(self, potentials: Any, *, limit: int = 100_000, lengths: Any = None, mask: Any = None) -> Any:
        """All structures (number, *event); a list of such where there is a batch."""
        return lists.enumerate_all(self._name, self.bind(potentials, lengths, mask), limit)

    def count(self, potentials: Any, *, lengths: Any = None, mask: Any = None) -> Any:
        """How many structures have a score above −inf: an exact integer; a list of them where there is a batch."""
        return lists.count(self.bind(potentials, lengths, mask))

    def log_prob(
        self,
        potentials: Any,
        structures: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
    ) -> Tensor:
        """Log-probability of structures (*before, *batch, *event) in the random walk; differentiable.

        Under Shannon it is score − log-partition, and the structures are taken as they come. Under another Ω the
        derivation is looked up, and what is not a structure raises.
        """
        problem, regularizer = self._bind(potentials, regularizer, lengths, mask)
        return measures.log_prob(self._name, problem, structures, regularizer)

    def prob(self, potentials: Any, structures: Any, regularizer: SmoothMax = _SHANNON, **keywords: Any) -> Tensor:
        """The exponential of `log_prob`."""
        return self.log_prob(potentials, structures, regularizer, **keywords).exp()

    def entropy(
        self, potentials: Any, regularizer: SmoothMax = _SHANNON, *, lengths: Any = None, mask: Any = None
    ) -> Tensor:
        """Entropy of the Gibbs distribution over structures (Shannon only); differentiable."""
        return measures.entropy(self._bind_shannon("entropy", potentials, regularizer, lengths, mask))

    def kl(
        self, potentials: Any, other: Any, regularizer: SmoothMax = _SHANNON, *, lengths: Any = None, mask: Any = None
    ) -> Tensor:
        """KL divergence between the Gibbs distributions of two potentials (Shannon only); differentiable in both."""
        first = self._bind_shannon("kl", potentials, regularizer, lengths, mask)
        return measures.kl(first, self._bind_shannon("kl", other, regularizer, lengths, mask))

    def backpointers(
        self, potentials: Any, regularizer: SmoothMax = _SHANNON, *, lengths: Any = None, mask: Any = None
    ) -> Backpointers:
        """The local weights q of every edge: the random walk's transition probabilities; differentiable."""
        return measures.backpointers(*self._bind(potentials, regularizer, lengths, mask))

    # How data meets the description.

    def bind(self, potentials: Any, lengths: Any = None, mask: Any = None) -> Problem:
        """Checks the potentials, applies the mask, merges the batch axes into one."""
        components = self.components(potentials)
        tensors = [tensor for tensor, _ in components]
        if mask is not None:
            checks.check_mask(self._name, tensors[0], mask)
            tensors[0] = torch.where(mask, tensors[0], -torch.inf)
        batch_shape = checks.common_batch(self._name, components)
        dtype = tensors[0].dtype
        parts = []
        for tensor, (_, event_ndim) in zip(tensors, components):
            event = tensor.shape[tensor.dim() - event_ndim :]
            parts.append(tensor.to(computed_in(dtype)).expand(*batch_shape, *event).reshape(-1, *event))
        sizes = tuple(tuple(part.shape[1:]) for part in parts)
        per_axis = checks.check_structure_lengths(self._name, batch_shape, lengths, self.limits(sizes))
        out = self.forbidden(sizes, per_axis)
        if out is not None:
            parts[0] = torch.where(out.to(parts[0].device), -torch.inf, parts[0])
        kind = None if isinstance(potentials, Tensor) else type(potentials)
        return Problem(self, tuple(parts), per_axis, batch_shape, dtype, kind)

    def lattice(self, sizes: Sizes) -> Lattice:
        """`build`, remembered for the sizes in use."""
        found = _BUILT.get((self, sizes))
        if found is None:
            while len(_BUILT) >= _MAX_BUILT:  # the oldest goes: a training loop cycles through few sizes
                _BUILT.pop(next(iter(_BUILT)), None)
            with routing.outside_transforms():  # what is remembered must not belong to a transform
                found = _BUILT[self, sizes] = self.build(sizes)
        return found

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _bind(self, potentials: Any, regularizer: SmoothMax, lengths: Any, mask: Any) -> tuple[Problem, Regularizer]:
        """The problem at potentials / γ, and Ω without γ."""
        smoothing = local(self._name, regularizer)
        return self.bind(potentials, lengths, mask).divided(smoothing.gamma), smoothing.regularizer

    def _bind_shannon(self, method: str, potentials: Any, regularizer: SmoothMax, lengths: Any, mask: Any) -> Problem:
        problem, found = self._bind(potentials, regularizer, lengths, mask)
        if not isinstance(found, Shannon):
            raise ValueError(
                f"{self._name}.{method}: regularizer must be Shannon, got {type(found).__name__}; for a sparse Ω sum "
                "over support"
            )
        return problem
