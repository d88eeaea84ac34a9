"""Dependency trees, projective or not, and constituency trees, in the layout of torch-struct."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import functional
from omegamax.compat.torch_struct.distribution import StructDistribution
from omegamax.compat.torch_struct.labels import best_labels, draw_labels, label_lists
from omegamax.compat.torch_struct.parts import CKY_CRF, DepTree
from omegamax.operators.shannon import Shannon
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.constituency_tree import ConstituencyTree
from omegamax.structures.lists import BestStructures
from omegamax.structures.measures import inner
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.structures.structure import Structure

_SHANNON = Shannon()


class TreeCRF(StructDistribution):
    """A CRF over binary trees with labelled spans.

    Arguments:
        log_potentials: scores (*batch, N, N, NT) of the spans i..j, both included, with each label
        lengths: how many words each item has
        args: not needed
    """

    event_ndim = 3
    struct = CKY_CRF

    def structure(self) -> Structure:
        return ConstituencyTree()


class _Dependencies(StructDistribution):
    """Trees whose arcs may have labels: log_potentials (*batch, N, N) or (batch, N, N, L), roots on the diagonal.

    With labels the trees are those of the sum over labels, and each arc has its own distribution of labels.
    """

    struct = DepTree

    def __init__(self, log_potentials: Tensor, lengths: Any, args: Any, multiroot: bool) -> None:
        square = isinstance(log_potentials, Tensor) and log_potentials.dim() >= 2
        unlabelled = square and log_potentials.shape[-1] == log_potentials.shape[-2]
        self.labelled = square and log_potentials.dim() == 4
        if square and not (self.labelled or unlabelled):
            raise ValueError(
                f"{type(self).__name__}: log_potentials must be (*batch, N, N) or (batch, N, N, L), got "
                f"{tuple(log_potentials.shape)}; scores of roots are on the diagonal"
            )
        self.event_ndim = 3 if self.labelled else 2
        self.multiroot = multiroot
        super().__init__(log_potentials, lengths, args)

    def potentials(self) -> Tensor:
        return with_root(self._arcs(_SHANNON))

    def as_event(self, structures: Tensor) -> Tensor:
        return without_root(structures)

    def as_structure(self, event: Tensor) -> Tensor:
        return with_root(event)

    @property
    def marginals(self) -> Tensor:
        """How likely each arc is, (*batch, *event); differentiable."""
        arcs = super().marginals
        if not self.labelled:
            return arcs
        return arcs.unsqueeze(-1) * functional.softmax(self.log_potentials)

    @property
    def max(self) -> Tensor:
        """The score of the best tree, (*batch)."""
        if not self.labelled:
            return super().max
        found = inner((self.argmax,), (self.log_potentials,))
        return torch.where(self.log_partition == -torch.inf, -torch.inf, found)

    @property
    def argmax(self) -> Tensor:
        """The best tree, 0/1, (*batch, *event)."""
        if not self.labelled:
            return super().argmax
        best = self.log_potentials.detach().amax(-1)
        arcs = without_root(self.structure().map(with_root(best), lengths=self.lengths))
        return arcs.unsqueeze(-1) * best_labels(self.log_potentials)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws trees (*sample_shape, *batch, *event), 0/1."""
        if not self.labelled:
            return super().sample(sample_shape)
        shape = torch.Size([sample_shape] if isinstance(sample_shape, int) else sample_shape)
        drawn = self.structure().sample(self.potentials(), n_samples=shape.numel(), lengths=self.lengths)  # type: ignore[attr-defined]
        labels = draw_labels(without_root(drawn), self.log_potentials)
        return labels.reshape(*shape, *self.batch_shape, *self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Computes the log-probability of events `value` (*sample_shape, *batch, *event)."""
        if not self.labelled:
            return super().log_prob(value)
        value = value.to(self.log_potentials.dtype)
        arcs = super().log_prob(value.sum(-1))
        given = value.reshape(-1, *self.batch_shape, *self.event_shape)
        log_odds = self.log_potentials - self._arcs(_SHANNON).unsqueeze(-1)  # log of the labels' probabilities
        scores = torch.where(given != 0, given * torch.where(given != 0, log_odds, 0), 0).sum((-1, -2, -3))
        return arcs + scores.reshape(arcs.shape)

    @property
    def entropy(self) -> Tensor:  # type: ignore[override]
        """The entropy (*batch): that of the trees, and that of the labels of their arcs."""
        found = super().entropy
        if not self.labelled:
            return found
        chances = functional.softmax(self.log_potentials)
        return found - _weighted(super().marginals, _plogp(chances))

    def kl(self, other: StructDistribution) -> Tensor:
        """Computes KL(self ‖ `other`), (*batch); the lengths are those of the first."""
        found = super().kl(other)
        if not self.labelled:
            return found
        p, q = functional.softmax(self.log_potentials), functional.softmax(other.log_potentials)
        log_q = torch.where(p > 0, torch.where(p > 0, q, 1).log(), 0)
        return found + _weighted(super().marginals, _plogp(p) - (p * log_q).sum(-1))

    @property
    def count(self) -> Tensor:
        """How many trees have a score above −inf, (*batch)."""
        return self._sum_of_ones() if self.labelled else super().count

    def _sum_of_ones(self) -> Tensor:
        flat = torch.where(self.log_potentials > -torch.inf, 0.0, -torch.inf).double()
        value = type(self)(flat, self.lengths, multiroot=self.multiroot).log_partition  # type: ignore[call-arg]
        return value.exp().round().to(self.log_potentials.dtype)

    def _arcs(self, regularizer: Shannon) -> Tensor:
        if not self.labelled:
            return self.log_potentials
        return functional.smooth_max(self.log_potentials, regularizer)

    def _best(self, k: int) -> Any:
        """Lists trees by their best labels: each of the k best labelled trees belongs to one of the k best of these."""
        if not self.labelled:
            return super()._best(k)
        scores = self.log_potentials.detach()
        trees = self.structure().topk(with_root(scores.amax(-1)), k, lengths=self.lengths)  # type: ignore[attr-defined]
        structures, values = label_lists(without_root(trees.structures), trees.scores, scores, k)
        return BestStructures(structures, values)

    def topk(self, k: int) -> Tensor:
        """Finds the `k` best trees, (k, *batch, *event); zeros where there are fewer."""
        return self._best(k).structures.movedim(len(self.batch_shape), 0) if self.labelled else super().topk(k)


class DependencyCRF(_Dependencies):
    """A CRF over projective dependency trees.

    Arguments:
        log_potentials: scores (*batch, N, N) of arcs, [head, modifier], those of roots on the diagonal; or (batch, N,
            N, L) with a label on every arc
        lengths: how many words each item has
        args: not needed
        multiroot: whether more than one word may depend on the root
    """

    def __init__(self, log_potentials: Tensor, lengths: Any = None, args: Any = None, multiroot: bool = True) -> None:
        super().__init__(log_potentials, lengths, args, multiroot)

    def structure(self) -> Structure:
        return ProjectiveTree(single_root=not self.multiroot)


class NonProjectiveDependencyCRF(_Dependencies):
    """A CRF over dependency trees whose arcs may cross.

    Arguments:
        log_potentials: scores (*batch, N, N) of arcs, [head, modifier], those of roots on the diagonal; or (batch, N,
            N, L) with a label on every arc
        lengths: how many words each item has
        args: not needed
        multiroot: whether more than one word may depend on the root
    """

    def __init__(self, log_potentials: Tensor, lengths: Any = None, args: Any = None, multiroot: bool = False) -> None:
        super().__init__(log_potentials, lengths, args, multiroot)

    def structure(self) -> Structure:
        return Arborescence(single_root=not self.multiroot)

    def _best(self, k: int) -> Any:
        raise NotImplementedError(
            f"NonProjectiveDependencyCRF: the {k} best trees are not computed, because these trees have no dynamic "
            "program; use argmax, sample, or DependencyCRF"
        )

    @property
    def count(self) -> Tensor:
        """How many trees have a score above −inf, (*batch), by the matrix-tree theorem."""
        return self._sum_of_ones()


def with_root(arcs: Tensor) -> Tensor:
    """Moves roots from the diagonal of (..., N, N) to row 0 of (..., N + 1, N + 1)."""
    roots = arcs.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
    own = torch.eye(arcs.shape[-1], dtype=torch.bool, device=arcs.device)
    return torch.nn.functional.pad(torch.cat([roots, torch.where(own, 0, arcs)], -2), (1, 0))


def without_root(arcs: Tensor) -> Tensor:
    """Moves roots from row 0 of (..., N + 1, N + 1) to the diagonal of (..., N, N)."""
    own = torch.eye(arcs.shape[-1] - 1, dtype=torch.bool, device=arcs.device)
    return torch.where(own, arcs[..., :1, 1:], arcs[..., 1:, 1:])


def _plogp(p: Tensor) -> Tensor:
    return torch.where(p > 0, p * torch.where(p > 0, p, 1).log(), 0).sum(-1)


def _weighted(arcs: Tensor, numbers: Tensor) -> Tensor:
    return torch.where(arcs != 0, arcs * numbers, 0).sum((-1, -2))
