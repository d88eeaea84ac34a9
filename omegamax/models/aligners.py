"""Alignments of the words of two sentences, from a matrix of scores: what each word reads of the other sentence.

    RowAligner        every word for itself: a row of the matrix, or a column, on the simplex
    MatchingAligner   one-to-one: a word has at most one partner; both directions are one matrix
    SequenceAligner   a chain of partners: the partner of a word influences that of the next

The last two are the structured alignments of SparseMAP (Niculae, Martins, Blondel & Cardie, ICML 2018). In each a word
may also be aligned to nothing (NULL), for a score that is learned. Scores are (B, H, P), hypothesis × premise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.module_repr import shown, unless
from omegamax.structures.chain import Chain, FactoredChain
from omegamax.structures.matching import Matching, NullableScores
from omegamax.structures.sparsemap import SparseMAP

# Words that occur twice make exact ties, at which the last digits of the optimum are slow to find. At this gap the
# weights are within 0.014 of the best.
_ATOL = 1e-4
_FARTHEST = 2  # steps of two or more words share a score


class Reading(NamedTuple):
    """What the words of one sentence read of the other."""

    weights: Tensor  # (B, words, words of the other): zero beyond the lengths
    null: Tensor | None  # (B, words): the weight of NULL; None without it


class WordAlignment(NamedTuple):
    """What the words of two sentences read of each other."""

    hypothesis: Reading  # (B, H, P)
    premise: Reading | None  # (B, P, H); None where only the hypothesis reads


class Aligner(nn.Module, ABC):
    """Maps scores (B, H, P) to an `WordAlignment`.

    Arguments:
        null: whether a word may be aligned to nothing
        both_ways: whether the premise reads the hypothesis too
    """

    def __init__(self, *, null: bool = False, both_ways: bool = True) -> None:
        super().__init__()
        self.both_ways = both_ways
        # One score for the words of the hypothesis, one for those of the premise.
        self.null = nn.Parameter(torch.zeros(2)) if null else None

    @abstractmethod
    def forward(self, scores: Tensor, hypothesis_lengths: Tensor, premise_lengths: Tensor) -> WordAlignment:
        """Aligns words by their `scores` (B, H, P); `hypothesis_lengths` and `premise_lengths` (B,) count the words."""

    def extra_repr(self) -> str:
        return shown(null=unless(self.null is not None, False), both_ways=unless(self.both_ways, True))


class RowAligner(Aligner):
    """Every word reads the other sentence for itself, under any normalizer: the alignment of ESIM under Shannon.

    NULL is one more key, before the first word, and adds nothing to the average.

    Arguments:
        normalizer: what turns the scores of a word into weights
        null: whether a word may be aligned to nothing
        both_ways: whether the premise reads the hypothesis too
    """

    def __init__(self, normalizer: Normalizer, *, null: bool = False, both_ways: bool = True) -> None:
        super().__init__(null=null, both_ways=both_ways)
        check_normalizer("RowAligner", normalizer)
        self.normalizer = normalizer

    def forward(self, scores: Tensor, hypothesis_lengths: Tensor, premise_lengths: Tensor) -> WordAlignment:
        hypothesis = self._read(scores, 0, hypothesis_lengths, premise_lengths)
        if not self.both_ways:
            return WordAlignment(hypothesis, None)
        return WordAlignment(hypothesis, self._read(scores.transpose(1, 2), 1, premise_lengths, hypothesis_lengths))

    def _read(self, scores: Tensor, side: int, lengths: Tensor, of: Tensor) -> Reading:
        mask = _within(scores.shape[1], lengths).unsqueeze(2) & _within(scores.shape[2], of).unsqueeze(1)
        if self.null is None:
            return Reading(normalize(self.normalizer, scores, mask), None)
        score = self.null[side].to(scores.dtype).expand(*scores.shape[:2], 1)
        present = _within(scores.shape[1], lengths).unsqueeze(2)
        weights = normalize(self.normalizer, torch.cat([score, scores], 2), torch.cat([present, mask], 2))
        return Reading(weights[..., 1:], weights[..., 0])

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [shown(normalizer=self.normalizer), super().extra_repr()]))


class StructuredAligner(Aligner):
    """An alignment by SparseMAP: a few structures and their mean.

        argmax_{μ in conv(structures)}  <scores, μ> − γ/2 ‖μ‖²

    Arguments:
        gamma: temperature: larger mixes more structures
        null: whether a word may be aligned to nothing
        both_ways: whether the premise reads the hypothesis too
        atol: the gap to the optimum that is accepted, see `SparseMAP`
    """

    def __init__(self, *, gamma: float = 1.0, null: bool = False, both_ways: bool = True, atol: float = _ATOL) -> None:
        super().__init__(null=null, both_ways=both_ways)
        checks.check_gamma(type(self).__name__, gamma)
        self.gamma, self.atol = gamma, atol

    def extra_repr(self) -> str:
        return ", ".join(filter(None, [shown(gamma=unless(self.gamma, 1.0)), super().extra_repr()]))


class MatchingAligner(StructuredAligner):
    """Matches words one to one: every word of the shorter sentence has a partner, unless it may stay unmatched.

    Both directions read the same matrix.

    Arguments:
        gamma: temperature: larger mixes more structures
        null: whether a word may be aligned to nothing
        both_ways: whether the premise reads the hypothesis too
        atol: the gap to the optimum that is accepted, see `SparseMAP`

    >>> scores = torch.tensor([[[2.0, 1.5], [1.9, 0.0]]])
    >>> MatchingAligner()(scores, torch.tensor([2]), torch.tensor([2])).hypothesis.weights
    tensor([[[0.1500, 0.8500],
             [0.8500, 0.1500]]])
    """

    def forward(self, scores: Tensor, hypothesis_lengths: Tensor, premise_lengths: Tensor) -> WordAlignment:
        potentials: Tensor | NullableScores = scores / self.gamma
        if self.null is not None:
            unmatched = self.null.to(scores.dtype) / self.gamma
            sizes = zip(unmatched, scores.shape[1:])
            potentials = NullableScores(scores / self.gamma, *(each.expand(len(scores), n) for each, n in sizes))
        found = SparseMAP(Matching(), atol=self.atol).argmax(potentials, lengths=(hypothesis_lengths, premise_lengths))
        pairs, rows, columns = (found, None, None) if self.null is None else found
        return WordAlignment(Reading(pairs, rows), Reading(pairs.transpose(1, 2), columns) if self.both_ways else None)


class SequenceAligner(StructuredAligner):
    """Chooses a partner for each word in turn; how far the partner moves from word to word has a learned score.

        score(a_1 ... a_H) = Σ_i scores[i, a_i] + starts[a_1] + Σ_i steps[a_i − a_{i−1}] + ends[P − a_H]

    Steps of two or more words to the left share a score, and so do those to the right, partners of the first word from
    the second one on, and partners of the last word up to the one before the last: as in the authors' own code, with a
    range of 2. NULL is one more partner, with scores for going there, staying and coming back.

    Arguments:
        gamma: temperature: larger mixes more structures
        null: whether a word may be aligned to nothing
        both_ways: whether the premise reads the hypothesis too
        atol: the gap to the optimum that is accepted, see `SparseMAP`
    """

    def __init__(self, *, gamma: float = 1.0, null: bool = False, both_ways: bool = True, atol: float = _ATOL) -> None:
        super().__init__(gamma=gamma, null=null, both_ways=both_ways, atol=atol)
        n_directions = 2 if both_ways else 1
        self.steps = nn.Parameter(torch.zeros(n_directions, 2 * _FARTHEST + 1))
        self.starts = nn.Parameter(torch.zeros(n_directions, _FARTHEST))  # the first partner: from the first word on
        self.ends = nn.Parameter(torch.zeros(n_directions, _FARTHEST))  # the last partner: from the last word back
        self.null_steps = nn.Parameter(torch.zeros(n_directions, 3)) if null else None

    def forward(self, scores: Tensor, hypothesis_lengths: Tensor, premise_lengths: Tensor) -> WordAlignment:
        hypothesis = self._read(scores, 0, hypothesis_lengths, premise_lengths)
        if not self.both_ways:
            return WordAlignment(hypothesis, None)
        return WordAlignment(hypothesis, self._read(scores.transpose(1, 2), 1, premise_lengths, hypothesis_lengths))

    def _read(self, scores: Tensor, side: int, lengths: Tensor, of: Tensor) -> Reading:
        emissions = torch.where(_within(scores.shape[2], of).unsqueeze(1), scores, -torch.inf)
        place = torch.arange(scores.shape[2], device=scores.device)
        moved = (place - place.unsqueeze(1)).clamp(-_FARTHEST, _FARTHEST)  # [from, to]
        transitions = self.steps[side][moved + _FARTHEST]
        start = self.starts[side][place.clamp(max=_FARTHEST - 1)]
        end = self.ends[side][(of.unsqueeze(-1) - 1 - place).clamp(0, _FARTHEST - 1)]  # (B, words): lengths differ
        if self.null is not None and self.null_steps is not None:
            emissions = torch.cat([self.null[side].to(scores.dtype).expand(*scores.shape[:2], 1), emissions], 2)
            there, stay, back = self.null_steps[side]
            n_places = scores.shape[2]
            first = torch.cat([stay.expand(1, 1), back.expand(1, n_places)], 1)
            transitions = torch.cat([first, torch.cat([there.expand(n_places, 1), transitions], 1)], 0)
            start, end = (nn.functional.pad(each, (1, 0)) for each in (start, end))
        chain = FactoredChain(*(each.to(scores.dtype) / self.gamma for each in (emissions, transitions, start, end)))
        weights = SparseMAP(Chain(), atol=self.atol).argmax(chain, lengths=lengths).emissions
        return Reading(weights, None) if self.null is None else Reading(weights[..., 1:], weights[..., 0])


def _within(size: int, lengths: Tensor) -> Tensor:
    """Returns a mask (B, size) of the places within the lengths (B,)."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)
