"""CTC as a head: hard monotonic attention whose sum over alignments is tractable.

    p(labels | x) = Σ over paths π that spell the labels of Π_t p(π_t | x),      repetitions merged, blanks dropped

Graves, Fernández, Gomez & Schmidhuber, ICML 2006. Beams as in Hannun, "Sequence modeling with CTC", Distill 2017.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.masking import zero_beyond
from omegamax.losses.ctc import CTCLoss
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.ctc import CTC


class CTCHypothesis(NamedTuple):
    """A sequence of labels and its log-probability."""

    labels: tuple[int, ...]
    log_prob: float


class CTCHead(nn.Module):
    """Log-probabilities of labels and of the blank for every frame, with their loss and their decoders.

    Features (..., T, size) give (..., T, n_classes); the blank is one of the classes, as in PyTorch. `regularizer`
    smooths the loss over alignments: Shannon is CTC itself. Losses and decoders take (batch, T, n_classes).

    Arguments:
        size: features of a frame
        n_classes: how many classes there are, with the blank
        blank: which class is the blank
        regularizer: Ω of the loss; None is Shannon
    """

    def __init__(self, size: int, n_classes: int, *, blank: int = 0, regularizer: SmoothMax | None = None) -> None:
        super().__init__()
        if not 0 <= blank < n_classes:
            raise ValueError(f"CTCHead: blank must be one of the {n_classes} classes, got {blank}; the first is 0")
        self.project = nn.Linear(size, n_classes)
        self.blank = blank
        self._loss = CTCLoss(blank, "mean", True, regularizer=regularizer)

    def forward(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Computes log-probabilities of classes at every frame; frames beyond `lengths` may hold anything, NaN too."""
        if lengths is not None:
            lengths = checks.check_lengths("CTCHead", tuple(features.shape[:-2]), lengths)
        return self.project(zero_beyond(features, lengths)).log_softmax(-1)

    def loss(
        self, log_probs: Tensor, targets: Tensor, lengths: Tensor | None = None, target_lengths: Tensor | None = None
    ) -> Tensor:
        """Averages minus the log-probability per label of targets (batch, S); a target that does not fit costs 0.

        Arguments:
            log_probs: (batch, T, n_classes)
            targets: integers (batch, S)
            lengths: how many frames each item has
            target_lengths: how many labels each target has
        """
        targets, lengths, target_lengths = _padded(log_probs, targets, lengths, target_lengths)
        return self._loss(log_probs.transpose(0, 1), targets, lengths, target_lengths)

    def align(
        self, log_probs: Tensor, targets: Tensor, lengths: Tensor | None = None, target_lengths: Tensor | None = None
    ) -> Tensor:
        """Finds the best path that spells the targets: the class of every frame (batch, T), −1 beyond the length.

        Arguments:
            log_probs: (batch, T, n_classes)
            targets: integers (batch, S)
            lengths: how many frames each item has
            target_lengths: how many labels each target has
        """
        targets, lengths, target_lengths = _padded(log_probs, targets, lengths, target_lengths)
        potentials = CTC.from_log_probs(log_probs.transpose(0, 1), targets, target_lengths, blank=self.blank)
        best = CTC().map(potentials, lengths=lengths)
        return CTC.frames(best, targets, target_lengths, blank=self.blank)

    def log_prob(
        self, log_probs: Tensor, targets: Tensor, lengths: Tensor | None = None, target_lengths: Tensor | None = None
    ) -> Tensor:
        """Computes the log-probability of the targets, (batch,).

        Arguments:
            log_probs: (batch, T, n_classes)
            targets: integers (batch, S)
            lengths: how many frames each item has
            target_lengths: how many labels each target has
        """
        targets, lengths, target_lengths = _padded(log_probs, targets, lengths, target_lengths)
        potentials = CTC.from_log_probs(log_probs.transpose(0, 1), targets, target_lengths, blank=self.blank)
        return CTC().max(potentials, Shannon(), lengths=lengths)

    def best_path(self, log_probs: Tensor, lengths: Tensor | None = None) -> list[CTCHypothesis]:
        """Returns the labels that the likeliest path spells, and the log-probability of that path.

        Arguments:
            log_probs: (batch, T, n_classes)
            lengths: how many frames each item has
        """
        values, classes = log_probs.detach().max(-1)
        found = []
        for row, path, length in zip(values.tolist(), classes.tolist(), _frames(lengths, log_probs).tolist()):
            labels = tuple(label for label, _ in groupby(path[:length]) if label != self.blank)
            found.append(CTCHypothesis(labels, math.fsum(row[:length])))
        return found

    def beam_search(
        self, log_probs: Tensor, lengths: Tensor | None = None, *, width: int = 10, n_best: int = 1
    ) -> list[list[CTCHypothesis]]:
        """Finds the likeliest labels of every item, summed over the paths that spell them, best first.

        It is a prefix beam search: `width` prefixes survive each frame. With a width as large as the number of prefixes
        the result is exact; else log-probabilities are lower bounds.

        Arguments:
            log_probs: (batch, T, n_classes)
            lengths: how many frames each item has
            width: how many prefixes are kept
            n_best: how many transcripts are returned for each item
        """
        checks.check_count("CTCHead", "width", width)
        checks.check_count("CTCHead", "n_best", n_best)
        rows = log_probs.detach().double().tolist()
        sizes = _frames(lengths, log_probs).tolist()
        return [self._search(frames[:size], width)[:n_best] for frames, size in zip(rows, sizes)]

    def _search(self, frames: list[list[float]], width: int) -> list[CTCHypothesis]:
        # For every prefix the log-probabilities of the paths that end in the blank, and of those that do not.
        beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
        for frame in frames:
            onward: dict[tuple[int, ...], list[list[float]]] = defaultdict(lambda: [[], []])
            for prefix, (blank, label) in beam.items():
                onward[prefix][0] += [blank + frame[self.blank], label + frame[self.blank]]
                for each, log_prob in enumerate(frame):
                    if each == self.blank or log_prob == -math.inf:
                        continue
                    if prefix and each == prefix[-1]:  # the same label again: a new one only after a blank
                        onward[prefix][1].append(label + log_prob)
                        onward[(*prefix, each)][1].append(blank + log_prob)
                    else:
                        onward[(*prefix, each)][1] += [blank + log_prob, label + log_prob]
            summed = {prefix: (_log_sum(both[0]), _log_sum(both[1])) for prefix, both in onward.items()}
            ranked = sorted(summed, key=lambda prefix: (-_log_sum(list(summed[prefix])), prefix))
            beam = {prefix: summed[prefix] for prefix in ranked[:width]}
        found = [CTCHypothesis(prefix, _log_sum(list(both))) for prefix, both in beam.items()]
        return [each for each in found if each.log_prob > -math.inf]

    def extra_repr(self) -> str:
        return f"blank={self.blank}"


