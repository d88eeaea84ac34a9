"""Hard attention: every estimator against the exact gradient, by enumeration of the choices."""

import itertools

import pytest
import torch

import omegamax as om

SPARSE = om.Scaled(om.SquaredNorm(), 2.0)


def toy(n_keys=4, n_queries=1, batch=()):
    """Query, keys and values, and log p(y | s) as a curved function of what was chosen."""
    query = torch.randn(*batch, n_queries, 3, dtype=torch.float64, requires_grad=True)
    key = torch.randn(*batch, n_keys, 3, dtype=torch.float64)
    value = torch.randn(*batch, n_keys, 2, dtype=torch.float64, requires_grad=True)
    return query, key, value


def likelihood(output):
    """Returns the log-likelihood of every choice, (n, ..., Q)."""
    return -(output - 0.3).square().sum(-1) + output.prod(-1).sin()


def exact(query, key, value, normalizer):
    """L_s = Σ_s p(s) log p(y | s) and its gradients, as plain loops over the keys."""
    weights = normalizer.argmax(query @ key.T / 3**0.5)
    total = 0
    for q, k in itertools.product(range(weights.shape[0]), range(weights.shape[1])):
        total = total + weights[q, k] * likelihood(value[k])
    return total, torch.autograd.grad(total, (query, value))


@pytest.mark.parametrize("normalizer", [om.Shannon(), SPARSE, om.Tsallis(1.5)], ids=str)
class TestGradients:
    @pytest.mark.parametrize("baseline", [None, om.attention.MovingAverage()], ids=["bare", "baseline"])
    def test_reinforce_is_right_on_average(self, normalizer, baseline):
        query, key, value = toy(n_queries=2)
        expected, gradients = exact(query, key, value, normalizer)
        estimator = om.attention.Reinforce(n_samples=40_000, baseline=baseline)
        attention = om.HardAttention(normalizer=normalizer, estimator=estimator)
        for _ in range(2):  # the second time with a baseline that is not zero
            glimpses = attention(query, key, value, generator=torch.Generator().manual_seed(1))
            objective = attention.objective(likelihood(glimpses.output), glimpses).sum()
            found = torch.autograd.grad(objective, (query, value))
        torch.testing.assert_close(objective, expected, atol=0.05, rtol=0)
        torch.testing.assert_close(found, gradients, atol=0.08, rtol=0)

    def test_reinforce_by_enumeration(self, normalizer):
        """The mean over all choices, each with its probability, is exact whatever is taken off the reward."""
        query, key, value = toy()
        _, gradients = exact(query, key, value, normalizer)
        estimator = om.attention.Reinforce(baseline=om.attention.MovingAverage())
        estimator.eval()
        estimator.baseline.value.fill_(-1.7)
        weights = normalizer.argmax(query @ key.T / 3**0.5)
        total = 0
        for k in range(4):
            choice = torch.eye(4, dtype=torch.float64)[k].reshape(1, 1, 4)
            probability = (weights * choice[0]).sum(-1)
            if probability > 0:
                chosen = om.attention.Choices(choice, probability.log().unsqueeze(0), torch.ones(1, 1))
                objective = estimator.objective(likelihood(choice @ value), chosen, torch.zeros(1))
                total = total + probability.detach() * objective
        found = torch.autograd.grad(total.sum(), (query, value))
        torch.testing.assert_close(found, gradients)

    def test_marginalization_is_exact(self, normalizer):
        query, key, value = toy(n_keys=6, n_queries=3)
        expected, gradients = exact(query, key, value, normalizer)
        attention = om.HardAttention(normalizer=normalizer, estimator=om.attention.Marginalize())
        glimpses = attention(query, key, value)
        objective = attention.objective(likelihood(glimpses.output), glimpses).sum()
        torch.testing.assert_close(objective, expected)
        torch.testing.assert_close(torch.autograd.grad(objective, (query, value)), gradients)
        assert len(glimpses.output) == (glimpses.weights > 0).sum(-1).max()

    def test_marginalization_by_finite_differences(self, normalizer):
        """With lengths, through the whole layer: scores, choices, values."""
        layer = om.HardAttention(
            om.Bilinear(2, 2), normalizer=normalizer, estimator=om.attention.Marginalize()
        ).double()
        inputs = [torch.randn(2, n, 2, dtype=torch.float64) for n in (2, 4)]

        def run(query, key, weight):
            named = {"score.weight": weight}
            glimpses = torch.func.functional_call(layer, named, (query, key), {"lengths": torch.tensor([4, 2])})
            return layer.objective(-glimpses.output.square().sum(-1), glimpses)

        given = tuple(x.requires_grad_() for x in (*inputs, layer.score.weight.detach().clone()))
        assert torch.autograd.gradcheck(run, given, atol=1e-5)

    def test_the_bound(self, normalizer):
        """L_s ≤ log p(y), and equal where only one choice is possible (the lecture)."""
        query, key, value = toy(n_keys=6, n_queries=3, batch=(5,))
        attention = om.HardAttention(normalizer=normalizer, estimator=om.attention.Marginalize())
        glimpses = attention(query, key, value)
        log_likelihood = likelihood(glimpses.output)
        bound, marginal = (f(log_likelihood, glimpses) for f in (attention.objective, attention.log_marginal))
        assert (bound <= marginal + 1e-12).all()
        each = likelihood(value).unsqueeze(-2)  # (batch, 1, keys)
        torch.testing.assert_close(marginal, (glimpses.weights * each.exp()).sum(-1).log())
        sure = (glimpses.weights > 0).sum(-1) == 1
        torch.testing.assert_close(bound[sure], marginal[sure])


