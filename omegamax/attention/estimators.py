"""How to learn through a choice: estimators of the gradient of hard attention.

    L_s  = Σ_s p(s) log p(y | s)  ≤  log Σ_s p(s) p(y | s) = log p(y)
    ∂L_s = Σ_s p(s) [∂ log p(y | s) + log p(y | s) ∂ log p(s)]

`Reinforce` takes the sum over samples: right on average, and noisy. `StraightThrough` chooses in the forward pass and
differentiates as if it had averaged: quieter, and biased. `Marginalize` takes the whole sum, over the support only:
exact, and cheap where the normalizer is sparse. `SometimesSoft` replaces choices by their average now and then, and
`SoftStart` replaces all of them at the beginning of training.

Choices are (n, ..., Q, K): one-hot rows, n of them for every row of weights (..., Q, K).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks, routing
from omegamax.sampling import sample


class Choices(NamedTuple):
    """Chosen keys, their log-probabilities, and their coefficients in the sum over choices."""

    choices: Tensor  # (n, ..., Q, K)
    log_prob: Tensor  # (n, ..., Q): log p(s), differentiable; 0 where nothing was drawn
    share: Tensor  # (n, ..., Q): the coefficient of a choice in the sum, 1/n for samples


class Estimator(nn.Module, ABC):
    """Chooses keys, and computes an objective whose gradient is that of L_s, exactly or on average.

    Common arguments: `weights` (..., Q, K), each row a distribution; `generator`, the source of random numbers;
    `log_likelihood` (n, ..., Q) or (n, ...) of the n choices; `chosen`, what `choose` returned; `entropy` (..., Q) of
    the weights.
    """

    @abstractmethod
    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Chooses keys for weights (..., Q, K), each row a distribution."""

    @abstractmethod
    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        """Computes L_s, to be maximised; its gradient is an estimate of the gradient of L_s.

        `log_likelihood` is log p(y | s), for every choice (n, ..., Q) or for all the queries together (n, ...); the
        result has its shape without n. `entropy` (..., Q) is that of the weights.
        """


class MovingAverage(nn.Module):
    """A baseline that remembers past rewards: b ← decay · b + (1 − decay) · mean reward, starting at 0.

    Arguments:
        decay: the share of the past that is kept
    """

    value: Tensor

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"MovingAverage: decay must lie in [0, 1), got {decay}; 0.9 is the paper's")
        self.decay = decay
        self.register_buffer("value", torch.zeros(()))

    def forward(self, reward: Tensor) -> Tensor:
        """Returns the average before this reward, so that b does not depend on the choice; training updates it."""
        before = self.value.to(reward.dtype)
        if self.training and reward.numel():
            seen = reward.detach().to(self.value.dtype)
            possible = seen.isfinite()  # a reward of −inf would stay in the average for ever
            n_seen = possible.sum()
            mean = torch.where(possible, seen, 0).sum() / n_seen.clamp(min=1)
            after = self.decay * self.value + (1 - self.decay) * mean
            self.value = torch.where(n_seen > 0, after, self.value)
        return before

    def extra_repr(self) -> str:
        return f"decay={self.decay}"


class OthersMean(nn.Module):
    """A baseline for several samples: b of a sample is the mean reward of the others, so b does not depend on it.

        b_i = 1/(n−1) Σ_{j ≠ i} r_j

    It knows how hard each query is, and remembers nothing. A single sample has b = 0; a reward of −inf counts as no
    sample. Kool, van Hoof & Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.
    """

    def forward(self, reward: Tensor) -> Tensor:
        """Computes the mean of the others for rewards (n, ...)."""
        possible = reward.isfinite()
        seen = torch.where(possible, reward, 0)
        return (seen.sum(0) - seen) / (possible.sum(0) - possible.to(seen.dtype)).clamp(min=1)


