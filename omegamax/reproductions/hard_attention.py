"""Hard attention as the lecture states it: a bound, the score function, its variance, and how many keys are read."""

from __future__ import annotations

import torch
from torch import Tensor

import omegamax as om
from omegamax.reproductions.claim import Outcome, Published, Row, at_least, at_most, finds, near, same
from omegamax.reproductions.numerical_checks import largest, normal


def _log_likelihood(output: Tensor) -> Tensor:
    """Returns log p(y | s): a curved function of the chosen value, at most 0."""
    return -(output - 0.3).square().sum(-1)


def bound(published: Published) -> Outcome:
    """Σ p(s) log p(y | s) ≤ log Σ p(s) p(y | s), by Jensen."""
    weights, values = om.softmax(normal(500, 6)), normal(500, 6, 3, seed=1)
    log_likelihood = _log_likelihood(values)
    lower = (weights * log_likelihood).sum(-1)
    marginal = (weights.log() + log_likelihood).logsumexp(-1)
    attention = om.HardAttention(om.DotProduct(), normalizer=om.SquaredNorm(), estimator=om.attention.Marginalize())
    glimpses = attention(normal(1, 3), values[0])
    ours = attention.objective(_log_likelihood(glimpses.output), glimpses)
    by_hand = (om.sparsemax(normal(1, 3) @ values[0].T) * log_likelihood[0]).sum(-1)
    return Outcome(
        [
            at_least("least of log p(y | a) − L_s in 500 draws", 0, float((marginal - lower).min())),
            same("objective of om.HardAttention with om.attention.Marginalize and L_s", largest(ours - by_hand)),
        ]
    )


def score_function(published: Published) -> Outcome:
    """REINFORCE is right on average, with less variance under a baseline; an exact sum over few places has none."""
    rows: list[Row] = []
    one, key, value = normal(1, 3), normal(4, 3, seed=1), normal(4, 2, seed=2)
    rewards = _log_likelihood(value) - 5  # far from zero, as log-likelihoods of whole sentences are
    (exact,) = torch.autograd.functional.jacobian(lambda q: (om.softmax(q @ key.T / 3**0.5) * rewards).sum(-1), one)
    many = one.expand(20_000, 1, 3).clone().requires_grad_()
    spread = {}
    for name, baseline in (("no baseline", None), ("b = the mean reward", _Constant(float(rewards.mean())))):
        attention = om.HardAttention(estimator=om.attention.Reinforce(baseline=baseline))
        glimpses = attention(many, key, value, generator=torch.Generator().manual_seed(0))
        objective = attention.objective(_log_likelihood(glimpses.output) - 5, glimpses).sum()
        (gradients,) = torch.autograd.grad(objective, many)
        spread[name] = float(gradients.var(0).sum())
        off = (gradients.mean(0) - exact) / (gradients.std(0) / len(many) ** 0.5)
        rows.append(at_most(f"{name}: mean of 20 000 gradients − exact, in standard errors", 4, largest(off)))
    ratio = spread["no baseline"] / spread["b = the mean reward"]
    rows.append(at_least("variance without over with the baseline", 2, ratio))
    marginal = om.HardAttention(normalizer=om.SquaredNorm(), estimator=om.attention.Marginalize())
    glimpses = marginal(many, key, value)
    (gradients,) = torch.autograd.grad(marginal.objective(_log_likelihood(glimpses.output) - 5, glimpses).sum(), many)
    by_hand = torch.autograd.functional.jacobian(lambda q: om.sparsemax(q @ key.T / 3**0.5).mul(rewards).sum(), one)
    n_read = float(len(glimpses.chosen.choices))
    rows.append(at_most("keys that the exact sum under sparsemax reads, of 4", 3, n_read))
    rows.append(same("the exact sum: variance of its gradient", float(gradients.var(0).sum())))
    rows.append(same("the exact sum: its gradient − by hand", largest(gradients - by_hand)))
    return Outcome(rows)


class _Constant(torch.nn.Module):
    """A baseline that stays constant whatever is sampled."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, reward: Tensor) -> Tensor:
        return reward.new_tensor(self.value)


def soft_and_hard(published: Published) -> Outcome:
    """Soft attention has an exact gradient and reads all; hard attention reads one; a hard maximum has no gradient."""
    query, key = normal(1, 4).requires_grad_(), normal(50, 4, seed=1)
    soft = om.Attention()
    first, second = soft(query, key), soft(query, key)
    hard = om.HardAttention()(query, key, generator=torch.Generator().manual_seed(0))
    (zero,) = torch.autograd.grad((om.hardmax(query @ key.T) @ key).sum(), query)
    check = torch.autograd.gradcheck(lambda q: soft(q, key).output, (query,))
    return Outcome(
        [
            same("soft: two runs", largest(first.output - second.output)),
            finds("soft: its gradient and differences", "exact", "agree" if check else "differ", bool(check)),
            near("soft: keys read, of 50", 50, float((first.weights > 0).sum()), 0),
            near("hard: keys read, of 50", 1, float((hard.chosen.choices > 0).sum()), 0),
            near("hard and deterministic: its gradient", 0, largest(zero), 0),
        ]
    )