def test_straight_through_is_one_hot_forward_and_soft_backward():
    query, key, value = toy(n_queries=2)
    attention = om.HardAttention(normalizer=om.Shannon(), estimator=om.attention.StraightThrough(n_samples=50))
    glimpses = attention(query, key, value)
    choices = glimpses.chosen.choices
    assert ((choices == 0) | (choices == 1)).all() and (choices.sum(-1) == 1).all()
    direction = torch.randn(4, dtype=torch.float64)
    found = torch.autograd.grad((choices * direction).sum() / 50, query, retain_graph=True)[0]
    expected = torch.autograd.grad((glimpses.weights * direction).sum(), query, retain_graph=True)[0]
    torch.testing.assert_close(found, expected)
    # A likelihood that is linear in the choice is the one case without bias.
    objective = attention.objective(glimpses.output.sum(-1), glimpses).sum()
    linear = (glimpses.weights @ value).sum()
    found, expected = (torch.autograd.grad(x, query, retain_graph=True)[0] for x in (objective, linear))
    torch.testing.assert_close(found, expected)


def test_queries_that_act_together_share_the_reward():
    """One log-likelihood for both queries: the exact gradient is a sum over pairs of choices."""
    query, key, value = toy(n_keys=3, n_queries=2)

    def joint(output):  # (n, Q, features) to (n,)
        return (output[..., 0, :] * output[..., 1, :]).sum(-1).tanh()

    weights = om.Shannon().argmax(query @ key.T / 3**0.5)
    total = sum(
        weights[0, i] * weights[1, j] * joint(torch.stack([value[i], value[j]]))
        for i, j in itertools.product(range(3), repeat=2)
    )
    expected = torch.autograd.grad(total, (query, value))
    attention = om.HardAttention(estimator=om.attention.Reinforce(n_samples=40_000))
    glimpses = attention(query, key, value, generator=torch.Generator().manual_seed(0))
    objective = attention.objective(joint(glimpses.output), glimpses)
    torch.testing.assert_close(torch.autograd.grad(objective, (query, value)), expected, atol=0.03, rtol=0)
    with pytest.raises(ValueError, match="Marginalize: log_likelihood must have the shape"):
        attention = om.HardAttention(estimator=om.attention.Marginalize())
        attention.objective(joint(attention(query, key, value).output), attention(query, key, value))


def test_the_estimate_is_the_lecture_s():
    """The gradient of one sample is ∂ log p(y | s) + λ_r (log p(y | s) − b) ∂ log p(s)."""
    query, key, value = toy()
    estimator = om.attention.Reinforce(reward_scale=0.7, baseline=om.attention.MovingAverage())
    estimator.baseline.value.fill_(-1.3)
    attention = om.HardAttention(estimator=estimator)
    glimpses = attention(query, key, value, generator=torch.Generator().manual_seed(2))
    objective = attention.objective(likelihood(glimpses.output), glimpses).sum()
    found = torch.autograd.grad(objective, (query, value))
    place = int(glimpses.chosen.choices[0, 0].argmax())
    log_probs, reward = (query @ key.T / 3**0.5).log_softmax(-1), likelihood(value[place])
    of_choice = torch.autograd.grad(log_probs[0, place], query)[0]
    torch.testing.assert_close(found[0], 0.7 * (reward.detach() + 1.3) * of_choice)
    torch.testing.assert_close(found[1], torch.autograd.grad(reward, value)[0])


