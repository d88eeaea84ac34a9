"""Where a pen goes next: a mixture of Gaussians in two dimensions, and two coins.

    p(x, y, up, end) = Σ_k π_k N(x, y; μ_k, σ_k, ρ_k) · Bernoulli(up; e) · Bernoulli(end; f)
    σ = exp σ̂,   ρ = tanh ρ̂,   π = softmax π̂,   e = sigmoid ê,   f = sigmoid f̂

Bishop, "Mixture density networks", 1994; Graves, arXiv 1308.0850, 2013, section 4. Graves has no coin f for the end of
the writing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

_LOG_2 = math.log(2)
_LEAST_LOG_DEVIATION = -5.0  # so that the density of equal points is bounded
_LARGEST_TWIST = 4.0  # of ρ̂: a correlation of 0.9993


class PenDensity(NamedTuple):
    """The density of the next point, (...) of them, each with K Gaussians."""

    log_shares: Tensor  # (..., K), log π
    means: Tensor  # (..., K, 2)
    log_deviations: Tensor  # (..., K, 2), log σ
    twists: Tensor  # (..., K), ρ̂: the correlation is its tanh
    up: Tensor  # (...), the logit of "the pen is lifted after this point"
    end: Tensor  # (...), the logit of "this point is the last"

    @classmethod
    def of(cls, features: Tensor, n_components: int) -> PenDensity:
        """Reads the parameters from the output (..., 6 K + 2) of a network.

        Arguments:
            features: of a linear layer
            n_components: K
        """
        mixture, coins = features.split([6 * n_components, 2], -1)
        shares, x, y, deviation_x, deviation_y, twists = mixture.chunk(6, -1)
        return cls(
            shares.log_softmax(-1),
            torch.stack([x, y], -1),
            torch.stack([deviation_x, deviation_y], -1).clamp(min=_LEAST_LOG_DEVIATION),
            twists.clamp(-_LARGEST_TWIST, _LARGEST_TWIST),
            *coins.unbind(-1),
        )

    def log_prob(self, points: Tensor) -> Tensor:
        """Computes the log-density (...) of points.

        Arguments:
            points: (..., 4): right, down, and 0 or 1 for "lifted" and "last"
        """
        place = points[..., None, :2]
        log_gaussian = log_bivariate_gaussian(place, self.means, self.log_deviations, self.twists)
        log_place = (self.log_shares + log_gaussian).logsumexp(-1)
        coins = torch.stack([self.up, self.end], -1)
        log_coins = -nn.functional.binary_cross_entropy_with_logits(coins, points[..., 2:], reduction="none").sum(-1)
        return log_place + log_coins

    def biased(self, bias: float) -> PenDensity:
        """Returns a density that prefers what is likely: 0 changes nothing, infinity leaves only the best.

        As Graves has it: π ∝ exp(π̂ (1 + b)), σ = exp(σ̂ − b). Coins are sharpened as π is.

        Arguments:
            bias: b, at least 0
        """
        return self._replace(
            log_shares=((1 + bias) * self.log_shares).log_softmax(-1),
            log_deviations=self.log_deviations - bias,
            up=(1 + bias) * self.up,
            end=(1 + bias) * self.end,
        )

    def sample(self, noise: Tensor) -> Tensor:
        """Draws points (..., 4): right, down, and 0 or 1 for "lifted" and "last".

        Arguments:
            noise: (..., 5): three uniform numbers for the Gaussian and the coins, then two normal ones
        """
        uniform, normal = noise[..., :3], noise[..., 3:]
        reached = self.log_shares.exp().cumsum(-1) < uniform[..., :1]
        chosen = reached.sum(-1, keepdim=True).clamp(max=self.log_shares.shape[-1] - 1)
        twist = self.twists.gather(-1, chosen).squeeze(-1)
        pair = chosen.unsqueeze(-1).expand(*chosen.shape, 2)
        mean, log_deviation = (each.gather(-2, pair).squeeze(-2) for each in (self.means, self.log_deviations))
        down = twist.tanh() * normal[..., 0] + normal[..., 1] / _cosh(twist)
        place = mean + log_deviation.exp() * torch.stack([normal[..., 0], down], -1)
        coins = torch.stack([self.up, self.end], -1).sigmoid() > uniform[..., 1:]
        return torch.cat([place, coins.to(place.dtype)], -1)


def log_bivariate_gaussian(points: Tensor, means: Tensor, log_deviations: Tensor, twists: Tensor) -> Tensor:
    """Computes log N(x, y; μ, σ, tanh ρ̂) as that of x times that of y given x, so that nothing cancels near ρ = ±1.

    Arguments:
        points: (..., 2)
        means: (..., 2)
        log_deviations: (..., 2), log σ
        twists: (...), ρ̂
    """
    across, down = ((points - means) * (-log_deviations).exp()).unbind(-1)
    # 1 / sqrt(1 − tanh² ρ̂) = cosh ρ̂
    given = (down - twists.tanh() * across) * _cosh(twists)
    log_scale = log_deviations.sum(-1) - _log_cosh(twists)
    return -math.log(2 * math.pi) - log_scale - 0.5 * (across.square() + given.square())


def _log_cosh(value: Tensor) -> Tensor:
    size = value.abs()
    return size + nn.functional.softplus(-2 * size) - _LOG_2


def _cosh(value: Tensor) -> Tensor:
    return _log_cosh(value).exp()