def _log_sum(terms: list[float]) -> float:
    top = max(terms, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(term - top) for term in terms))


def _padded(
    log_probs: Tensor, targets: Tensor, lengths: Tensor | None, target_lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Pads targets to at least one label, and returns them with the number of frames and labels of each item."""
    lengths = _frames(lengths, log_probs)
    if targets.dim() != 2 or len(targets) != len(log_probs):
        raise ValueError(
            f"CTCHead: targets must be ({len(log_probs)}, S), padded, got {tuple(targets.shape)}; target_lengths count "
            "the labels of each item"
        )
    if target_lengths is None:
        target_lengths = torch.full((len(targets),), targets.shape[1], dtype=torch.long)
    target_lengths = checks.check_lengths("CTCHead", tuple(targets.shape[:1]), target_lengths)
    return nn.functional.pad(targets, (0, max(0, 1 - targets.shape[1]))), lengths, target_lengths


def _frames(lengths: Tensor | None, log_probs: Tensor) -> Tensor:
    """Returns the number of frames of each item: the lengths, or all frames."""
    if log_probs.dim() != 3:
        raise ValueError(
            f"CTCHead: log_probs must be (batch, T, n_classes), got {tuple(log_probs.shape)}; one item is "
            "log_probs.unsqueeze(0)"
        )
    if lengths is None:
        return torch.full((len(log_probs),), log_probs.shape[1], dtype=torch.long)
    return checks.check_lengths("CTCHead", tuple(log_probs.shape[:1]), lengths)
