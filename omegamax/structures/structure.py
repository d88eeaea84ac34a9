"""A structure: what is chosen (paths, trees, matchings), how it is scored, and the methods that all of them have.

A structure is a frozen description without data. It says how its potentials are shaped and gives a `Program` for each
regularizer it can be smoothed with; the best structure is the program of `Hard`. Dynamic programs are described by a
hypergraph (`dynamic_program.py`), and have more methods.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax import checks, routing
from omegamax.inference.program import Parts, Program
from omegamax.kernels.structures.sparsemap import CompiledOracle
from omegamax.operators.hard import Hard
from omegamax.operators.regularizer import Regularizer
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures import measures
from omegamax.structures.labels import labelled_parts
from omegamax.structures.positions import KeptPositions
from omegamax.structures.problem import Problem, Sizes, computed_in
from omegamax.structures.smoothing import Smoothing, smoothed_marginals, smoothed_value, smoothing_of
from omegamax.structures.sparsemap import MAX_ITER, SparseMAPSolution, sparsemap, sparsemap_marginals_and_value
from omegamax.wrong_kinds import instead_of, kind_of

_SHANNON = Shannon()


class Structure(abc.ABC):
    """A set of structures that can be searched for the best. Subclasses describe the set; the methods are common.

    Common arguments: `potentials` (scores, higher is better; −inf forbids), `regularizer` (Ω, local to the recursion),
    `lengths` (integers from 1, one per batch item; a pair where two axes have lengths), `positions` (for a `Chain`, in
    place of lengths: boolean (..., N), False where a position is removed), `mask` (boolean, broadcasts to the
    potentials, or to their first component; True means allowed), `limit` (how many structures are listed at most),
    `generator` (the source of random numbers), `dtype` (of what a constructor returns), `extra` (scores that SparseMAP
    does not regularise). Arguments of what a structure describes: `problem` (potentials with their lengths, batch axes
    merged), `sizes` (the event shape of each component), `target` and `entries` (parts that may be a structure, and
    where they are not zero), `labels` (see `target_from`; one that is `unknown` says nothing), `allowed` (boolean, what
    may be right), `max_iter` (calls of the oracle).
    """

    event_ndim: ClassVar[int]  # trailing axes of potentials that are one tensor
    has_empty: ClassVar[bool] = False  # whether one of the structures has no parts at all
    n_regularized: ClassVar[int | None] = None  # how many of the first components SparseMAP regularises; None: all
    labels_are: ClassVar[str | None] = None  # what integers may stand for a structure, such as "tags (..., N)"
    takes_positions: ClassVar[bool] = False  # whether positions of its one axis with a length can be removed
    any_labels_fit: ClassVar[bool] = False  # whether all labels in range stand for a structure

    # What a subclass describes.

    @abc.abstractmethod
    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        """Checks the potentials and returns their tensors, each with its number of event axes."""

    @abc.abstractmethod
    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        """Returns the size of each axis that has a length."""

    @abc.abstractmethod
    def program(self, problem: Problem, regularizer: Regularizer) -> Program:
        """Returns value, marginals and tangent under this Ω.

        It raises, with the reason, where there is no such program.
        """

    def forbidden(self, sizes: Sizes, lengths: tuple[Tensor, ...]) -> Tensor | None:
        """Returns which parts of the first component no structure of these lengths may use: (batch, *event)."""
        return None

    def is_structure(self, problem: Problem, target: Parts, entries: Any) -> Tensor | None:
        """Says whether each target is a structure, (batch,), if that is seen without a search; else None.

        `entries` says where each component (batch, *event) of the target is not zero; see `membership.py`.
        """
        return None

    def parts_from_labels(self, problem: Problem, labels: Tensor) -> Parts:
        """Returns the structures that integer labels (batch, N) stand for, where the class says `labels_are`."""
        raise TypeError(
            f"{type(self).__name__}: a target must be a structure in the form of the scores, got integer labels, which "
            "have no meaning here; make it with a constructor of the class"
        )

    def allowed_by_labels(self, problem: Problem, labels: Tensor, unknown: int) -> Tensor:
        """Returns which entries (batch, *event) of the first component labels (batch, N) allow.

        A label that is `unknown` allows everything at its position.
        """
        raise TypeError(
            f"{type(self).__name__}: what is allowed must be a boolean Tensor that broadcasts to the scores, got "
            "integer labels; say of each part whether it may be right"
        )

    def allowed_in_shape(self, problem: Problem, allowed: Tensor) -> Tensor:
        """Returns a boolean tensor that says what is allowed such that it broadcasts to the first component."""
        return allowed

    def hamming(self, target: Any) -> Tensor:
        """Returns costs of the parts of the first component: one for every part that the target lacks."""
        first = target if isinstance(target, Tensor) else target[0]
        return (1 - first).clamp(min=0)

    def oracle(self, problem: Problem) -> CompiledOracle | None:
        """Returns the best structure in compiled code, for SparseMAP, None where there is none."""
        return None

    def sparsemap_parts(self, problem: Problem, max_iter: int, atol: float = 0.0) -> tuple[Parts, Tensor]:
        """Computes marginals and value of `SparseMAP`: by the active set, unless the structure has another way.

        The search ends at a gap of `atol`.
        """
        return sparsemap_marginals_and_value(problem, max_iter, atol)

    def with_extra(self, scores: Any, extra: Any) -> Any:
        """Makes potentials from the regularised scores and the extra ones."""
        raise ValueError(
            f"{self._name}.sparsemap: extra must be None, got {type(extra).__name__}; {self._name} has no scores "
            "that are not regularised"
        )

    # What users call.

    def max(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Tensor:
        """Computes DP_Ω, the smoothed score of the best structure, one number per item. Its gradient is `argmax`."""
        problem = self.bind(potentials, lengths, mask, positions)
        return problem.per_item(smoothed_value(problem, smoothing_of(self._name, regularizer)))

    def argmax(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Any:
        """Computes ∇ DP_Ω, the expected structure, shaped as the potentials. Differentiable once more."""
        problem = self.bind(potentials, lengths, mask, positions)
        return problem.in_user_shape(smoothed_marginals(problem, smoothing_of(self._name, regularizer)))

    @torch.no_grad()
    def map(self, potentials: Any, *, lengths: Any = None, mask: Any = None, positions: Any = None) -> Any:
        """Finds the best structure, 0/1, shaped as the potentials; ties go to the first edge."""
        problem = self.bind(potentials, lengths, mask, positions)
        return problem.in_user_shape(smoothed_marginals(problem, Smoothing(Hard(), 1.0)))

    def sparsemap(
        self,
        scores: Any,
        *,
        extra: Any = None,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
        start: SparseMAPSolution | None = None,
        max_iter: int = MAX_ITER,
        atol: float = 0.0,
    ) -> SparseMAPSolution:
        """Finds a few structures with probabilities, whose mean maximises <scores, μ> − ½ ‖μ‖²; differentiable.

        `scores` are potentials, whose first components are regularised; where these are one tensor, the others may be
        given as `extra`. `start` is the result of an equal structure for scores like these; items of other lengths
        start anew, and a start of other structures raises. The search ends when the gap is at most `atol` beyond
        rounding, or after `max_iter` calls of the oracle, with a warning.
        """
        potentials = scores if extra is None else self.with_extra(scores, extra)
        problem = self.bind(potentials, lengths, mask, positions).compacted()
        return sparsemap(problem, start=start, max_iter=max_iter, atol=atol)

    def log_prob(
        self,
        potentials: Any,
        structures: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Tensor:
        """Computes the log-probability of structures (*before, *batch, *event) in the random walk; differentiable.

        Under Shannon it is score − log-partition, and the structures are not checked. Under another Ω the
        derivation is looked up, and what is not a structure raises.
        """
        problem, regularizer = self._bind(potentials, regularizer, lengths, mask, positions)
        return measures.log_prob(self._name, problem, structures, regularizer)

    def prob(self, potentials: Any, structures: Any, regularizer: SmoothMax = _SHANNON, **keywords: Any) -> Tensor:
        """Computes the exponential of `log_prob`, which also takes the `keywords`."""
        return self.log_prob(potentials, structures, regularizer, **keywords).exp()

    def entropy(
        self,
        potentials: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Tensor:
        """Computes the entropy of the Gibbs distribution over structures (Shannon only); differentiable."""
        return measures.entropy(self._bind_shannon("entropy", potentials, regularizer, lengths, mask, positions))

    def kl(
        self,
        potentials: Any,
        other: Any,
        regularizer: SmoothMax = _SHANNON,
        *,
        lengths: Any = None,
        mask: Any = None,
        positions: Any = None,
    ) -> Tensor:
        """Computes KL(p ‖ q) of the Gibbs distributions p of `potentials` and q of `other` (Shannon only).

        It is differentiable.
        """
        first = self._bind_shannon("kl", potentials, regularizer, lengths, mask, positions)
        return measures.kl(first, self._bind_shannon("kl", other, regularizer, lengths, mask, positions))

    def target_from(self, labels: Tensor, potentials: Any, *, lengths: Any = None, positions: Any = None) -> Any:
        """Makes gold structures from what annotators write: tags of a chain, heads of a tree, pairs of a matching.

        Losses do this by themselves for integer targets.

        Arguments:
            labels: integers (*batch, N): `Chain` tags, trees the head of every word, `Matching` the column of every row
            potentials: scores, for their shapes; what they hold is not read
            lengths: as in all methods; labels beyond them are ignored
            positions: as in all methods; labels of positions that are removed are ignored

        Returns 0/1 structures shaped as the potentials.

        >>> Chain().target_from(torch.tensor([1, 0]), torch.zeros(2, 2, 2)).nonzero()
        tensor([[0, 0, 1],
                [1, 1, 0]])
        """
        problem = self.bind(potentials, lengths, positions=positions)
        return problem.in_user_shape(labelled_parts(f"{self._name}.target_from", problem, labels))

    # How potentials are bound to the description.

    def bind(self, potentials: Any, lengths: Any = None, mask: Any = None, positions: Any = None) -> Problem:
        """Checks the potentials, applies the mask, merges the batch axes into one. All parts get the widest type."""
        name, components = self._name, self.components(potentials)
        tensors = [tensor for tensor, _ in components]
        if mask is not None:
            checks.check_mask(name, tensors[0], mask)
            tensors[0] = torch.where(mask, tensors[0], -torch.inf)
        batch_shape = checks.common_batch(name, components)
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        computed, parts, events = computed_in(dtype), [], []
        for tensor, (_, event_ndim) in zip(tensors, components):
            event = tuple(tensor.shape[tensor.dim() - event_ndim :])
            events.append(event)
            parts.append(tensor.to(computed).expand(*batch_shape, *event).reshape(-1, *event))
        sizes = tuple(events)
        with routing.outside_transforms():  # kernels read the lengths, which no transform differentiates
            kept = self._kept(batch_shape, lengths, positions, self.limits(sizes))
            per_axis = (
                checks.check_structure_lengths(name, batch_shape, lengths, self.limits(sizes))
                if kept is None
                else (kept.lengths,)
            )
        out = self.forbidden(sizes, per_axis)
        if out is not None:
            parts[0] = torch.where(out.to(parts[0].device), -torch.inf, parts[0])
        kind = None if isinstance(potentials, Tensor) else type(potentials)
        return Problem(self, tuple(parts), per_axis, batch_shape, dtype, kind, kept)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _kept(
        self, batch_shape: tuple[int, ...], lengths: Any, positions: Any, limits: tuple[int, ...]
    ) -> KeptPositions | None:
        """Reads which positions there are, None where none is removed."""
        if positions is None:
            return None
        if not self.takes_positions:
            raise ValueError(
                f"{self._name}: positions must be None, got {type(positions).__name__}; only a Chain can leave out "
                "positions"
            )
        return KeptPositions.of(
            self._name, checks.check_positions(self._name, batch_shape, limits[0], positions, lengths)
        )

    def _bind(
        self, potentials: Any, regularizer: SmoothMax, lengths: Any, mask: Any, positions: Any = None
    ) -> tuple[Problem, Regularizer]:
        """Returns the problem at potentials / γ, positions that are kept in front, and Ω without γ."""
        smoothing = smoothing_of(self._name, regularizer)
        problem = self.bind(potentials, lengths, mask, positions).compacted()
        return problem.divided(smoothing.gamma), smoothing.regularizer

    def _bind_shannon(
        self, method: str, potentials: Any, regularizer: SmoothMax, lengths: Any, mask: Any, positions: Any = None
    ) -> Problem:
        problem, found = self._bind(potentials, regularizer, lengths, mask, positions)
        if not isinstance(found, Shannon):
            raise ValueError(
                f"{self._name}.{method}: regularizer must be Shannon, got {type(found).__name__}; for a sparse Ω sum "
                "over support"
            )
        return problem


def check_structure(who: str, structure: Any) -> Any:
    """Checks that `structure` is a structure, and not its class."""
    if not isinstance(structure, Structure):
        is_class = isinstance(structure, type) and issubclass(structure, Structure)
        remedy = instead_of(structure, "") if is_class else "use for example om.Chain()"
        raise TypeError(f"{who}: structure must be a Structure, got {kind_of(structure)}; {remedy}")
    return structure
