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
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.sparsemap import SparseMAP

_SHANNON = Shannon()


class ChainNormalizer(NormalizerModule):
    """Segments: a key is on or off, and neighbours influence each other. The weight of a key is its probability of on.

        z_1 ... z_K in {0, 1},   score(z) = Σ z_i score_i + Σ transitions[z_{i−1}, z_i]

    The 2 × 2 transitions learn. A row's weights need not sum to one: it selects as many keys as it likes. `regularizer`
    smooths the chain; None takes SparseMAP.
    """

    def __init__(self, regularizer: SmoothMax | None = _SHANNON) -> None:
        super().__init__()
        self.smooth = SparseMAP(Chain()) if regularizer is None else Smoothed(Chain(), regularizer)
        self.transitions = nn.Parameter(torch.zeros(2, 2))

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities of on."""
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        emissions = torch.stack([torch.zeros_like(scores), scores], -1)  # (..., K, 2)
        nothing = emissions.new_zeros(2)
        chain = FactoredChain(emissions, self.transitions.to(scores.dtype), nothing, nothing)
        return self.smooth.argmax(chain).emissions[..., 1]


class TreeNormalizer(NormalizerModule):
    """Self-attention to the head in a dependency tree: weights[m, h] is the probability that word h is the head of m.

    Scores are (..., N, N), a row per modifier. The root is an N + 1st choice of every word, with a learned score; its
    probability is what a row lacks to one. `smooth` is `Smoothed` or `SparseMAP` of a `ProjectiveTree` or an
    `Arborescence`.
    """

    def __init__(self, smooth: Smoothed | SparseMAP | None = None) -> None:
        super().__init__()
        self.smooth = Smoothed(ProjectiveTree(), Shannon()) if smooth is None else smooth
        if not isinstance(self.smooth.structure, (ProjectiveTree, Arborescence)):
            kind = type(self.smooth.structure).__name__
            raise TypeError(
                f"TreeNormalizer: smooth must be over ProjectiveTree or Arborescence, got {kind}; use for example "
                "Smoothed(ProjectiveTree(), Shannon())"
            )
        self.root = nn.Parameter(torch.zeros(()))

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probabilities of heads, without the root."""
        if scores.shape[-1] != scores.shape[-2]:
            raise ValueError(
                f"TreeNormalizer: scores must be square, (..., N, N), got {tuple(scores.shape)}; a tree is over "
                "one sequence"
            )
        if mask is not None:
            scores = torch.where(mask, scores, -torch.inf)
        arcs = nn.functional.pad(scores.transpose(-1, -2), (1, 0, 1, 0))  # (..., head, modifier), 0 the root
        is_root = torch.zeros(arcs.shape[-2:], dtype=torch.bool, device=arcs.device)
        is_root[0, 1:] = True
        arcs = torch.where(is_root, self.root.to(arcs.dtype), arcs)
        return self.smooth.argmax(arcs)[..., 1:, 1:].transpose(-1, -2)
