"""Ranked spans and sets without overlap, against all sets."""

import itertools

import pytest
import torch

import omegamax as om
from omegamax.spans import Span, SpanProbabilities


def table(seed, n=4, most=3, types=("x", "y")):
    """Numbers like probabilities of spans; not those of any chain."""
    generator = torch.Generator().manual_seed(seed)
    exact = torch.rand(n, most, len(types), generator=generator, dtype=torch.float64)
    exact[torch.rand(exact.shape, generator=generator) < 0.6] = 0
    for start, length in itertools.product(range(n), range(most)):
        if start + length >= n:
            exact[start, length] = 0
    return SpanProbabilities(exact, exact.sum(1), types)


def listed(found):
    return [
        Span(n, n + length + 1, found.types[t], float(found.exact[n, length, t]))
        for n, length, t in itertools.product(*map(range, found.exact.shape))
        if found.exact[n, length, t] > 0
    ]


def sets_without_overlap(spans):
    for size in range(len(spans) + 1):
        for chosen in itertools.combinations(spans, size):
            places = [place for span in chosen for place in range(span.start, span.end)]
            if len(places) == len(set(places)):
                yield chosen


@pytest.mark.parametrize("seed", range(12))
def test_best_sets_against_all_sets(seed):
    found = table(seed)
    spans = listed(found)
    sets = list(sets_without_overlap(spans))
    for threshold in (0.0, 0.3, 0.7):
        best = max(sum(span.probability - threshold for span in chosen) for chosen in sets)
        chosen = om.spans.decode_spans(found, threshold=threshold)
        assert tuple(chosen) in {tuple(sorted(each)) for each in sets}
        assert sum(span.probability - threshold for span in chosen) == pytest.approx(best)
    expected = sum(span.probability for span in spans)

    def f1(chosen):
        return 2 * sum(span.probability for span in chosen) / (len(chosen) + expected)

    chosen = om.spans.decode_expected_f1(found)
    assert f1(chosen) == pytest.approx(max(map(f1, sets)))
    assert om.spans.best_threshold([found]) == pytest.approx(max(map(f1, sets)) / 2)


def test_a_corpus_shares_one_threshold():
    tables = [table(seed) for seed in range(3)]
    threshold = om.spans.best_threshold(tables)
    expected = sum(span.probability for each in tables for span in listed(each))

    def f1(at):
        chosen = [span for each in tables for span in om.spans.decode_spans(each, threshold=at)]
        return 2 * sum(span.probability for span in chosen) / (len(chosen) + expected)

    assert f1(threshold) == pytest.approx(2 * threshold)
    assert all(f1(at) <= f1(threshold) + 1e-12 for at in torch.linspace(0, 1, 101).tolist())


def test_ranked_spans():
    found = table(1)
    ranked = om.spans.ranked_spans(found, threshold=0.2)
    assert ranked == sorted((s for s in listed(found) if s.probability > 0.2), key=lambda s: -s.probability)
    batch = SpanProbabilities(torch.stack([found.exact] * 2)[:, None], None, found.types)
    assert om.spans.ranked_spans(batch, threshold=0.2) == [[ranked], [ranked]]


def test_nothing_is_likely():
    found = SpanProbabilities(torch.zeros(3, 2, 1), torch.zeros(3, 1), ("x",))
    assert om.spans.decode_expected_f1(found) == om.spans.decode_spans(found) == om.spans.ranked_spans(found) == []
    assert om.spans.best_threshold([]) == 0


def test_bad_thresholds():
    with pytest.raises(ValueError, match="decode_spans: threshold must be a probability, from 0 to 1, got 2"):
        om.spans.decode_spans(table(0), threshold=2)


@pytest.mark.parametrize("seed", range(4))
def test_lists_of_spans_are_decoded_as_tables_are(seed):
    found = table(seed)
    spans = om.spans.ranked_spans(found)
    assert om.spans.choose_spans(spans, 0.3) == om.spans.decode_spans(found, threshold=0.3)
    assert om.spans.expected_f1_threshold([spans]) == pytest.approx(om.spans.best_threshold([found]), rel=1e-12)
    with pytest.raises(ValueError, match="choose_spans: threshold must be a probability"):
        om.spans.choose_spans(spans, 2.0)
