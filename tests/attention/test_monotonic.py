"""Monotonic attention: its expected alignment is the average of hard ones, over all ways the coins can fall."""

import itertools

import pytest
import torch

import omegamax as om
from omegamax.attention.location.monotonic import _hard_alignment


def read_on(stops, start=0):
    """The process itself: one query after another reads from the last stop until a coin says stop."""
    n_queries, n_keys = len(stops), len(stops[0])
    alignment, at = torch.zeros(n_queries, n_keys, dtype=torch.float64), start
    for i in range(n_queries):
        while at < n_keys and not stops[i][at]:
            at += 1
        if at == n_keys:
            break
        alignment[i, at] = 1
    return alignment


def enumerated(probabilities, start=0):
    """The expectation over all 2^(Q·K) outcomes."""
    n_queries, n_keys = probabilities.shape
    total = torch.zeros(n_queries, n_keys, dtype=torch.float64)
    for coins in itertools.product([False, True], repeat=n_queries * n_keys):
        fallen = torch.tensor(coins).reshape(n_queries, n_keys)
        chance = torch.where(fallen, probabilities, 1 - probabilities).prod()
        total += chance * read_on(fallen.tolist(), start)
    return total


def by_recursion(probabilities):
    """q_ij = (1 − p_{i,j−1}) q_{i,j−1} + α_{i−1,j} and α_ij = p_ij q_ij, as the paper writes them."""
    n_queries, n_keys = probabilities.shape
    previous, rows = [1.0] + [0.0] * (n_keys - 1), []
    for i in range(n_queries):
        q, row = 0.0, []
        for j in range(n_keys):
            passed = 1 - probabilities[i, j - 1].item() if j else 0.0
            q = passed * q + previous[j]
            row.append(probabilities[i, j].item() * q)
        previous = row
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


class TestAlignment:
    def test_it_is_the_expectation(self):
        probabilities = torch.rand(3, 4, dtype=torch.float64)
        torch.testing.assert_close(om.attention.monotonic_alignment(probabilities), enumerated(probabilities))

    def test_from_another_start(self):
        probabilities = torch.rand(2, 5, dtype=torch.float64)
        start = torch.eye(5, dtype=torch.float64)[2]
        torch.testing.assert_close(
            om.attention.monotonic_alignment(probabilities, start=start), enumerated(probabilities, 2)
        )

    @pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
    def test_recursion(self, scale):
        """It holds also where probabilities are nearly 0 or 1, where the paper's parallel form divides by zero."""
        probabilities = (scale * torch.randn(7, 33, dtype=torch.float64)).sigmoid()
        torch.testing.assert_close(om.attention.monotonic_alignment(probabilities), by_recursion(probabilities))

    def test_mass_goes_forward(self):
        alignment = om.attention.monotonic_alignment(torch.rand(6, 9, dtype=torch.float64))
        ahead = alignment.flip(-1).cumsum(-1).flip(-1)  # the mass at or after a key, with what fell off the end
        lost = 1 - alignment.sum(-1, keepdim=True)
        assert (lost >= -1e-12).all() and (lost.diff(dim=0) >= -1e-12).all()
        assert ((ahead + lost).diff(dim=0) >= -1e-12).all()

    def test_gradients(self):
        probabilities = torch.rand(2, 3, 5, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(om.attention.monotonic_alignment, (probabilities,))

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (2, 0, 4)])
    def test_sizes_of_nothing_and_one(self, shape):
        probabilities = torch.rand(shape)
        assert om.attention.monotonic_alignment(probabilities).shape == shape
        assert _hard_alignment(probabilities > 0.5, torch.zeros(*shape[:-2], shape[-1])).shape == shape

    def test_hard(self):
        for _ in range(20):
            stops = torch.rand(4, 6) > 0.6
            start = torch.eye(6, dtype=torch.float64)[0]
            assert torch.equal(_hard_alignment(stops, start), read_on(stops.tolist()))
            soft = torch.rand(6, dtype=torch.float64)  # of many starts at once: each goes its own way
            parts = sum(soft[k] * _hard_alignment(stops, torch.eye(6, dtype=torch.float64)[k]) for k in range(6))
            torch.testing.assert_close(_hard_alignment(stops, soft), parts)


def drawn(*batch, queries=4, keys=6):
    return tuple(torch.randn(*batch, n, d, dtype=torch.float64) for n, d in ((queries, 3), (keys, 3), (keys, 2)))


