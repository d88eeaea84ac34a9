"""Finds output words for which a model reads a phrase of its input: neighbours with exactly the same weight.

Fusedmax is made for that (Niculae & Blondel, NIPS 2017, section 4.2); softmax has no such phrases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from omegamax.data.vocabulary import JOINER
from omegamax.training.task import AttentionMap

_LEAST = 0.5  # of the weight of a row, that its phrase has


class Phrase(NamedTuple):
    """A run of input tokens that one output token reads with the same weight."""

    row: int  # of the map
    start: int  # the first column
    end: int  # after the last column
    weight: float  # of all of them together
    n_words: int


def phrases(attention: AttentionMap, *, least: float = _LEAST) -> list[Phrase]:
    """Returns the phrases of two or more words that have most of the weight of their row, in the order of the rows.

    Arguments:
        attention: of one head, rows × columns; the mean of several heads has no equal weights
        least: the weight that a phrase must have

    >>> weights = torch.tensor([[0.4, 0.4, 0.2], [0.0, 1.0, 0.0]])
    >>> phrases(AttentionMap(["il", "va"], ["he", "goes", "home"], weights))
    [Phrase(row=0, start=0, end=2, weight=0.8, n_words=2)]
    """
    if attention.weights.dim() != 2:
        raise ValueError(
            f"phrases: attention must be of one head, got weights {tuple(attention.weights.shape)}; pick a head"
        )
    begins = [not token.startswith(JOINER) for token in attention.columns]
    found = []
    for row, weights in enumerate(attention.weights.tolist()):
        for start, end, weight in _runs(weights):
            n_words = sum(begins[start:end])
            if n_words >= 2 and weight * (end - start) >= least:
                found.append(Phrase(row, start, end, round(weight * (end - start), 6), n_words))
    return found


def richest(maps: Iterable[AttentionMap], count: int) -> list[tuple[int, AttentionMap]]:
    """Returns the maps with the most words in phrases, for their length, and their places; no source twice.

    Arguments:
        maps: of any examples
        count: how many at most
    """
    ranked = []
    for place, each in enumerate(maps):
        inside = sum(phrase.n_words * phrase.weight for phrase in phrases(each))
        if inside:
            ranked.append((-inside / max(1, len(each.rows)), place, each))
    chosen: dict[tuple[str, ...], tuple[int, AttentionMap]] = {}
    for _, place, each in sorted(ranked, key=lambda entry: entry[:2]):
        chosen.setdefault(tuple(each.columns), (place, each))
        if len(chosen) == count:
            break
    return list(chosen.values())


def _runs(weights: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    start = 0
    for weight, run in groupby(weights):
        end = start + sum(1 for _ in run)
        if weight > 0:
            yield start, end, weight
        start = end
