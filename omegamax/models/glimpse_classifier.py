"""Says what is in an image after several looks at it; what was seen so far decides where to look next.

    g_t = read(image, l_t)                l_1 is the centre; the others are chosen
    h_t = LSTM(h_{t−1}, g_t)
    p_t(y) = softmax(W h_t)               after every look; the last one counts

    maximised:  (1/T) Σ_t E log p_t(y)    over the choices of places

`DifferentiableClassifier` reads an average (a grid, DRAW's window), whose gradient is exact. `RetinaClassifier` draws
the place from a Gaussian, whose mean and deviation are functions of h, and learns by REINFORCE. `SparseClassifier` has
a sparse distribution over a grid of places, so that the expectation of a look is a sum over a few of them.

Mnih, Heess, Graves & Kavukcuoglu, "Recurrent models of visual attention", NIPS 2014. Theirs has a fixed deviation, and
the reward is 1 if the last answer is right; here the reward of a place is the log-likelihood of the answers after it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax.attention.estimators import Estimator, Marginalize
from omegamax.attention.hard import HardAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scores import ScaledDotProduct
from omegamax.models.image_readers import GridReader, Reading, Retina, WindowReader

_LEAST = 0.03  # deviation of a choice; the image is 2 wide
_START = 0.9  # where the logarithm of the deviation begins, between the least and the largest
_REACH = 0.8  # places are chosen between −0.8 and 0.8, so that a glimpse always sees something


class Looks(NamedTuple):
    """What a classifier saw in images, look by look, and what it took them for."""

    log_probs: Tensor  # (B, T, classes)
    places: Tensor  # (B, T, 2), (x, y) from −1 to 1
    shares: Tensor  # (B, T, rows, columns) of a grid over the image: where what was read is from


class _State(NamedTuple):
    hidden: Tensor
    cell: Tensor


def _readout(hidden_size: int, out_features: int) -> nn.Sequential:
    """A linear map of the state, which is scaled first: a new LSTM's is small, so that learning would start slowly."""
    return nn.Sequential(nn.LayerNorm(hidden_size), nn.Linear(hidden_size, out_features))


class GlimpseClassifier(nn.Module, ABC):
    """Looks at images (B, H, W) several times.

    Common arguments:
        n_classes: how many answers there are
        feature_size: of what is read by one look
        hidden_size: features of the LSTM
        n_glimpses: how often it looks
    """

    def __init__(self, n_classes: int, *, feature_size: int, hidden_size: int, n_glimpses: int) -> None:
        super().__init__()
        self.n_glimpses, self.hidden_size = n_glimpses, hidden_size
        self.core = nn.LSTMCell(feature_size, hidden_size)
        self.n_classes = n_classes
        self.answer = _readout(hidden_size, n_classes)

    @abstractmethod
    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Computes for each image (B,) what training minimises; an estimate of it where places are drawn."""

    @abstractmethod
    def look(self, images: Tensor) -> Looks:
        """Looks without chance: at the likeliest places."""

    @abstractmethod
    def answers(self, images: Tensor) -> Tensor:
        """Computes the log-probabilities (B, classes) after the last look, and nothing else."""

    @abstractmethod
    def numbers_read(self, height: int, width: int) -> int:
        """Says how many numbers of an image reach the network: pixels, or means of pixels that the retina takes."""

    def _start(self, images: Tensor) -> _State:
        return _State(*(images.new_zeros(len(images), self.hidden_size) for _ in range(2)))

    def _log_likelihood(self, hidden: Tensor, labels: Tensor) -> Tensor:
        log_probs = self.answer(hidden).log_softmax(-1)
        return log_probs.gather(-1, labels.expand(log_probs.shape[:-1]).unsqueeze(-1)).squeeze(-1)


class DifferentiableClassifier(GlimpseClassifier):
    """Reads an average at every look; nothing is drawn.

    Arguments:
        n_classes: how many answers there are
        reader: of the image
        feature_size: of what is read by one look
        hidden_size: features of the LSTM
        n_glimpses: how often it looks
    """

    def __init__(
        self,
        n_classes: int,
        reader: GridReader | WindowReader,
        *,
        feature_size: int,
        hidden_size: int,
        n_glimpses: int,
    ) -> None:
        super().__init__(n_classes, feature_size=feature_size, hidden_size=hidden_size, n_glimpses=n_glimpses)
        self.reader = reader
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        states, _ = self._read(images)
        return -torch.stack([self._log_likelihood(hidden, labels) for hidden in states]).mean(0)

    def look(self, images: Tensor) -> Looks:
        states, readings = self._read(images)
        places, shares = (torch.stack([reading[part] for reading in readings], 1) for part in (1, 2))
        return Looks(self.answer(torch.stack(states, 1)).log_softmax(-1), places, shares)

    def answers(self, images: Tensor) -> Tensor:
        return self.answer(self._read(images)[0][-1]).log_softmax(-1)

    def numbers_read(self, height: int, width: int) -> int:
        return self.reader.n_numbers(height, width)

    def _read(self, images: Tensor) -> tuple[list[Tensor], list[Reading]]:
        encoded, state, states, readings = self.reader.encode(images), self._start(images), [], []
        for _ in range(self.n_glimpses):
            readings.append(self.reader.read(images, encoded, self.norm(state.hidden)))
            state = _State(*self.core(readings[-1].features, state))
            states.append(state.hidden)
        return states, readings


class RetinaLooks(GlimpseClassifier):
    """What classifiers with a retina share: the first look is at the centre, the others at places that were chosen."""

    retina: Retina

    @abstractmethod
    def likeliest_place(self, hidden: Tensor) -> Tensor:
        """Returns the place (B, 2) that is likeliest after the states (B, hidden_size)."""

    def look(self, images: Tensor) -> Looks:
        states, places = self._follow(images)
        shares = [self.retina.shares(images, place) for place in places]
        log_probs = self.answer(torch.stack(states, 1)).log_softmax(-1)
        return Looks(log_probs, torch.stack(places, 1), torch.stack(shares, 1))

    def answers(self, images: Tensor) -> Tensor:
        return self.answer(self._follow(images)[0][-1]).log_softmax(-1)

    def numbers_read(self, height: int, width: int) -> int:
        return self.n_glimpses * self.retina.n_numbers

    def _follow(self, images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the states after every look at the likeliest place, and these places."""
        state, states, places = self._start(images), [], [images.new_zeros(len(images), 2)]
        for _ in range(self.n_glimpses):
            state = _State(*self.core(self.retina(images, places[-1]), state))
            states.append(state.hidden)
            places.append(self.likeliest_place(state.hidden))
        return states, places[:-1]


