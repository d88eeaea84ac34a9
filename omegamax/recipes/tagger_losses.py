"""The losses of a tagger, and what each makes of the scores afterwards: a distribution over sequences of tags.

    crf          Shannon's Ω in the recursion: negative log-likelihood              Lafferty et al., ICML 2001
    l2           the squared norm in the recursion: sparse                          Mensch & Blondel, ICML 2018
    entmax       Tsallis' Ω with α = 1.5 in the recursion: between the two
    perceptron   the best sequence against the gold one                             Collins, EMNLP 2002
    margin       the same, and wrong tags cost one: the structured hinge            Taskar et al., NeurIPS 2003
    sparsemap    the squared norm on the whole polytope                             Niculae et al., ICML 2018
    softmax      every word by itself; neighbours matter only in that sequences stay valid

All have one best sequence, by Viterbi. `crf` and `softmax` give every valid sequence a probability, the sparse ones
give most of them none, and `perceptron` and `margin`, which know no probabilities, give the best one all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.losses import FenchelYoungLoss, MarginLoss, PerceptronLoss, SparseMAPLoss
from omegamax.operators.hard import Hard
from omegamax.operators.shannon import Shannon
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis
from omegamax.smoothmax import SmoothMax
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.smoothed import Smoothed

CHAIN = Chain()

Compute = Callable[[FactoredChain, Tensor, Tensor], Tensor]  # of potentials, tags (B, N) and lengths (B,)


class TaggerLoss(NamedTuple):
    """A loss, and Ω of the distribution that belongs to it; None where SparseMAP chooses the sequences."""

    compute: Compute  # the sum over a batch
    regularizer: SmoothMax | None
    learn_transitions: bool = True

    @property
    def sparse(self) -> bool:
        """Whether most sequences have probability zero."""
        return not isinstance(self.regularizer, Shannon)


def tagger_loss(name: str) -> TaggerLoss:
    """Returns the loss of a name."""
    return _LOSSES[name]()


def _smoothed(regularizer: SmoothMax) -> TaggerLoss:
    loss = FenchelYoungLoss(Smoothed(CHAIN, regularizer), reduction="sum", check=False)
    return TaggerLoss(lambda potentials, tags, lengths: loss(potentials, tags, lengths=lengths), regularizer)


def _perceptron() -> TaggerLoss:
    loss = PerceptronLoss(CHAIN, reduction="sum", check=False)
    return TaggerLoss(lambda potentials, tags, lengths: loss(potentials, tags, lengths=lengths), Hard())


def _margin() -> TaggerLoss:
    loss = MarginLoss(CHAIN, reduction="sum", check=False)
    return TaggerLoss(lambda potentials, tags, lengths: loss(potentials, tags, lengths=lengths), Hard())


def _sparsemap() -> TaggerLoss:
    loss = SparseMAPLoss(CHAIN, reduction="sum", check=False)
    return TaggerLoss(lambda potentials, tags, lengths: loss(potentials, tags, lengths=lengths), None)


def _softmax() -> TaggerLoss:
    def compute(potentials: FactoredChain, tags: Tensor, lengths: Tensor) -> Tensor:
        within = torch.arange(tags.shape[1], device=tags.device) < lengths.unsqueeze(-1)
        return torch.nn.functional.cross_entropy(potentials.emissions[within], tags[within], reduction="sum")

    return TaggerLoss(compute, Shannon(), learn_transitions=False)


_LOSSES: dict[str, Callable[[], TaggerLoss]] = {
    "crf": lambda: _smoothed(Shannon()),
    "l2": lambda: _smoothed(SquaredNorm()),
    "entmax": lambda: _smoothed(Tsallis(1.5)),
    "perceptron": _perceptron,
    "margin": _margin,
    "sparsemap": _sparsemap,
    "softmax": _softmax,
}
