"""Tags to spans and back, for every scheme."""

import itertools

import pytest

from omegamax.spans import TagReader
from omegamax.spans.reading import read_spans, write_tags

SCHEMES = ("BIO", "IOB1", "IOB2", "BIOES", "IOBES", "BILOU")


def sets_of_spans(n):
    """All lists of spans without overlap, of two types."""
    if n == 0:
        return [[]]
    found = [list(spans) for spans in sets_of_spans(n - 1)]
    for start, kind in itertools.product(range(n), "xy"):
        found += [[*spans, (start, n, kind)] for spans in sets_of_spans(start)]
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_written_tags_are_read_back(scheme):
    for spans in sets_of_spans(4):
        assert read_spans(write_tags(spans, 4, scheme)) == spans


def test_tags_that_break_their_scheme_are_read_as_conll_reads_them():
    assert read_spans(["I-x", "I-y", "B-y", "O", "E-x", "E-x"]) == [
        (0, 1, "x"),
        (1, 2, "y"),
        (2, 3, "y"),
        (4, 5, "x"),
        (5, 6, "x"),
    ]
    assert read_spans([]) == []


def test_a_reader_stops_at_padding():
    assert TagReader(["O", "B-x", "I-x"]).spans([1, 2, -1, 1]) == [(0, 2, "x")]


@pytest.mark.parametrize("spans", [[(0, 2, "x"), (1, 3, "x")], [(2, 2, "x")], [(3, 5, "x")], [(-1, 1, "x")]])
def test_spans_that_do_not_fit(spans):
    with pytest.raises(ValueError, match="write_tags: spans must lie within 4 positions without overlap"):
        write_tags(spans, 4)


def test_unknown_scheme():
    with pytest.raises(ValueError, match="write_tags: scheme must be one of"):
        write_tags([], 3, "XYZ")