class TestLayer:
    @pytest.mark.parametrize("regularizer", [om.Shannon(), om.SquaredNorm()], ids=str)
    def test_training(self, regularizer):
        attention = om.attention.MonotonicAttention(om.Additive(3, 3), regularizer=regularizer, offset=-0.5).double()
        query, key, value = drawn(2)
        output, weights, state = attention(query, key, value)
        for b in range(2):
            scores = attention.score(query[b], key[b]) - 0.5
            sparse = isinstance(regularizer, om.SquaredNorm)
            probabilities = ((scores + 1) / 2).clamp(0, 1) if sparse else scores.sigmoid()
            expected = by_recursion(probabilities.detach())
            torch.testing.assert_close(weights[b], expected)
            torch.testing.assert_close(output[b], expected @ value[b])
        assert torch.equal(state, weights[:, -1])

    def test_hard_at_test_time(self):
        attention = om.attention.MonotonicAttention(om.DotProduct()).double().eval()
        query, key, value = drawn(3)
        output, weights, _ = attention(query, key, value)
        for b in range(3):
            expected = read_on((query[b] @ key[b].T > 0).tolist())
            assert torch.equal(weights[b], expected)
            torch.testing.assert_close(output[b], expected @ value[b])

    def test_confident_training_is_hard(self):
        attention = om.attention.MonotonicAttention(om.DotProduct(), regularizer=om.SquaredNorm()).double()
        query, key, value = drawn(2)
        soft = attention(1e6 * query, key, value).weights
        assert torch.equal(soft, attention.eval()(query, key, value).weights)

    @pytest.mark.parametrize("training", [True, False])
    def test_steps_and_lengths(self, training):
        attention = om.attention.MonotonicAttention().double().train(training)
        query, key, value = drawn(2)
        lengths = torch.tensor([6, 4])
        spoilt = value.clone()
        spoilt[1, 4:] = torch.nan
        whole = attention(query, key, spoilt, lengths=lengths)
        state = None
        for t in range(4):
            output, _, state = attention(query[:, t : t + 1], key, spoilt, lengths=lengths, state=state)
            torch.testing.assert_close(output, whole.output[:, t : t + 1])
        torch.testing.assert_close(whole.output[1], attention(query[1], key[1, :4], value[1, :4]).output)
        assert not whole.weights[1, :, 4:].any()

    def test_past_the_end(self):
        """A query that finds no key has read everything: it and the later ones get zeros."""
        attention = om.attention.MonotonicAttention(om.DotProduct()).eval()
        query, key = torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([[1.0], [2.0], [3.0]])
        weights = attention(query, key).weights
        assert weights.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]

    def test_gradients(self):
        attention = om.attention.MonotonicAttention().double()
        inputs = tuple(x.requires_grad_() for x in drawn(1))
        assert torch.autograd.gradcheck(lambda *x: attention(*x).output, inputs)
        attention(*inputs).output.sum().backward()
        assert attention.offset.grad != 0

    def test_noise_is_drawn_from_the_generator(self):
        attention = om.attention.MonotonicAttention(noise=1.0).double()
        inputs = drawn(2)
        draws = [attention(*inputs, generator=torch.Generator().manual_seed(seed)).output for seed in (1, 1, 2)]
        assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
        attention.eval()
        assert torch.equal(attention(*inputs).output, attention(*inputs).output)

    def test_nothing_allowed(self):
        attention = om.attention.MonotonicAttention().double()
        query, key, value = drawn(2)
        mask = torch.ones(2, 4, 6, dtype=torch.bool)
        mask[0, 1] = False
        output = attention(query.requires_grad_(), key, value, mask=mask).output
        output.sum().backward()
        assert not output[0, 1:].any() and query.grad.isfinite().all()

    def test_autocast(self):
        attention = om.attention.MonotonicAttention(om.Additive(3, 3))
        inputs = tuple(x.float() for x in drawn(2))
        with torch.autocast("cpu", torch.bfloat16):
            found = attention(*inputs).weights
        torch.testing.assert_close(found, attention(*inputs).weights, atol=0.02, rtol=0.05)

    def test_errors(self):
        with pytest.raises(TypeError, match="must act on a row, got SparseMAP"):
            om.attention.MonotonicAttention(regularizer=om.SparseMAP(om.Matching()))
        with pytest.raises(ValueError, match="noise must be non-negative, got -1"):
            om.attention.MonotonicAttention(noise=-1)
