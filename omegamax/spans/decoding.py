"""Spans chosen by their probability: the likely ones, ranked, and the best set of spans that do not overlap.

    decode_spans         max over sets S without overlap of   Σ_{s in S} (p_s − threshold)
    decode_expected_f1   max over sets S without overlap of   2 Σ_{s in S} p_s / (|S| + G),     G = Σ of all p_s

The second is the F1 score with expected numbers in the place of the true ones: of S, Σ p_s spans are expected to be
right, and G spans are expected to exist. Dinkelbach's method solves it by a few problems of the first kind, with the
threshold F1 / 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from omegamax.spans.probabilities import SpanProbabilities


class Span(NamedTuple):
    """A span with its probability."""

    start: int  # its first position
    end: int  # the position after its last
    type: str
    probability: float


def ranked_spans(found: SpanProbabilities, *, threshold: float = 0.0) -> Any:
    """Lists all spans with a probability above the threshold, the likeliest first.

    Arguments:
        found: from `span_probabilities`
        threshold: spans with this probability or less are left out

    Returns a list of `Span`; a list of such lists where there is a batch axis, and so on.
    """
    _check_threshold("ranked_spans", threshold)

    def rank(table: np.ndarray) -> list[Span]:
        spans = _above(table, found.types, threshold)
        return sorted(spans, key=lambda span: (-span.probability, span.start, span.end, span.type))

    return _for_each(rank, found)


def decode_spans(found: SpanProbabilities, *, threshold: float = 0.5) -> Any:
    """Finds the set of spans without overlap that maximises the sum of probability − threshold.

    Arguments:
        found: from `span_probabilities`
        threshold: what a span costs; spans below it are never chosen, and with 1/2 those above it always are

    Returns a list of `Span` in the order of the text; a list of such lists where there is a batch axis, and so on.
    """
    _check_threshold("decode_spans", threshold)
    return _for_each(lambda table: _best_set(_above(table, found.types, threshold), threshold), found)


def decode_expected_f1(found: SpanProbabilities) -> Any:
    """Finds, for each item by itself, the set of spans without overlap with the largest expected F1.

    Arguments:
        found: from `span_probabilities`

    Returns a list of `Span` in the order of the text, empty where no span has a probability; a list of such lists where
    there is a batch axis, and so on.
    """

    def decode(table: np.ndarray) -> list[Span]:
        spans = _above(table, found.types, 0.0)
        return _best_set(spans, expected_f1_threshold([spans]))

    return _for_each(decode, found)


def best_threshold(tables: Iterable[SpanProbabilities]) -> float:
    """Finds the threshold with which `decode_spans` has the largest expected F1 over a whole corpus.

    Arguments:
        tables: the probabilities of every batch of the corpus
    """
    items: list[list[Span]] = []
    for found in tables:
        _for_each(lambda table, types=found.types: items.append(_above(table, types, 0.0)), found)
    return expected_f1_threshold(items)


def choose_spans(spans: list[Span], threshold: float = 0.5) -> list[Span]:
    """Finds the set of listed spans without overlap that maximises the sum of probability − threshold.

    Arguments:
        spans: of one item, such as a list of `ranked_spans`
        threshold: what a span costs

    >>> choose_spans([Span(0, 2, "PER", 0.7), Span(1, 2, "LOC", 0.6)])
    [Span(start=0, end=2, type='PER', probability=0.7)]
    """
    _check_threshold("choose_spans", threshold)
    return _best_set([span for span in spans if span.probability > threshold], threshold)


def expected_f1_threshold(items: list[list[Span]]) -> float:
    """Finds the threshold with which `choose_spans` has the largest expected F1 over a corpus: half of that F1.

    It ends when a step of Dinkelbach's method no longer raises it.

    Arguments:
        items: the listed spans of every item of the corpus
    """
    expected = sum(span.probability for spans in items for span in spans)
    threshold = 0.0
    while True:
        chosen = [span for spans in items for span in _best_set(spans, threshold)]
        right = sum(span.probability for span in chosen)
        better = right / (len(chosen) + expected) if chosen else 0.0
        if not better > threshold:
            return threshold
        threshold = better


def _best_set(spans: list[Span], threshold: float) -> list[Span]:
    """Finds the set without overlap with the largest sum of probability − threshold: weighted interval scheduling.

    Among equal sums the first found wins: no span rather than one that gains nothing.
    """
    if not spans:
        return []
    ending: dict[int, list[Span]] = {}
    for span in spans:
        ending.setdefault(span.end, []).append(span)
    places = sorted({0, *(span.start for span in spans), *ending})
    best: dict[int, tuple[float, Span | None, int]] = {}  # up to a place: the sum, the last span, where to go on
    before = places[0]
    for place in places:
        best[place] = (best[before][0], None, before) if best else (0.0, None, before)
        for span in ending.get(place, ()):
            total = best[span.start][0] + span.probability - threshold
            if total > best[place][0]:
                best[place] = (total, span, span.start)
        before = place
    chosen, place = [], places[-1]
    while place != places[0]:
        _, last, earlier = best[place]
        if last is not None:
            chosen.append(last)
        place = earlier
    return chosen[::-1]


def _above(table: np.ndarray, types: tuple[str, ...], threshold: float) -> list[Span]:
    starts, lengths, kinds = np.nonzero(table > threshold)
    numbers = table[starts, lengths, kinds].tolist()
    rows = zip(starts.tolist(), lengths.tolist(), kinds.tolist(), numbers)
    return [Span(start, start + length + 1, types[kind], p) for start, length, kind, p in rows]


def _for_each(make: Any, found: SpanProbabilities) -> Any:
    """Applies a function to the table (N, L, T) of every item, and keeps the batch axes as nested lists."""
    exact = found.exact.detach().double().cpu().numpy()

    def nested(part: np.ndarray) -> Any:
        return make(part) if part.ndim == 3 else [nested(each) for each in part]

    return nested(exact)


def _check_threshold(who: str, threshold: Any) -> None:
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise ValueError(f"{who}: threshold must be a probability, from 0 to 1, got {threshold!r}; 0 takes all")