def test_moving_average():
    baseline = om.attention.MovingAverage(0.9)
    rewards = [torch.tensor([[-1.0], [-3.0]]), torch.tensor([[-4.0], [-4.0]])]
    assert [float(baseline(reward)) for reward in rewards] == pytest.approx([0, -0.2])
    assert float(baseline.value) == pytest.approx(0.9 * -0.2 + 0.1 * -4)
    baseline.eval()
    baseline(rewards[0])
    assert float(baseline.value) == pytest.approx(-0.58)


def test_others_mean():
    baseline, inf = om.attention.OthersMean(), torch.inf
    rewards = torch.tensor([[-1.0, -2.0, -inf], [-3.0, -inf, -inf], [-8.0, -6.0, -5.0]])
    assert baseline(rewards).tolist() == [[-5.5, -6.0, -5.0], [-4.5, -4.0, -5.0], [-2.0, -2.0, 0.0]]
    assert baseline(rewards[:1]).tolist() == [[0.0, 0.0, 0.0]]


def test_others_mean_is_right_on_average_and_has_less_variance():
    """All pairs of choices, each with its probability."""
    query, key, value = toy()
    with torch.no_grad():
        value.mul_(0.3).sub_(3)  # all rewards are low, so that a choice says little without a baseline
    _, gradients = exact(query, key, value, om.Shannon())
    weights = om.Shannon().argmax(query @ key.T / 3**0.5).squeeze(0)
    variances = []
    for baseline in (None, om.attention.OthersMean()):
        estimator, mean, square = om.attention.Reinforce(n_samples=2, baseline=baseline), 0, 0
        for pair in itertools.product(range(4), repeat=2):
            choice = torch.eye(4, dtype=torch.float64)[list(pair)].unsqueeze(1)
            chosen = om.attention.Choices(choice, weights[list(pair)].log().unsqueeze(-1), torch.full((2, 1), 0.5))
            objective = estimator.objective(likelihood(choice @ value), chosen, torch.zeros(1)).sum()
            found = torch.autograd.grad(objective, query, retain_graph=True)[0]
            probability = weights[list(pair)].prod().detach()
            mean, square = mean + probability * found, square + probability * found.square().sum()
        torch.testing.assert_close(mean, gradients[0])
        variances.append(float(square - mean.square().sum()))
    assert variances[1] < 0.1 * variances[0]


def test_entropy_bonus():
    query, key, value = toy()
    weights = om.Shannon().argmax(query @ key.T / 3**0.5)
    entropy = -(weights * weights.log()).sum()
    expected = torch.autograd.grad(entropy, query)[0]
    objectives = []
    for bonus in (0.0, 0.5):
        attention = om.HardAttention(estimator=om.attention.Reinforce(entropy_bonus=bonus))
        glimpses = attention(query, key, value, generator=torch.Generator().manual_seed(3))
        objectives.append(attention.objective(likelihood(glimpses.output), glimpses).sum())
    found = torch.autograd.grad(objectives[1] - objectives[0], query)[0]
    torch.testing.assert_close(found, 0.5 * expected)
    torch.testing.assert_close(objectives[1] - objectives[0], 0.5 * entropy)


def test_mixing_replaces_whole_items_by_their_average():
    query, key, value = toy(n_queries=2, batch=(200,))
    attention = om.HardAttention(estimator=om.attention.SometimesSoft(om.attention.Reinforce(), probability=0.5))
    glimpses = attention(query, key, value)
    hard = (glimpses.chosen.choices == 1).any(-1)[0]  # (batch, queries)
    assert (hard[:, 0] == hard[:, 1]).all() and 60 < hard[:, 0].sum() < 140
    soft = ~hard[:, 0]
    torch.testing.assert_close(glimpses.output[0][soft], (glimpses.weights @ value)[soft])
    assert not glimpses.chosen.log_prob[0][soft].any()
    # The gradient of a soft item is that of soft attention.
    objective = attention.objective(likelihood(glimpses.output), glimpses)
    found = torch.autograd.grad(objective.sum(), query, retain_graph=True)[0]
    expected = torch.autograd.grad(likelihood(glimpses.weights @ value).sum(), query)[0]
    torch.testing.assert_close(found[soft], expected[soft])
    assert (attention.eval()(query, key, value).chosen.choices.amax(-1) == 1).all()