class RetinaClassifier(RetinaLooks):
    """Chooses places by a Gaussian, and learns to choose by REINFORCE.

    Arguments:
        n_classes: how many answers there are
        retina: reads a place
        feature_size: of a glimpse
        hidden_size: features of the LSTM
        n_glimpses: how often it looks
        baseline: whether the expected reward is taken off the reward: what the answers after the choice bring if they
            are as good as the one before it, plus a linear function of h
        discount: γ: the answer that is k looks after the next counts γ^k in the reward of a choice; the gradient is
            that of what is maximised if γ is 1, and less noisy below
        deviation: the largest of a choice, from 0.03 on
        entropy_bonus: what the entropy of the choices is multiplied by
        reward_scale: what the score function is multiplied by
        n_samples: how many paths are drawn over each image; with several, the baseline is what the others gained more
            than expected
    """

    def __init__(
        self,
        n_classes: int,
        retina: Retina,
        *,
        feature_size: int,
        hidden_size: int,
        n_glimpses: int,
        baseline: bool = True,
        discount: float = 1.0,
        deviation: float = 0.5,
        entropy_bonus: float = 0.0,
        reward_scale: float = 1.0,
        n_samples: int = 1,
    ) -> None:
        super().__init__(n_classes, feature_size=feature_size, hidden_size=hidden_size, n_glimpses=n_glimpses)
        self.retina, self.entropy_bonus, self.reward_scale = retina, entropy_bonus, reward_scale
        self.n_samples, self.discount, self.deviation = n_samples, discount, deviation
        self.location = _readout(hidden_size, 4)  # mean and logarithm of the deviation, of x and y
        last = self.location[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.bias)
        with torch.no_grad():
            last.weight[:2] *= 0.1
            last.weight[2:] = 0
            last.bias[2:] = math.log(_START / (1 - _START))
        self.baseline = _readout(hidden_size, 1) if baseline else None
        if self.baseline is not None:
            for parameter in self.baseline[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        images, labels = images.repeat(self.n_samples, 1, 1), labels.repeat(self.n_samples)
        return self._sampled(images, labels).unflatten(0, (self.n_samples, -1)).mean(0)

    def _sampled(self, images: Tensor, labels: Tensor) -> Tensor:
        state, place = self._start(images), images.new_zeros(len(images), 2)
        rewards, log_probs, entropies, corrections = [], [], [], []
        for step in range(self.n_glimpses):
            if step:
                mean, log_deviation = self._policy(state.hidden)
                place = (mean + log_deviation.exp() * torch.randn_like(mean)).detach()
                standard = (place - mean) / log_deviation.exp()
                log_probs.append((-0.5 * standard.square() - log_deviation).sum(-1))
                entropies.append(log_deviation.sum(-1))
                if self.baseline is not None:
                    corrections.append(self.baseline(state.hidden.detach()).squeeze(-1))
            state = _State(*self.core(self.retina(images, place.clamp(-1, 1)), state))
            rewards.append(self._log_likelihood(state.hidden, labels) / self.n_glimpses)
        likelihoods = torch.stack(rewards)
        if not log_probs:
            return -likelihoods.sum(0) + 0 * sum(parameter.sum() for parameter in self._unused())
        gain = self._discounted(likelihoods.detach()[1:])
        error = gain.new_zeros(gain.shape[1:])
        if self.baseline is not None:
            # What the answer before the choice was worth is known before the choice, so that taking it off is fair,
            # and it says best how hard the image is.
            same_again = likelihoods.detach()[:-1] * self._discounted(torch.ones_like(gain))
            expected = same_again + torch.stack(corrections)
            error = (expected - gain).square().sum(0)
            gain = gain - expected.detach()
            if self.n_samples > 1:  # what the other paths over the same image gained, on average
                paths = gain.unflatten(1, (self.n_samples, -1))
                others = (paths.sum(1, keepdim=True) - paths) / (self.n_samples - 1)
                gain = (paths - others).flatten(1)
        score = self.reward_scale * (gain * torch.stack(log_probs)).sum(0)
        objective = likelihoods.sum(0) + score - score.detach() + self.entropy_bonus * torch.stack(entropies).mean(0)
        return error - objective

    def _discounted(self, rewards: Tensor) -> Tensor:
        """Sums what follows each choice, (T − 1, B): Σ_k γ^k r_{t+k}."""
        total, found = torch.zeros_like(rewards[0]), []
        for reward in rewards.flip(0):
            total = reward + self.discount * total
            found.append(total)
        return torch.stack(found[::-1])

    def likeliest_place(self, hidden: Tensor) -> Tensor:
        return self._policy(hidden)[0]

    def _policy(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_deviation = self.location(hidden).chunk(2, -1)
        # Between bounds, but not cut off there: a number that is cut off has no gradient to come back by.
        span = math.log(self.deviation / _LEAST)
        return _REACH * mean.tanh(), math.log(_LEAST) + span * log_deviation.sigmoid()

    def _unused(self) -> list[nn.Parameter]:
        parts = [self.location] if self.baseline is None else [self.location, self.baseline]
        return [parameter for part in parts for parameter in part.parameters()]


class SparseClassifier(RetinaLooks):
    """Chooses among a grid of places by a sparse distribution, and learns by the exact sum over its support.

    The sum is over the places of one look, given those before; what is seen later counts for later looks only.

    Arguments:
        n_classes: how many answers there are
        retina: reads a place
        normalizer: makes the distribution
        n_positions: of the grid, up and across
        feature_size: of a glimpse
        hidden_size: features of the LSTM
        n_glimpses: how often it looks
        estimator: of the gradient; None is the exact sum
    """

    positions: Tensor

    def __init__(
        self,
        n_classes: int,
        retina: Retina,
        *,
        normalizer: Normalizer,
        n_positions: int,
        feature_size: int,
        hidden_size: int,
        n_glimpses: int,
        estimator: Estimator | None = None,
    ) -> None:
        super().__init__(n_classes, feature_size=feature_size, hidden_size=hidden_size, n_glimpses=n_glimpses)
        self.retina = retina
        self.query = _readout(hidden_size, hidden_size)
        self.keys = nn.Parameter(0.5 * torch.randn(n_positions**2, hidden_size))
        self.attention = HardAttention(ScaledDotProduct(), normalizer=normalizer, estimator=estimator or Marginalize())
        axis = torch.linspace(-_REACH, _REACH, n_positions) if n_positions > 1 else torch.zeros(1)
        self.register_buffer("positions", torch.cartesian_prod(axis, axis).flip(-1), persistent=False)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        state = _State(*self.core(self.retina(images, images.new_zeros(len(images), 2)), self._start(images)))
        objectives = [self._log_likelihood(state.hidden, labels)]
        everywhere = self.positions.unsqueeze(1).expand(-1, len(images), -1)
        glimpses = self.retina(images, everywhere).transpose(0, 1)  # (B, positions, features): each is read once
        for _ in range(self.n_glimpses - 1):
            found = self.attention(self.query(state.hidden).unsqueeze(-2), self.keys, glimpses)
            states = self._move(found.output.squeeze(-2), state)  # of every choice: (n, B, hidden)
            likelihood = self._log_likelihood(states.hidden, labels)
            objectives.append(self.attention.objective(likelihood.unsqueeze(-1), found).squeeze(-1))
            share = found.chosen.share.detach().squeeze(-1)  # (n, B)
            taken = torch.multinomial(share.mT, 1).expand(-1, self.hidden_size).unsqueeze(0)
            state = _State(*(part.gather(0, taken).squeeze(0) for part in states))
        unused = 0 * (self.keys.sum() + sum(each.sum() for each in self.query.parameters()))
        return unused - torch.stack(objectives).mean(0)

    def likeliest_place(self, hidden: Tensor) -> Tensor:
        return self.positions[self.weights(hidden).argmax(-1)]

    def weights(self, hidden: Tensor) -> Tensor:
        """Computes the probabilities (B, positions) of the places after the states (B, hidden_size)."""
        query = self.query(hidden).unsqueeze(-2)
        return self.attention.scores_and_weights(query, self.keys, None).weights.squeeze(-2)

    def _move(self, features: Tensor, state: _State) -> _State:
        """Computes the states after reading features (n, B, features), each from the same states before."""
        before = (part.expand(len(features), -1, -1).flatten(0, 1) for part in state)
        after = self.core(features.flatten(0, 1), tuple(before))
        return _State(*(part.unflatten(0, features.shape[:2]) for part in after))
