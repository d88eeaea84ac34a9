"""Chorowski's attention against its formula in plain loops, and a task that content alone cannot solve."""

import pytest
import torch

import omegamax as om


def drawn(*batch, queries=4, keys=6):
    return tuple(torch.randn(*batch, n, d, dtype=torch.float64) for n, d in ((queries, 3), (keys, 5), (keys, 2)))


def layer(normalizer=None, **options):
    given = {} if normalizer is None else {"normalizer": normalizer}
    return om.attention.LocationAware(3, 5, 7, n_filters=4, width=3, **given, **options).double()


def by_hand(attention, query, key, normalizer):
    n_keys = len(key)
    last = torch.zeros(n_keys, dtype=torch.float64)
    filters = attention.filters.weight[:, 0]  # (filters, width)
    rows = []
    for q in query:
        scores = []
        for j in range(n_keys):
            feature = sum(filters[:, r] * last[j + r - 1] for r in range(3) if 0 <= j + r - 1 < n_keys)
            hidden = attention.score.of_query.weight @ q + attention.score.of_query.bias
            hidden = hidden + attention.score.of_key.weight @ key[j] + attention.of_feature.weight @ feature
            scores.append(attention.score.out.weight[0] @ hidden.tanh())
        last = normalizer.argmax(torch.stack(scores))
        rows.append(last)
    return torch.stack(rows)


@pytest.mark.parametrize("normalizer", [om.Shannon(), om.SquaredNorm(), om.Fused(0.1)], ids=str)
class TestEveryNormalizer:
    def test_formula(self, normalizer):
        attention = layer(normalizer)
        query, key, value = drawn(2)
        output, weights, state = attention(query, key, value)
        for b in range(2):
            expected = by_hand(attention, query[b], key[b], normalizer)
            torch.testing.assert_close(weights[b], expected)
            torch.testing.assert_close(output[b], expected @ value[b])
        assert torch.equal(state, weights[:, -1])

    def test_lengths(self, normalizer):
        attention = layer(normalizer)
        query, key, value = drawn(2)
        spoilt = value.clone()
        spoilt[1, 4:] = torch.nan
        found = attention(query, key, spoilt, lengths=torch.tensor([6, 4]))
        alone = attention(query[1], key[1, :4], value[1, :4])
        torch.testing.assert_close(found.output[1], alone.output)
        torch.testing.assert_close(found.weights[1, :, :4], alone.weights)
        assert not found.weights[1, :, 4:].any()

    def test_gradients(self, normalizer):
        attention = layer(normalizer)
        inputs = tuple(x.requires_grad_() for x in drawn(1, queries=3, keys=4))
        assert torch.autograd.gradcheck(lambda *x: attention(*x).output, inputs)


def test_the_first_query_sees_content_alone():
    attention = layer()
    query, key, value = drawn()
    additive = om.Attention(attention.score)
    torch.testing.assert_close(attention(query, key, value).weights[0], additive(query, key, value).weights[0])


def test_one_query_at_a_time():
    attention = layer(om.SquaredNorm())
    query, key, value = drawn(2)
    whole = attention(query, key, value)
    state = None
    for t in range(4):
        output, _, state = attention(query[:, t : t + 1], key, value, state=state)
        torch.testing.assert_close(output, whole.output[:, t : t + 1])


def test_it_walks_over_keys_that_are_all_alike():
    """Content cannot tell equal keys apart; a filter that looks one to the left moves attention to the right."""
    attention = om.attention.LocationAware(1, 1, 1, n_filters=1, width=3, normalizer=om.SquaredNorm())
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.filters.weight[0, 0, 0] = 1.0  # f_j = weights_{j−1}
        attention.of_feature.weight.fill_(1.0)
        attention.score.out.weight.fill_(5.0)
    start = torch.tensor([1.0, 0, 0, 0, 0])
    weights = attention(torch.zeros(4, 1), torch.zeros(5, 1), state=start).weights
    assert torch.equal(weights, torch.eye(5)[1:])


def test_a_mask_of_its_own_for_each_query():
    attention = layer()
    query, key, value = drawn(2)
    mask = torch.rand(2, 4, 6) > 0.4
    mask[0, 1] = False  # nothing at all
    output, weights, _ = attention(query, key, value, mask=mask)
    assert not weights[~mask].any() and not output[0, 1].any()
    assert output.isfinite().all()


@pytest.mark.parametrize("batch, queries, keys", [((), 0, 3), ((2,), 3, 0), ((0,), 2, 2), ((2, 3), 1, 1)])
def test_sizes_of_nothing_and_one(batch, queries, keys):
    attention = layer()
    query, key, value = drawn(*batch, queries=queries, keys=keys)
    output, weights, state = attention(query, key, value)
    assert output.shape == (*batch, queries, 2) and weights.shape == (*batch, queries, keys)
    assert state.shape == (*batch, keys)


def test_autocast():
    attention = layer().float()
    query, key, value = (x.float() for x in drawn(2))
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(query, key, value)
    torch.testing.assert_close(found.weights.float(), attention(query, key, value).weights, atol=0.02, rtol=0.02)


def test_errors():
    with pytest.raises(ValueError, match="width must be odd, got 4"):
        om.attention.LocationAware(3, 5, width=4)
    with pytest.raises(ValueError, match="LocationAware: normalizer must act on rows, got SparseMAP"):
        om.attention.LocationAware(3, 5, normalizer=om.SparseMAP(om.Matching()))
    with pytest.raises(ValueError, match="must act on rows, got TreeNormalizer"):
        om.attention.LocationAware(3, 5, normalizer=om.attention.TreeNormalizer())
    with pytest.raises(TypeError, match=r"LocationAware: value must be floating point, got torch\.int64"):
        layer()(torch.zeros(1, 3), torch.zeros(4, 5), torch.zeros(4, 2).long())
    with pytest.raises(TypeError, match="LocationAware"):
        om.attention.LocationAware(3, 5, normalizer="softmax")