def test_a_soft_start_averages_whole_items_and_then_chooses():
    query, key, value = toy(n_queries=2, batch=(3,))
    estimator = om.attention.SoftStart(om.attention.Reinforce(n_samples=5), 4)
    attention = om.HardAttention(estimator=estimator)
    for items_left in (4, 1):  # the second call begins softly, so that all of it is soft
        assert estimator.is_soft and int(estimator.items_left) == items_left
        glimpses, again = attention(query, key, value), attention(query, key, value)
        torch.testing.assert_close(glimpses.output, (glimpses.weights @ value).unsqueeze(0))
        torch.testing.assert_close(again.output, glimpses.output)
        assert (attention.eval()(query, key, value).chosen.choices.amax(-1) == 1).all()
        attention.train()
        objective = attention.objective(likelihood(glimpses.output), glimpses)
        found = torch.autograd.grad(objective.sum(), query)[0]
        torch.testing.assert_close(found, torch.autograd.grad(likelihood(again.output).sum(), query)[0])
    glimpses = attention(query, key, value)
    assert not estimator.is_soft and glimpses.output.shape[0] == 5
    assert ((glimpses.chosen.choices == 0) | (glimpses.chosen.choices == 1)).all() and glimpses.chosen.log_prob.all()
    attention.objective(likelihood(glimpses.output), glimpses)
    assert int(estimator.items_left) == -2  # counts no further


def test_the_count_of_a_soft_start_is_saved():
    one, other = (om.attention.SoftStart(om.attention.StraightThrough(), count) for count in (10, 99))
    weights = torch.full((3, 2, 4), 0.25)
    one.objective(torch.zeros(1, 3), one.choose(weights), torch.zeros(3, 2))
    one.eval().objective(torch.zeros(1, 3), one.choose(weights), torch.zeros(3, 2))  # not training
    other.load_state_dict(one.state_dict())
    assert int(other.items_left) == 7


