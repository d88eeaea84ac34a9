"""Structured attention: weights are marginals of a structure over the keys, or over queries and keys.

A chain and a tree need potentials that scores alone do not make: these adapters build them and read the weights off the
marginals. Structures over a matrix of scores (`SparseMAP(Matching())`) or over a row (`SparseMAP(Subset(k))`,
`Smoothed(Subset(k), Shannon())`) are normalizers as they are.

Kim, Denton, Hoang & Rush, "Structured attention networks", ICLR 2017; Niculae et al., ICML 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.attention.normalizers import NormalizerModule
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.sparsemap import SparseMAP
from omegamax.wrong_kinds import kind_of

_SHANNON = Shannon()


class ChainNormalizer(NormalizerModule):
    """Selects segments: a key is on or off, and neighbours influence each other. Its weight is its probability of on.

        z_1 ... z_K in {0, 1},   score(z) = Σ z_i score_i + Σ transitions[z_{i−1}, z_i]

    The 2 × 2 transitions learn. A row's weights need not sum to one: it selects any number of keys. A masked key
    is taken out, and its neighbours become adjacent. `regularizer` smooths the chain; None takes SparseMAP.
    """

    rows_sum_to_one = False

    def __init__(self, regularizer: SmoothMax | None = _SHANNON) -> None:
        super().__init__()
        self.smooth = SparseMAP(Chain()) if regularizer is None else Smoothed(Chain(), regularizer)
        self.transitions = nn.Parameter(torch.zeros(2, 2))

    def extra_repr(self) -> str:
        return shown(smooth=self.smooth)

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Computes the probability of each key to be on."""
        mask = _present(scores, mask)
        if mask is None:
            return self._on(scores, None)
        order = _present_first(mask)
        lengths = mask.sum(-1)
        found = self._on(scores.gather(-1, order), lengths.clamp(min=1))
        found = torch.zeros_like(found).scatter(-1, order, found)
        return torch.where(mask, found, 0)

    def _on(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
        emissions = torch.stack([torch.zeros_like(scores), scores], -1)  # (..., K, 2)
        nothing = emissions.new_zeros(2)
        chain = FactoredChain(emissions, self.transitions.to(scores.dtype), nothing, nothing)
        return self.smooth.argmax(chain, lengths=lengths).emissions[..., 1]


class TreeNormalizer(NormalizerModule):
    """Attends to the head in a dependency tree: weights[m, h] is the probability that word h is the head of word m.

    Scores are (..., N, N), a row per modifier. The root is an N + 1st choice of every word, with a learned score; its
    probability is what a row lacks to one. A word that is masked for all words (padding) is taken out; other
    masked entries are arcs that are forbidden. `smooth` is `Smoothed` or `SparseMAP` of a `ProjectiveTree` or an
    `Arborescence`.
    """

    event_ndim = 2
    rows_sum_to_one = False

    def __init__(self, smooth: Smoothed | SparseMAP | None = None) -> None:
        super().__init__()
        self.smooth = Smoothed(ProjectiveTree(), Shannon()) if smooth is None else smooth
        structure = getattr(self.smooth, "structure", None)
        if not isinstance(structure, (ProjectiveTree, Arborescence)):
            kind = kind_of(self.smooth if structure is None else structure)
            raise TypeError(
                f"TreeNormalizer: smooth must be over ProjectiveTree or Arborescence, got {kind}; use for example "
                "Smoothed(ProjectiveTree(), Shannon())"
            )
        self.root = nn.Parameter(torch.zeros(()))

    def extra_repr(self) -> str:
        return shown(smooth=self.smooth)

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Computes the probabilities of heads, without the root."""
        if scores.shape[-1] != scores.shape[-2]:
            raise ValueError(
                f"TreeNormalizer: scores must be square, (..., N, N), got {tuple(scores.shape)}; a tree is over "
                "one sequence"
            )
        mask = _present(scores, mask)
        if mask is None:
            return self._heads(scores, None)
        present = mask.any(-2)  # a word that no word may attend to is taken out
        order = _present_first(present)
        rows, columns = order.unsqueeze(-1).expand(scores.shape), order.unsqueeze(-2).expand(scores.shape)
        allowed = torch.where(mask, scores, -torch.inf).gather(-2, rows).gather(-1, columns)
        found = self._heads(allowed, present.sum(-1).clamp(min=1))
        found = torch.zeros_like(found).scatter(-1, columns, found)
        found = torch.zeros_like(found).scatter(-2, rows, found)
        return torch.where(mask & present.unsqueeze(-1), found, 0)

    def _heads(self, scores: Tensor, lengths: Tensor | None) -> Tensor:
        arcs = nn.functional.pad(scores.transpose(-1, -2), (1, 0, 1, 0))  # (..., head, modifier), 0 the root
        is_root = torch.zeros(arcs.shape[-2:], dtype=torch.bool, device=arcs.device)
        is_root[0, 1:] = True
        arcs = torch.where(is_root, self.root.to(arcs.dtype), arcs)
        return self.smooth.argmax(arcs, lengths=lengths)[..., 1:, 1:].transpose(-1, -2)


def _present(scores: Tensor, mask: Tensor | None) -> Tensor | None:
    """Returns a mask of the scores that are neither masked nor −inf, or None if that is all of them."""
    finite = scores != -torch.inf
    if mask is not None:
        return mask & finite
    return None if bool(finite.all()) else finite


def _present_first(present: Tensor) -> Tensor:
    """Returns the order that brings present entries to the front and keeps them in sequence."""
    return (~present).byte().argsort(stable=True, dim=-1)
