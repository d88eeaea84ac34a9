"""Graves' sliding window against its formula in plain loops; its centres never move back. And mixed with content."""

import math

import pytest
import torch

import omegamax as om


def drawn(*batch, queries=4, keys=6, size=3, features=2):
    return tuple(
        torch.randn(*batch, n, d, dtype=torch.float64) for n, d in ((queries, size), (keys, size), (keys, features))
    )


def by_hand(attention, query, n_keys):
    """φ of one sequence of queries, letter by letter."""
    n = attention.n_components
    kappa = [0.0] * n
    rows = []
    for q in query:
        raw = (attention.of_query.weight @ q + attention.of_query.bias).tolist()
        alpha, beta = [math.exp(a) for a in raw[:n]], [math.exp(b) for b in raw[n : 2 * n]]
        kappa = [k + math.exp(step) for k, step in zip(kappa, raw[2 * n :])]
        rows.append(
            [sum(a * math.exp(-b * (k - u) ** 2) for a, b, k in zip(alpha, beta, kappa)) for u in range(1, n_keys + 1)]
        )
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(kappa, dtype=torch.float64)


@pytest.fixture
def attention():
    return om.attention.GaussianMixtureAttention(3, 2).double()


def test_formula(attention):
    query, _, value = drawn(2)
    output, weights, state = attention(query, value)
    for b in range(2):
        expected, kappa = by_hand(attention, query[b], 6)
        torch.testing.assert_close(weights[b], expected)
        torch.testing.assert_close(output[b], expected @ value[b])
        torch.testing.assert_close(state[b], kappa)


def test_centres_only_move_forward(attention):
    query, _, _ = drawn(3, queries=20)
    locations = attention.window(10 * query, 5).locations
    assert (locations.diff(dim=-2) >= 0).all() and (locations[:, 0] > 0).all()


def test_one_query_at_a_time(attention):
    query, _, value = drawn(2)
    whole = attention(query, value)
    state = None
    for t in range(4):
        output, weights, state = attention(query[:, t : t + 1], value, state=state)
        torch.testing.assert_close(weights, whole.weights[:, t : t + 1])
        torch.testing.assert_close(output, whole.output[:, t : t + 1])
    torch.testing.assert_close(state, whole.state)


def test_a_normalized_window():
    query, _, value = drawn(2)
    plain = om.attention.GaussianMixtureAttention(3, 2).double()
    shannon = om.attention.GaussianMixtureAttention(3, 2, normalizer=om.Shannon()).double()
    shannon.load_state_dict(plain.state_dict())
    weights = plain(query, value).weights
    torch.testing.assert_close(shannon(query, value).weights, weights / weights.sum(-1, keepdim=True))
    sparse = om.attention.GaussianMixtureAttention(3, 2, normalizer=om.SquaredNorm()).double()
    torch.testing.assert_close(sparse(query, value).weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))
    assert (sparse(query, value).weights == 0).any()


@pytest.mark.parametrize("normalizer", [None, om.Shannon(), om.Fused(0.1)], ids=str)
def test_masks(normalizer):
    attention = om.attention.GaussianMixtureAttention(3, 2, normalizer=normalizer).double()
    query, _, value = drawn(2)
    spoilt = value.clone()
    spoilt[1, 4:] = torch.nan
    lengths = torch.tensor([6, 4])
    output, weights, _ = attention(query, spoilt, lengths=lengths)
    alone = attention(query[1], value[1, :4])
    torch.testing.assert_close(output[1], alone.output)
    torch.testing.assert_close(weights[1, :, :4], alone.weights)
    assert not weights[1, :, 4:].any()
    shared = attention(query[0], spoilt, lengths=lengths).output  # the same queries for every item
    torch.testing.assert_close(shared[1], attention(query[0], value[1, :4]).output)
    nothing = attention(query, value, mask=torch.zeros(1, 6, dtype=torch.bool))
    assert not nothing.output.any() and not nothing.weights.any()


