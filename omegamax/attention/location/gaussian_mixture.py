"""Gaussian mixture attention: a window that slides along the sequence and never looks at its content.

    φ(t, u) = Σ_k α_tk exp(−β_tk (κ_tk − u)²),     output_t = Σ_u φ(t, u) value_u,      u = 1 ... K
    (α̂_t, β̂_t, κ̂_t) = W q_t + b,     α_t = exp α̂_t,     β_t = exp β̂_t,     κ_t = κ_{t−1} + exp κ̂_t,     κ_0 = 0

Graves, "Generating sequences with recurrent neural networks", arXiv 1308.0850, 2013: the first soft attention.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.attention import StatefulAttentionOutput
from omegamax.attention.masking import allowed_pairs, average, batch_shape, values_or_keys
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.module_repr import shown


class GaussianWindow(NamedTuple):
    """A mixture of Gaussians over K positions, for every query."""

    scores: Tensor  # (..., Q, K), log φ(t, u)
    locations: Tensor  # (..., Q, components), κ: they only grow
    state: Tensor  # (..., components), the κ of the last query


class GaussianMixtureAttention(nn.Module):
    """Attention by position alone: every query moves the centres κ of its Gaussians forward.

    Queries (..., Q, query_size) and values (..., K, features). The weights are φ itself and need not sum to one;
    a `normalizer` is applied to log φ instead, with Shannon it gives φ / Σφ. `state` is κ, (..., components): queries
    that come later, one at a time, go on from there.

    Arguments:
        query_size: features of a query
        n_components: how many Gaussians a query has
        normalizer: applied to log φ; None takes φ itself

    >>> attention = GaussianMixtureAttention(3, n_components=2)
    >>> output, weights, state = attention(torch.randn(4, 3), torch.randn(7, 5))
    >>> output.shape, weights.shape, state.shape
    (torch.Size([4, 5]), torch.Size([4, 7]), torch.Size([2]))
    """

    def __init__(self, query_size: int, n_components: int = 10, *, normalizer: Normalizer | None = None) -> None:
        super().__init__()
        checks.check_count("GaussianMixtureAttention", "n_components", n_components)
        if normalizer is not None:
            check_normalizer("GaussianMixtureAttention", normalizer)
        self.n_components = n_components
        self.of_query = nn.Linear(query_size, 3 * n_components)
        self.normalizer = normalizer

    def forward(
        self,
        query: Tensor,
        value: Tensor,
        *,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> StatefulAttentionOutput:
        """Averages the values, and returns the weights and κ too. True in `mask` (..., Q, K) means "may attend".

        Arguments:
            query: (..., Q, query_size)
            value: (..., K, features)
            state: κ (..., components) to go on from; None begins at zero
            mask: boolean, broadcasts to (..., Q, K)
            lengths: how many values each item has
        """
        value = values_or_keys("GaussianMixtureAttention", value, None)
        allowed = allowed_pairs("GaussianMixtureAttention", query, value, mask=mask, lengths=lengths)
        window = self.window(query, value.shape[-2], state=state)
        scores = window.scores.expand(*batch_shape(query, value), *window.scores.shape[-2:])
        if self.normalizer is not None:
            weights = normalize(self.normalizer, scores, allowed)
        else:
            weights = scores.exp()
            weights = weights if allowed is None else torch.where(allowed, weights, 0)
        weights = weights.to(value.dtype)
        return StatefulAttentionOutput(average(weights, value, allowed), weights, window.state)

    def window(self, query: Tensor, n_keys: int, *, state: Tensor | None = None) -> GaussianWindow:
        """Computes log φ for every query and position, before masks.

        Arguments:
            query: (..., Q, query_size)
            n_keys: how many positions there are
            state: κ (..., components) to go on from
        """
        of_query = self.of_query(query)
        if of_query.dtype in (torch.float16, torch.bfloat16):  # half types cannot count to a thousand
            of_query = of_query.float()
        log_alpha, log_beta, log_step = of_query.chunk(3, -1)  # (..., Q, components) each
        if state is None:
            state = of_query.new_zeros(*query.shape[:-2], self.n_components)
        travelled = torch.cat([state.unsqueeze(-2).to(log_step.dtype), log_step.exp()], -2).cumsum(-2)
        kappa = travelled[..., 1:, :]
        position = torch.arange(1, n_keys + 1, device=query.device, dtype=kappa.dtype).unsqueeze(-1)
        distance = kappa.unsqueeze(-2) - position  # (..., Q, K, components)
        scores = (log_alpha.unsqueeze(-2) - log_beta.exp().unsqueeze(-2) * distance.square()).logsumexp(-1)
        return GaussianWindow(scores, kappa, travelled[..., -1, :])

    def extra_repr(self) -> str:
        return shown(n_components=self.n_components, normalizer=self.normalizer)