class Reinforce(Estimator):
    """Samples keys and uses the score-function gradient.

        ∂L_s ≈ 1/n Σ_n [∂ log p(y | sⁿ) + reward_scale (log p(y | sⁿ) − b) ∂ log p(sⁿ)] + entropy_bonus ∂H[s]

    `baseline` maps rewards (n, ...) to b, which is taken off them: one number, or one for each reward; None takes off
    nothing. With the reward scale at 1 and no bonus the gradient is right on average, whatever b is, if b of a choice
    does not depend on it. A reward of −inf has no score function.

    Williams, Machine Learning 1992; Xu et al., "Show, attend and tell", ICML 2015.

    Arguments:
        n_samples: how many keys are drawn for each query
        baseline: a module from rewards to b, such as `MovingAverage()` or `OthersMean()`; None takes off nothing
        reward_scale: what the score function is multiplied by
        entropy_bonus: what the entropy of the choice is multiplied by
    """

    def __init__(
        self,
        *,
        n_samples: int = 1,
        baseline: nn.Module | None = None,
        reward_scale: float = 1.0,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__()
        checks.check_count("Reinforce", "n_samples", n_samples)
        self.n_samples, self.reward_scale, self.entropy_bonus = n_samples, reward_scale, entropy_bonus
        self.baseline = baseline

    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Samples from the Multinoulli distribution of each row."""
        choices = sample(weights, self.n_samples, generator=generator)
        return Choices(choices, _log((weights * choices).sum(-1)), _evenly(choices))

    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        """Adds the bonus to the mean log-likelihood; the score function enters the gradient only."""
        log_prob, entropy = _for_each(log_likelihood, chosen.log_prob), _for_each(log_likelihood[0], entropy)
        reward = log_likelihood.detach()
        base = reward.new_zeros(()) if self.baseline is None else self.baseline(reward)
        gain = torch.where(reward.isfinite(), self.reward_scale * (reward - base), 0)
        score = gain * log_prob
        return (log_likelihood + score - score.detach()).mean(0) + self.entropy_bonus * entropy

    def extra_repr(self) -> str:
        return f"n_samples={self.n_samples}, reward_scale={self.reward_scale}, entropy_bonus={self.entropy_bonus}"


class StraightThrough(Estimator):
    """Samples in the forward pass and uses the weights in the backward pass: choice + (weights − weights held fixed).

    The choice is one-hot to the bit; its gradient is biased, unless log p(y | s) is linear in the choice.
    Bengio, Léonard & Courville, arXiv:1308.3432.

    Arguments:
        n_samples: how many keys are drawn for each query
    """

    def __init__(self, *, n_samples: int = 1) -> None:
        super().__init__()
        checks.check_count("StraightThrough", "n_samples", n_samples)
        self.n_samples = n_samples

    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Samples keys; the samples carry the gradient of the weights."""
        choices = sample(weights, self.n_samples, generator=generator)
        log_prob = _log((weights * choices).sum(-1))
        return Choices(choices + (weights - weights.detach()), log_prob, _evenly(choices))

    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        _for_each(log_likelihood, chosen.log_prob)
        return log_likelihood.mean(0)

    def extra_repr(self) -> str:
        return f"n_samples={self.n_samples}"


class Marginalize(Estimator):
    """Takes every choice in the support with its weight: the sum itself, without variance.

        L_s = Σ_{s: p(s) > 0} p(s) log p(y | s)

    n is the size of the largest support in the batch: a few for sparse normalizers, K for softmax. Rows with a smaller
    one are filled up with choices of nothing that do not count. Needs a log-likelihood for every query, (n, ..., Q).
    """

    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Takes the whole support, largest weight first."""
        n_keys = weights.shape[-1]
        largest = int((weights > 0).sum(-1).amax()) if weights.numel() else 0
        share, place = weights.topk(min(max(1, largest), n_keys), -1)  # (..., Q, n)
        counts = (share > 0).unsqueeze(-1).to(weights.dtype)
        choices = weights.new_zeros(*share.shape, n_keys).scatter(-1, place.unsqueeze(-1), counts)
        share = share.movedim(-1, 0)
        return Choices(choices.movedim(-2, 0), _log(share), share)

    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        """Computes the sum; a choice of weight zero never counts, even if its likelihood is zero."""
        likelihood, share = self._aligned(log_likelihood, chosen)
        return torch.where(share > 0, share * likelihood, 0).sum(0).reshape(log_likelihood.shape[1:])

    def log_marginal(self, log_likelihood: Tensor, chosen: Choices) -> Tensor:
        """Computes log p(y) = log Σ_s p(s) p(y | s), of which L_s is a lower bound."""
        likelihood, share = self._aligned(log_likelihood, chosen)
        joint = torch.where(share > 0, chosen.log_prob + likelihood, -torch.inf)
        return joint.logsumexp(0).reshape(log_likelihood.shape[1:])

    def _aligned(self, log_likelihood: Tensor, chosen: Choices) -> tuple[Tensor, Tensor]:
        share = chosen.share
        if log_likelihood.shape == share.shape:
            return torch.where(share > 0, log_likelihood, 0), share
        if share.shape[-1] == 1 and log_likelihood.shape == share.shape[:-1]:
            return self._aligned(log_likelihood.unsqueeze(-1), chosen)
        raise ValueError(
            f"Marginalize: log_likelihood must have the shape {tuple(share.shape)}, one number for every choice of "
            f"every query, got {tuple(log_likelihood.shape)}; where the queries act together, use Reinforce"
        )


class SometimesSoft(Estimator):
    """Replaces the choices of an item by their average, with a given probability: soft attention for that item.

    It does so in training only, and lowers the variance of `Reinforce`; the score function of a replaced item is zero.
    Xu et al., ICML 2015.

    Arguments:
        estimator: what estimates where nothing is replaced
        probability: how often an item is replaced
    """

    def __init__(self, estimator: Estimator, *, probability: float = 0.5) -> None:
        super().__init__()
        _check_samples("SometimesSoft", estimator, (Reinforce, StraightThrough))
        if not 0 <= probability <= 1:
            raise ValueError(f"SometimesSoft: probability must lie in [0, 1], got {probability}; 0.5 is the paper's")
        self.estimator, self.probability = estimator, probability

    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Takes the choices of the inner estimator, or for some items the weights themselves."""
        choices, log_prob, share = self.estimator.choose(weights, generator)
        if not self.training:
            return Choices(choices, log_prob, share)
        items = choices.shape[:-2]
        soft = torch.rand(items, device=weights.device, generator=generator) < self.probability
        choices = torch.where(soft[..., None, None], weights, choices)
        return Choices(choices, torch.where(soft[..., None], 0, log_prob), share)

    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        return self.estimator.objective(log_likelihood, chosen, entropy)

    def extra_repr(self) -> str:
        return f"probability={self.probability}"


class SoftStart(Estimator):
    """Averages until training has shown it a number of items, then chooses: soft attention comes first.

    A choice teaches little before the choices are good: the reward says how well a whole item went, not which key was
    right. Soft attention finds the keys first. An item counts when its objective is computed, so that all its choices
    are of one kind. The number of items left is a buffer, so that a checkpoint continues where it was.

    Arguments:
        estimator: what follows, and always chooses outside of training
        n_items: items, over all calls in training, that are read softly
    """

    items_left: Tensor

    def __init__(self, estimator: Estimator, n_items: int) -> None:
        super().__init__()
        _check_samples("SoftStart", estimator, (Reinforce, StraightThrough, SometimesSoft))
        checks.check_count("SoftStart", "n_items", n_items)
        self.estimator = estimator
        self.register_buffer("items_left", torch.tensor(n_items))

    @property
    def is_soft(self) -> bool:
        """Whether the next choices are averages."""
        return self.training and int(self.items_left) > 0

    def choose(self, weights: Tensor, generator: torch.Generator | None = None) -> Choices:
        """Takes the weights themselves while items are left; then the choices of the inner estimator."""
        if not self.training:
            return self.estimator.choose(weights, generator)
        if not routing.on_host(self.items_left):  # to read the number, the host would have to wait for the device
            chosen, soft = self.estimator.choose(weights, generator), self.items_left > 0
            log_prob = torch.where(soft, 0, chosen.log_prob)
            return chosen._replace(choices=torch.where(soft, weights, chosen.choices), log_prob=log_prob)
        if not self.is_soft:
            return self.estimator.choose(weights, generator)
        choices = weights.unsqueeze(0)
        return Choices(choices, choices.new_zeros(choices.shape[:-1]), _evenly(choices))

    def objective(self, log_likelihood: Tensor, chosen: Choices, entropy: Tensor) -> Tensor:
        """Computes the objective of the inner estimator, and counts the items."""
        found = self.estimator.objective(log_likelihood, chosen, entropy)
        if self.training:
            self.items_left -= chosen.log_prob.shape[1:-1].numel() * (self.items_left > 0)
        return found

    def extra_repr(self) -> str:
        return f"items_left={int(self.items_left)}"


def row_entropy(weights: Tensor) -> Tensor:
    """Computes −Σ p log p of each row; where p is zero the term and its gradient are zero."""
    return -(weights * _log(weights)).sum(-1)


def _check_samples(name: str, estimator: Estimator, kinds: tuple[type[Estimator], ...]) -> None:
    if not isinstance(estimator, kinds):
        kind = type(estimator).__name__
        raise TypeError(
            f"{name}: estimator must be one that samples, got {kind}; use for example om.attention.Reinforce()"
        )


def _log(probability: Tensor) -> Tensor:
    """Computes the logarithm; where the probability is zero the result and its gradient are 0."""
    possible = probability > 0
    return torch.where(possible, torch.where(possible, probability, 1).log(), 0)


def _evenly(choices: Tensor) -> Tensor:
    return choices.new_full(choices.shape[:-1], 1 / len(choices))


def _for_each(log_likelihood: Tensor, per_query: Tensor) -> Tensor:
    """Returns numbers (..., Q) unchanged, or summed over the queries if the likelihood is one for all queries."""
    if log_likelihood.shape == per_query.shape:
        return per_query
    if log_likelihood.shape == per_query.shape[:-1]:
        return per_query.sum(-1)
    raise ValueError(
        f"objective: log_likelihood must have the shape {tuple(per_query.shape)}, one number for every choice, or "
        f"{tuple(per_query.shape[:-1])}, one for all queries together, got {tuple(log_likelihood.shape)}; keep the "
        "axis of the choices in front"
    )