@pytest.mark.parametrize(
    "estimator",
    [
        om.attention.Reinforce(n_samples=3),
        om.attention.StraightThrough(),
        om.attention.Marginalize(),
        om.attention.SometimesSoft(om.attention.Reinforce()),
        om.attention.SoftStart(om.attention.Reinforce(baseline=om.attention.OthersMean()), 10),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
class TestEdges:
    def test_masked_keys_are_never_chosen_nor_read(self, estimator):
        query, key, value = toy(n_keys=5, n_queries=3, batch=(2,))
        lengths = torch.tensor([5, 2])
        spoilt = torch.where(torch.arange(5).unsqueeze(-1) < lengths[:, None, None], value, torch.nan)
        attention = om.HardAttention(normalizer=om.SquaredNorm(), estimator=estimator)
        glimpses = attention(query, key, spoilt, lengths=lengths)
        assert not glimpses.chosen.choices[:, 1, :, 2:].any() and glimpses.output.isfinite().all()

    def test_nothing_allowed(self, estimator):
        query, key, value = toy(n_queries=2)
        mask = torch.tensor([[True] * 4, [False] * 4])
        attention = om.HardAttention(estimator=estimator)
        glimpses = attention(query, key, value, mask=mask)
        assert not glimpses.output[:, 1].any() and not glimpses.entropy[1] and not glimpses.chosen.log_prob[:, 1].any()
        attention.objective(likelihood(glimpses.output), glimpses).sum().backward()
        assert query.grad.isfinite().all() and not query.grad[1].any()

    def test_sizes_one_and_none(self, estimator):
        attention = om.HardAttention(estimator=estimator)
        assert attention(torch.ones(1, 2), torch.ones(1, 2)).output.shape[1:] == (1, 2)
        glimpses = attention(torch.ones(3, 2), torch.ones(0, 2))
        assert glimpses.output.shape[1:] == (3, 2) and not glimpses.output.any()

    def test_half_and_generator(self, estimator):
        attention = om.HardAttention(normalizer=om.SquaredNorm(), estimator=estimator)
        query, key = torch.randn(4, 3, dtype=torch.bfloat16), torch.randn(6, 3, dtype=torch.bfloat16)
        drawn = [attention(query, key, generator=torch.Generator().manual_seed(5)) for _ in range(2)]
        assert torch.equal(drawn[0].output, drawn[1].output) and drawn[0].output.dtype is torch.bfloat16
        assert attention.objective(drawn[0].output.sum(-1), drawn[0]).isfinite().all()


def test_impossible_answers():
    """A log-likelihood of −inf: nothing where the choice does not count, and no NaN where it does."""
    query, key, value = toy(n_keys=6, n_queries=3)
    attention = om.HardAttention(normalizer=om.SquaredNorm(), estimator=om.attention.Marginalize())
    glimpses = attention(query, key, value)
    log_likelihood = likelihood(glimpses.output)
    spoilt = torch.where(glimpses.chosen.share > 0, log_likelihood, -torch.inf)
    for method in (attention.objective, attention.log_marginal):
        found, expected = (method(x, glimpses) for x in (spoilt, log_likelihood))
        torch.testing.assert_close(found, expected)
        assert torch.autograd.grad(found.sum(), query, retain_graph=True)[0].isfinite().all()
    attention = om.HardAttention(estimator=om.attention.Reinforce(baseline=om.attention.MovingAverage()))
    glimpses = attention(query, key, value)
    reward = torch.tensor([[-1.0, -torch.inf, -2.0]], dtype=torch.float64)
    objective = attention.objective(reward, glimpses)
    assert objective.tolist() == [-1.0, -torch.inf, -2.0]
    assert float(attention.estimator.baseline.value) == pytest.approx(-0.15)
    assert torch.autograd.grad(objective.sum(), query)[0].isfinite().all()


def test_steps_can_be_joined():
    attention = om.HardAttention(estimator=om.attention.Reinforce(n_samples=2))
    key = torch.randn(5, 3)
    steps = [attention(torch.randn(1, 3), key) for _ in range(4)]
    joined = om.attention.HardAttentionOutput.join(steps)
    assert joined.output.shape == (2, 4, 3) and joined.weights.shape == (4, 5) and joined.entropy.shape == (4,)
    torch.testing.assert_close(joined.chosen.log_prob[:, 2], steps[2].chosen.log_prob[:, 0])
    assert attention.objective(torch.randn(2), joined).shape == ()


def test_errors():
    with pytest.raises(TypeError, match="every row a distribution, got the structured SparseMAP"):
        om.HardAttention(normalizer=om.SparseMAP(om.Subset(2)))
    scaled = om.Scaled(om.SparseMAP(om.Subset(2)), 0.5)
    for normalizer in (
        om.attention.ChainNormalizer(),
        om.attention.TreeNormalizer(),
        scaled,
        om.GridTV(),
        om.Sinkhorn(),
    ):
        with pytest.raises(TypeError, match="every row a distribution"):
            om.HardAttention(normalizer=normalizer)
    with pytest.raises(TypeError, match="one that samples, got Marginalize"):
        om.attention.SometimesSoft(om.attention.Marginalize())
    with pytest.raises(TypeError, match="SoftStart: estimator must be one that samples, got Marginalize"):
        om.attention.SoftStart(om.attention.Marginalize(), 5)
    with pytest.raises(ValueError, match="SoftStart: n_items must be at least 1"):
        om.attention.SoftStart(om.attention.Reinforce(), 0)
    with pytest.raises(ValueError, match="probability must lie in"):
        om.attention.SometimesSoft(om.attention.Reinforce(), probability=2.0)
    with pytest.raises(ValueError, match="decay must lie"):
        om.attention.MovingAverage(1.0)
    attention = om.HardAttention()
    with pytest.raises(ValueError, match="got 5 values and 4 keys"):
        attention(torch.ones(2, 3), torch.ones(4, 3), torch.ones(5, 3))
    glimpses = attention(torch.ones(2, 3), torch.ones(4, 3))
    with pytest.raises(ValueError, match=r"must have the shape \(1, 2\)"):
        attention.objective(torch.zeros(2), glimpses)
    with pytest.raises(TypeError, match="got the estimator Reinforce"):
        attention.log_marginal(torch.zeros(1, 2), glimpses)


def test_a_soft_start_on_a_device_chooses_as_on_the_host(monkeypatch):
    monkeypatch.setattr(om.routing, "on_host", lambda *tensors: False)
    start = om.attention.SoftStart(om.attention.Reinforce(n_samples=3), 4)
    weights = torch.rand(2, 5, 7).softmax(-1).requires_grad_()
    for left in (4, 2, 0):
        assert int(start.items_left) == left
        chosen = start.choose(weights, torch.Generator().manual_seed(1))
        if left:
            torch.testing.assert_close(chosen.choices, weights.expand(3, -1, -1, -1))
            assert not chosen.log_prob.any()
        else:
            by_hand = start.estimator.choose(weights, torch.Generator().manual_seed(1))
            assert all(torch.equal(one, other) for one, other in zip(chosen, by_hand))
        start.objective(torch.zeros(3, 2, 5), chosen, torch.zeros(2, 5))
    assert int(start.items_left) == 0
