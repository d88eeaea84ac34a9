"""Coverage against the formulas of See et al. and Tu et al. in plain loops, and its loss."""

import pytest
import torch

import omegamax as om


def drawn(*batch, queries=4, keys=6):
    return tuple(torch.randn(*batch, n, d, dtype=torch.float64) for n, d in ((queries, 3), (keys, 5), (keys, 2)))


def by_hand(attention, query, key, normalizer, max_fertility):
    n_keys = len(key)
    coverage = torch.zeros(n_keys, dtype=torch.float64)
    rows = []
    for q in query:
        scores = []
        for j in range(n_keys):
            hidden = attention.score.of_query.weight @ q + attention.score.of_query.bias
            hidden = hidden + attention.score.of_key.weight @ key[j]
            hidden = hidden + attention.of_feature.weight[:, 0] * coverage[j]
            scores.append(attention.score.out.weight[0] @ hidden.tanh())
        weights = normalizer.argmax(torch.stack(scores))
        for j in range(n_keys):
            fertility = 1.0
            if max_fertility is not None:
                fertility = max_fertility / (1 + torch.exp(-attention.of_fertility.weight[0] @ key[j]))
            coverage[j] += weights[j] / fertility
        rows.append(weights)
    return torch.stack(rows), coverage


@pytest.mark.parametrize("max_fertility", [None, 2.0])
@pytest.mark.parametrize("normalizer", [om.Shannon(), om.SquaredNorm()], ids=str)
class TestEveryKind:
    def layer(self, normalizer, max_fertility):
        return om.attention.CoverageAttention(3, 5, 7, normalizer=normalizer, max_fertility=max_fertility).double()

    @torch.no_grad()
    def test_formula(self, normalizer, max_fertility):
        attention = self.layer(normalizer, max_fertility)
        query, key, value = drawn(2)
        output, weights, coverage = attention(query, key, value)
        for b in range(2):
            expected, covered = by_hand(attention, query[b], key[b], normalizer, max_fertility)
            torch.testing.assert_close(weights[b], expected)
            torch.testing.assert_close(output[b], expected @ value[b])
            torch.testing.assert_close(coverage[b], covered)

    def test_steps_and_lengths(self, normalizer, max_fertility):
        attention = self.layer(normalizer, max_fertility)
        query, key, value = drawn(2)
        lengths = torch.tensor([6, 4])
        whole = attention(query, key, value, lengths=lengths)
        state = None
        for t in range(4):
            output, _, state = attention(query[:, t : t + 1], key, value, lengths=lengths, state=state)
            torch.testing.assert_close(output, whole.output[:, t : t + 1])
        alone = attention(query[1], key[1, :4], value[1, :4])
        torch.testing.assert_close(whole.output[1], alone.output)
        torch.testing.assert_close(whole.state[1, :4], alone.state)
        assert not whole.state[1, 4:].any()

    def test_gradients(self, normalizer, max_fertility):
        attention = self.layer(normalizer, max_fertility)
        inputs = tuple(x.requires_grad_() for x in drawn(1, queries=3, keys=4))
        assert torch.autograd.gradcheck(lambda *x: attention(*x)[::2], inputs)


def test_what_was_used_is_left_alone():
    """Equal keys, and a coverage that counts against them: each is taken once."""
    attention = om.attention.CoverageAttention(1, 1, 1, normalizer=om.SquaredNorm())
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.of_feature.weight.fill_(-1.0)
        attention.score.out.weight.fill_(5.0)
    start = torch.tensor([0.0, 1.0, 1.0, 1.0])
    weights = attention(torch.zeros(1, 1), torch.zeros(4, 1), state=start).weights
    assert torch.equal(weights, torch.eye(4)[:1])


class TestLoss:
    def test_formula(self):
        weights = torch.rand(2, 4, 5, dtype=torch.float64)
        before = torch.rand(2, 5, dtype=torch.float64)
        for coverage in (None, before):
            found = om.attention.coverage_loss(weights, coverage=coverage)
            for b in range(2):
                covered = [0.0] * 5 if coverage is None else before[b].tolist()
                for t in range(4):
                    expected = sum(min(weights[b, t, j].item(), covered[j]) for j in range(5))
                    assert abs(found[b, t].item() - expected) < 1e-12
                    covered = [c + w for c, w in zip(covered, weights[b, t].tolist())]

    def test_zero_if_and_only_if_no_key_is_used_twice(self):
        assert not om.attention.coverage_loss(torch.eye(5)).any()
        assert om.attention.coverage_loss(torch.eye(5)[[0, 1, 1]]).tolist() == [0, 0, 1]

    def test_a_little_that_was_used_before_is_not_rounded_away(self):
        """The sum of what came before, not a difference of sums."""
        assert om.attention.coverage_loss(torch.tensor([[1e-9], [1.0]])).tolist() == pytest.approx([0, 1e-9])

    def test_gradient(self):
        weights = torch.rand(2, 4, 5, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(om.attention.coverage_loss, (weights,))

    def test_sizes_of_nothing(self):
        assert om.attention.coverage_loss(torch.zeros(2, 0, 3)).shape == (2, 0)
        assert om.attention.coverage_loss(torch.zeros(2, 3, 0)).tolist() == [[0] * 3] * 2


def test_errors():
    with pytest.raises(ValueError, match="max_fertility must be positive, got 0"):
        om.attention.CoverageAttention(3, 5, max_fertility=0)
