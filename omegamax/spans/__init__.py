"""Spans: exact probabilities of the entities that a chain of tags spells out.

A tagger's chain is a distribution over sequences of tags, and each sequence is a list of entities. So the chain says
exactly how likely each entity is: with these boundaries and this type, with these boundaries and any type, or covering
a given word.

    reading         which spans a sequence of tags stands for, and back, for BIO, IOB1, IOB2, BIOES and BILOU
    probabilities   the probability of every span, differentiable
    decoding        the spans above a threshold, ranked; the best set of spans that do not overlap
"""

from omegamax.spans.decoding import (
    Span,
    best_threshold,
    choose_spans,
    decode_expected_f1,
    decode_spans,
    expected_f1_threshold,
    ranked_spans,
)
from omegamax.spans.probabilities import SpanProbabilities, span_probabilities
from omegamax.spans.reading import TagReader, read_spans, write_tags

__all__ = [
    "Span",
    "SpanProbabilities",
    "TagReader",
    "best_threshold",
    "choose_spans",
    "decode_expected_f1",
    "decode_spans",
    "expected_f1_threshold",
    "ranked_spans",
    "read_spans",
    "span_probabilities",
    "write_tags",
]