@pytest.mark.parametrize("normalizer", [None, om.SquaredNorm()], ids=str)
def test_gradients(normalizer):
    attention = om.attention.GaussianMixtureAttention(3, 2, normalizer=normalizer).double()
    query, _, value = (x.requires_grad_() for x in drawn(1))
    assert torch.autograd.gradcheck(lambda q, v: attention(q, v)[::2], (query, value))
    names, parameters = zip(*attention.named_parameters())

    def of_parameters(*given):
        return torch.func.functional_call(attention, dict(zip(names, given)), (query.detach(), value.detach())).output

    assert torch.autograd.gradcheck(of_parameters, parameters)


@pytest.mark.parametrize("queries, keys", [(0, 3), (3, 0), (1, 1)])
def test_sizes_of_nothing_and_one(attention, queries, keys):
    query, _, value = drawn(2, queries=queries, keys=keys)
    output, weights, state = attention(query, value)
    assert output.shape == (2, queries, 2) and weights.shape == (2, queries, keys) and state.shape == (2, 2)


def test_long_sequences_under_autocast():
    """Bfloat16 has no 1001: places are counted in float32."""
    attention = om.attention.GaussianMixtureAttention(3, 1)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()  # every query goes on by one
    with torch.autocast("cpu", torch.bfloat16):
        weights = attention(torch.zeros(1, 3), torch.randn(1500, 4), state=torch.tensor([1000.0])).weights
    assert weights.argmax() == 1000  # the 1001st


class TestMixed:
    def test_under_shannon_it_is_a_product(self, attention):
        query, key, value = drawn(2)
        mixed = om.attention.MixedAttention(om.DotProduct(), attention)
        output, weights, state = mixed(query, key, value)
        product = torch.exp(query @ key.mT) * attention(query, value).weights
        expected = product / product.sum(-1, keepdim=True)
        torch.testing.assert_close(weights, expected)
        torch.testing.assert_close(output, expected @ value)
        torch.testing.assert_close(state, attention(query, value).state)

    def test_a_flat_window_leaves_the_content(self, attention):
        query, key, value = drawn(2)
        with torch.no_grad():
            attention.of_query.weight.zero_()
            attention.of_query.bias.copy_(torch.tensor([0.0, 0, -60, -60, 0, 0]))  # β = e⁻⁶⁰
        mixed = om.attention.MixedAttention(om.ScaledDotProduct(), attention, normalizer=om.SquaredNorm())
        expected = om.Attention(normalizer=om.SquaredNorm())(query, key, value)
        torch.testing.assert_close(mixed(query, key, value).weights, expected.weights)

    def test_steps_masks_and_gradients(self, attention):
        mixed = om.attention.MixedAttention(om.Additive(3, 3), attention, normalizer=om.Tsallis(1.5)).double()
        query, key, value = drawn(2)
        lengths = torch.tensor([6, 4])
        whole = mixed(query, key, value, lengths=lengths)
        first = mixed(query[:, :3], key, value, lengths=lengths)
        last = mixed(query[:, 3:], key, value, lengths=lengths, state=first.state)
        torch.testing.assert_close(torch.cat([first.output, last.output], 1), whole.output)
        torch.testing.assert_close(whole.output[1], mixed(query[1], key[1, :4], value[1, :4]).output)
        inputs = tuple(x[:1].requires_grad_() for x in (query, key, value))
        assert torch.autograd.gradcheck(lambda *x: mixed(*x).output, inputs)

    def test_values_are_no_integers(self, attention):
        with pytest.raises(
            TypeError, match=r"GaussianMixtureAttention: value must be floating point, got torch\.int64"
        ):
            attention(torch.zeros(2, 3).double(), torch.ones(4, 2).long())
        with pytest.raises(ValueError, match="n_components must be at least 1"):
            om.attention.GaussianMixtureAttention(3, 0)

    def test_one_normalizer_is_enough(self):
        with pytest.raises(ValueError, match="without a normalizer, got one with Shannon"):
            om.attention.MixedAttention(
                om.DotProduct(), om.attention.GaussianMixtureAttention(3, normalizer=om.Shannon())
            )
        with pytest.raises(ValueError, match="one value per key, got 5 values and 4 keys"):
            om.attention.MixedAttention(om.DotProduct(), om.attention.GaussianMixtureAttention(3))(
                torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(5, 3)
            )
