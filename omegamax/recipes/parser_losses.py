"""The losses of the parser: which trees they range over, what they compute, and which probabilities they give.

    crf               −log p(tree) over all trees, by the matrix-tree theorem
    crf-projective    −log p(tree) over projective trees, by Eisner's recursion
    l2-projective     the same recursion smoothed by a squared norm: sparse probabilities
    sparsemap         SparseMAP over all trees: a few trees share the probability
    margin            the structured hinge: the gold tree must lead every other by its number of wrong heads
    margin-sparsemap  SparseMAP at scores to which those costs are added
    softmax           each word chooses its head on its own; a tree is asked for only when decoding

Koo et al., EMNLP 2007; Mensch & Blondel, ICML 2018; Niculae et al., ICML 2018; Taskar et al., 2003; Zhang et al., 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.errors import DataError
from omegamax.losses import CRFLoss, FenchelYoungLoss, MarginLoss
from omegamax.operators import Shannon, SquaredNorm
from omegamax.structures.arborescence import Arborescence
from omegamax.structures.dependency import DependencyTrees
from omegamax.structures.projective_tree import ProjectiveTree
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.sparsemap import SparseMAP, SparseMAPSolution

PROJECTIVE_LOSSES = ("crf-projective", "l2-projective")
SPARSEMAP_LOSSES = ("sparsemap", "margin-sparsemap")


class TreeList(NamedTuple):
    """Some trees of each sentence, the best first."""

    heads: Tensor  # (B, trees, N); −1 beyond the length
    there: Tensor  # (B, trees): False where a sentence has fewer trees than others
    probabilities: Tensor | None  # (B, trees); None if only scores are known


def structure_of(loss: str) -> DependencyTrees:
    """Returns the trees that a loss ranges over."""
    return ProjectiveTree() if loss in PROJECTIVE_LOSSES else Arborescence()


def arc_loss(loss: str, arcs: Tensor, heads: Tensor, lengths: Tensor) -> Tensor:
    """Computes the sum of the losses of a batch.

    Arguments:
        loss: one of the names above
        arcs: scores (B, N + 1, N + 1)
        heads: gold trees (B, N); −1 beyond the length
        lengths: (B,)
    """
    if loss == "softmax":
        choices = _without_impossible_arcs(arcs, lengths).transpose(1, 2)[:, 1:]
        return nn.functional.cross_entropy(choices.flatten(0, 1), heads.flatten(), ignore_index=-1, reduction="sum")
    return _LOSSES[loss](arcs, heads, lengths=lengths)


# A new model scores all trees alike, so the exact mean is one of hundreds of trees: a small gap saves most of the time.
_SPARSEMAP = SparseMAP(Arborescence(), atol=0.01)
# Gold trees are checked when they are read, so they are not checked again at every step.
_LOSSES = {
    "crf": CRFLoss(Arborescence(), reduction="sum", check=False),
    "crf-projective": CRFLoss(ProjectiveTree(), reduction="sum", check=False),
    "l2-projective": FenchelYoungLoss(Smoothed(ProjectiveTree(), SquaredNorm()), reduction="sum", check=False),
    "sparsemap": FenchelYoungLoss(_SPARSEMAP, reduction="sum", check=False),
    "margin": MarginLoss(Arborescence(), reduction="sum", check=False),
    "margin-sparsemap": MarginLoss(_SPARSEMAP, reduction="sum", check=False),
}
LOSSES = (*_LOSSES, "softmax")


def arc_probabilities(loss: str, arcs: Tensor, lengths: Tensor) -> Tensor:
    """Computes the probability (B, N + 1, N + 1) of every arc, as the loss defines it.

    Under `softmax` these are the choices of single words. `margin` defines none, so it raises DataError.

    Arguments:
        loss: one of the names above
        arcs: scores (B, N + 1, N + 1)
        lengths: (B,)
    """
    if loss == "margin":
        raise DataError(
            "parser: probabilities need a loss that defines some, got margin, whose scores only rank trees; "
            "train with another --loss, such as crf or sparsemap"
        )
    if loss == "softmax":
        chosen = _without_impossible_arcs(arcs, lengths).softmax(1)
        words = torch.arange(arcs.shape[-1], device=arcs.device)
        return chosen * ((words > 0) & (words <= lengths.unsqueeze(-1))).unsqueeze(1)
    structure = structure_of(loss)
    if loss in SPARSEMAP_LOSSES:
        return structure.sparsemap(arcs, lengths=lengths).marginals
    regularizer = SquaredNorm() if loss == "l2-projective" else Shannon()
    return structure.argmax(arcs, regularizer, lengths=lengths)


def kept_trees(arcs: Tensor, lengths: Tensor) -> SparseMAPSolution:
    """Finds the trees that SparseMAP gives a probability above zero.

    Arguments:
        arcs: scores (B, N + 1, N + 1)
        lengths: (B,)
    """
    return Arborescence().sparsemap(arcs, lengths=lengths)


def sparse_trees(loss: str, arcs: Tensor, lengths: Tensor) -> TreeList:
    """Lists the trees with a probability above zero; DataError for a loss under which no tree has exactly zero.

    Arguments:
        loss: one of the names above
        arcs: scores (B, N + 1, N + 1)
        lengths: (B,)
    """
    if loss not in SPARSEMAP_LOSSES:
        raise DataError(
            f"parser: trees need a loss that keeps a few of them, got {loss}; train with --loss sparsemap or "
            "margin-sparsemap, or ask for --k-best"
        )
    found = kept_trees(arcs, lengths)
    return TreeList(DependencyTrees.heads(found.structures), found.probabilities > 0, found.probabilities)


def best_trees(structure: DependencyTrees, arcs: Tensor, lengths: Tensor, k: int) -> TreeList:
    """Lists the k best trees with their scores; DataError for trees whose arcs may cross, if k > 1.

    Arguments:
        structure: what is chosen among
        arcs: scores (B, N + 1, N + 1)
        lengths: (B,)
        k: how many
    """
    if not isinstance(structure, ProjectiveTree):
        raise DataError(
            "parser: the k best trees are known for projective trees only, got trees whose arcs may cross; "
            "add --decoding projective"
        )
    found = structure.topk(arcs, k, lengths=lengths)
    return TreeList(DependencyTrees.heads(found.structures), found.scores > -torch.inf, None)


def nearest_projective(heads: Tensor, lengths: Tensor) -> Tensor:
    """Returns the projective trees (B, N) that share the most arcs with given trees.

    Arguments:
        heads: (B, N); −1 beyond the length
        lengths: (B,)
    """
    structure = ProjectiveTree()
    return structure.heads(structure.map(structure.from_heads(heads, lengths, dtype=torch.float64), lengths=lengths))


def _without_impossible_arcs(arcs: Tensor, lengths: Tensor) -> Tensor:
    """Gives −inf to heads beyond the length, and to words as their own heads."""
    words = torch.arange(arcs.shape[-1], device=arcs.device)
    there = words <= lengths.unsqueeze(-1)  # (B, N + 1)
    itself = torch.eye(arcs.shape[-1], dtype=torch.bool, device=arcs.device)
    return arcs.masked_fill(~there.unsqueeze(-1) | (itself & (words > 0)), -torch.inf)
