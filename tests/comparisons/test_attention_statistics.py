"""Counts over attention maps, against plain loops; and the page that shows them."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omegamax.attention.weight_counts import WeightCounts, count_weights, row_counts, weight_metrics
from omegamax.comparisons.page import Page
from omegamax.comparisons.statistics import attention_statistics
from omegamax.training.task import AttentionMap

LEVELS = st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.5])


@given(st.lists(st.lists(LEVELS, min_size=5, max_size=5), min_size=1, max_size=6))
def test_rows_are_counted(rows):
    counted = row_counts(torch.tensor(rows)).tolist()
    expected = []
    for row in rows:
        if any(row):
            runs = [key for key, _ in itertools.groupby(row) if key > 0]
            support = sum(weight > 0 for weight in row)
            expected.append([support, support / 5, len(runs), len({weight for weight in row if weight > 0})])
    assert [pytest.approx(line) for line in expected] == counted


@given(st.lists(st.lists(LEVELS, min_size=5, max_size=5), min_size=1, max_size=6))
def test_weights_of_softmax_that_were_rounded_to_zero_count(rows):
    """They count as positive, and all different from each other."""
    small = [[weight or 1e-6 * (place + 1) for place, weight in enumerate(row)] for row in rows if any(row)]
    counted = row_counts(torch.tensor(rows), always_positive=True)
    assert counted.tolist() == (row_counts(torch.tensor(small)).tolist() if small else [])
    (one,) = [row for row in rows if any(row)][:1] or [[1.0, 0.0]]
    maps = [AttentionMap(["a"], [""] * len(one), torch.tensor([one]), always_positive=True)]
    assert attention_statistics(maps).share == 1


def test_maps_of_different_sizes_and_heads_are_pooled():
    one = AttentionMap(["a"], ["x", "y"], torch.tensor([[0.5, 0.5]]))
    heads = AttentionMap(["a"], ["x", "y", "z"], torch.tensor([[[1.0, 0.0, 0.0]], [[0.25, 0.5, 0.25]]]))
    statistics = attention_statistics([one, heads])
    assert statistics.n_rows == 3
    assert statistics.support == pytest.approx((2 + 1 + 3) / 3)
    assert statistics.segments == pytest.approx((1 + 1 + 3) / 3)
    assert statistics.segment_length == pytest.approx((2 + 1 + 3) / (1 + 1 + 3))
    assert statistics.clusters == pytest.approx((1 + 1 + 2) / 3)
    assert attention_statistics([]) is None


def test_a_page_escapes_what_it_shows():
    page = Page("a < b & c")
    page.paragraph('<script>alert("x")</script>')
    page.table(["", "<th>"], [["<i>", "1"]], best=[set(), {0}])
    page.verdicts("<u>", [("<b>", "", False)])
    page.picture(b"png", alternative='"quoted"', caption="<caption>")
    html = page.html()
    assert "<script>" not in html and "<i>" not in html and "<b>" not in html and "<caption>" not in html
    assert "class=best>1</td>" in html and "nothing" in html and "a &lt; b &amp; c</title>" in html


def test_maps_without_any_weight_have_no_statistics():
    assert attention_statistics([AttentionMap(["a"], ["b", "c"], torch.zeros(1, 2))]) is None


def test_long_segments_are_those_that_a_loop_finds():
    torch.manual_seed(0)
    weights = torch.randint(0, 3, (2, 40, 7)) / 7
    runs = [
        [(weight, len(list(run))) for weight, run in itertools.groupby(row.tolist())]
        for row in weights.reshape(-1, 7)
        if row.any()
    ]
    segments = [length for row in runs for weight, length in row if weight > 0]
    counted = count_weights(weights)
    assert counted.rows == len(runs) and counted.positions == 7 * len(runs)
    assert counted.support == sum(segments) and counted.segments == len(segments)
    assert counted.long_segments == sum(length > 1 for length in segments)
    found = weight_metrics([counted, WeightCounts(0, 0, 0, 0, 0)])
    assert found["long_segments"] == pytest.approx(sum(n > 1 for n in segments) / len(segments))
    assert found["zeros"] == pytest.approx(1 - sum(segments) / (7 * len(runs)))


def test_rounded_zeros_of_softmax_are_segments_of_one():
    assert count_weights(torch.tensor([[1.0, 0.0, 0.0]]), always_positive=True) == WeightCounts(1, 3, 3, 3, 0)
    assert count_weights(torch.zeros(0, 4)) == WeightCounts(0, 0, 0, 0, 0)
    assert weight_metrics([]) == {} and weight_metrics([count_weights(torch.zeros(3, 4))]) == {}
