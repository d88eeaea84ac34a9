"""The interface of dependency trees, projective or not: users give scores of arcs and read heads of words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import checks
from omegamax.inference.program import Parts
from omegamax.structures.problem import Problem, Sizes
from omegamax.structures.structure import Structure


class DependencyTrees(Structure):
    """Potentials (..., N + 1, N + 1): [h, m] scores the arc from head h to modifier m; words are 1..N, 0 is the root.

    Column 0 and the diagonal are never read. A structure is 0/1 in the same shape, one arc per word.
    """

    event_ndim = 2
    labels_are = "heads (..., N)"

    @staticmethod
    def heads(structure: Tensor) -> Tensor:
        """Reads the head of every word (..., N), 0 for the root, −1 beyond the length."""
        arcs = structure[..., 1:]
        return torch.where(arcs.sum(-2) > 0.5, arcs.argmax(-2), -1)

    @classmethod
    def from_heads(cls, heads: Tensor, lengths: Any = None, *, dtype: Any = None) -> Tensor:
        """Makes a structure (..., N + 1, N + 1), 0/1, from heads (..., N); entries beyond the length are ignored.

        Without lengths, negative heads mark what is beyond. It does not check that the heads form a tree.
        """
        checks.check_indices(f"{cls.__name__}.from_heads", "heads", heads)
        n = heads.shape[-1]
        within = heads >= 0
        if lengths is not None:
            lengths = checks.check_lengths(f"{cls.__name__}.from_heads", tuple(heads.shape[:-1]), lengths)
            within = torch.arange(n, device=heads.device) < lengths.to(heads.device).unsqueeze(-1)
        if bool((within & ((heads < 0) | (heads > n))).any()):
            raise ValueError(
                f"{cls.__name__}.from_heads: heads must lie between 0 (the root) and {n}, got "
                f"{int(heads.min())} to {int(heads.max())}; words are numbered from 1"
            )
        arcs = torch.zeros(*heads.shape[:-1], n + 1, n + 1, dtype=dtype, device=heads.device)
        places = torch.where(within, heads, 0).long().unsqueeze(-2)
        arcs[..., 1:].scatter_(-2, places, within.unsqueeze(-2).to(arcs.dtype))
        return arcs

    def parts_from_labels(self, problem: Problem, labels: Tensor) -> Parts:
        return (self.from_heads(labels, problem.lengths[0], dtype=problem.parts[0].dtype),)

    def allowed_by_labels(self, problem: Problem, labels: Tensor, unknown: int) -> Tensor:
        is_known = labels != unknown
        arcs = self.from_heads(torch.where(is_known, labels, 0), problem.lengths[0])
        anything = torch.nn.functional.pad(~is_known, (1, 0), value=True)  # column 0 is never read
        return (arcs > 0) | anything.unsqueeze(-2)

    def components(self, potentials: Any) -> tuple[tuple[Tensor, int], ...]:
        checks.check_floating(self._name, potentials)
        size = potentials.shape[-1] if potentials.dim() else 0
        checks.check_event(self._name, "potentials", potentials, (size, size), "(..., N + 1, N + 1)")
        if size < 2:
            raise ValueError(
                f"{self._name}: potentials must have room for the root and a word, got {tuple(potentials.shape)}; "
                "index 0 is the artificial root"
            )
        return ((potentials, 2),)

    def limits(self, sizes: Sizes) -> tuple[int, ...]:
        return (sizes[0][0] - 1,)
