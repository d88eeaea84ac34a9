"""Monotonic attention: every query reads on from where the last one stopped, stops at a key, and never goes back.

A query i reads the keys from the last stop on, and stops at key j with probability p_ij = σ(score_ij):

    α_ij = p_ij q_ij,      q_ij = (1 − p_{i,j−1}) q_{i,j−1} + α_{i−1,j},      α_0 = (1, 0, ..., 0)

is the probability that it stops at j: the expected alignment, for training. At test time it stops at the first key with
p > 1/2. Raffel et al., "Online and linear-time attention by enforcing monotonic alignments", ICML 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.attention import StatefulAttentionOutput
from omegamax.attention.masking import allowed_pairs, average, values_or_keys, zero_idle, zero_unread
from omegamax.attention.scores import Score, score_or_default
from omegamax.functional import gate
from omegamax.module_repr import shown, unless
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.wrong_kinds import instead_of, kind_of

_SHANNON = Shannon()


class MonotonicAttention(nn.Module):
    """Attends by expected monotonic alignments in training, and by hard ones after `eval()`.

    Queries (..., Q, dq), keys (..., K, dk), values (..., K, features). `state` is the last alignment, (..., K); a row
    that sums to less than one has read past the end, and what is past the end stays there: its output is zero. The
    probability of stopping is the gate of `regularizer` (`om.gate`), the sigmoid under Shannon; a sparse one is exactly
    0 or 1 outside an interval, so that training becomes hard by itself. `offset` learns, and begins negative for long
    sequences (the paper takes −4), so that reading goes on; `noise` is the deviation of normal noise on the scores in
    training, which drives the probabilities of stopping towards 0 and 1.

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...; None is the scaled dot product
        regularizer: Ω of the choice between stopping and reading on
        offset: added to the scores; learns
        noise: the deviation of the noise on the scores in training

    >>> attention = MonotonicAttention(DotProduct()).eval()
    >>> query, key = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([[-1.0], [2.0], [-3.0], [-1.0]])
    >>> attention(query, key).weights
    tensor([[0., 1., 0., 0.],
            [0., 1., 0., 0.],
            [0., 0., 1., 0.]])
    """

    def __init__(
        self,
        score: Score | None = None,
        *,
        regularizer: SmoothMax = _SHANNON,
        offset: float = 0.0,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(regularizer, SmoothMax) or regularizer.event_ndim != 1:
            raise TypeError(
                f"MonotonicAttention: regularizer must act on a row, got {kind_of(regularizer)}; it smooths the choice "
                f"between stopping and reading on, {instead_of(regularizer, 'om.SquaredNorm()')}"
            )
        checks.check_finite("MonotonicAttention", "noise", noise, "0 switches it off")
        if not noise >= 0:
            raise ValueError(f"MonotonicAttention: noise must be non-negative, got {noise}; 0 switches it off")
        self.score = score_or_default("MonotonicAttention", score)
        self.regularizer = regularizer
        self.offset = nn.Parameter(torch.tensor(float(offset)))
        self.noise = noise

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> StatefulAttentionOutput:
        """Averages the values, by default the keys; returns the alignment and its last row too.

        `mask` is boolean and broadcasts to (..., Q, K): True means "may stop here"; `lengths` counts the keys of an
        item; `generator` is for the noise.

        Arguments:
            query: (..., Q, dq)
            key: (..., K, dk)
            value: (..., K, features); None takes the keys
            state: the last alignment (..., K) to go on from
            mask: as above
            lengths: how many keys each item has
            generator: the source of random numbers
        """
        value = values_or_keys("MonotonicAttention", key, value)
        allowed = allowed_pairs("MonotonicAttention", query, key, mask=mask, lengths=lengths)
        key = zero_unread(key, allowed, query.shape[-2])
        scores = self.score(zero_idle(query, allowed, key.shape[-2]), key)
        if scores.dtype in (torch.float16, torch.bfloat16):  # products of many probabilities
            scores = scores.float()
        scores = scores + self.offset.to(scores.dtype)
        if self.training and self.noise:
            drawn = torch.randn(scores.shape, generator=generator, dtype=scores.dtype, device=scores.device)
            scores = scores + self.noise * drawn
        if allowed is not None:
            scores = torch.where(allowed, scores, -torch.inf)
        state = _first(scores) if state is None else state
        if self.training:
            weights = monotonic_alignment(gate(scores, self.regularizer), start=state)
        else:
            weights = _hard_alignment(scores > 0, state)
        state = weights[..., -1, :] if weights.shape[-2] else state
        weights = weights.to(value.dtype)
        return StatefulAttentionOutput(average(weights, value, allowed), weights, state)

    def extra_repr(self) -> str:
        return shown(regularizer=self.regularizer, noise=unless(self.noise, 0))


def monotonic_alignment(probabilities: Tensor, *, start: Tensor | None = None) -> Tensor:
    """Computes the probability that query i stops at key j, if p_ij is that of stopping there once it is reached.

        α_ij = p_ij Σ_{k ≤ j} α_{i−1,k} Π_{k ≤ l < j} (1 − p_il)

    Probabilities (..., Q, K) give an alignment of that shape; a row sums to one, or less by what read past the end.
    `start` (..., K) is α_0, by default the first key. Nothing is divided, so no probability is too close to 0 or 1.

    Arguments:
        probabilities: (..., Q, K), in [0, 1]
        start: (..., K), where the last query stopped

    >>> monotonic_alignment(torch.tensor([[0.5, 1.0], [0.0, 0.5]]))
    tensor([[0.5000, 0.5000],
            [0.0000, 0.5000]])
    """
    if start is None:
        start = _first(probabilities)
    rows = [probabilities[..., :0, :]]
    for stop in probabilities.unbind(-2):
        passed = nn.functional.pad(1 - stop[..., :-1], (1, 0))
        start = stop * _recurrence(passed, start)
        rows.append(start.unsqueeze(-2))
    return torch.cat(rows, -2)


def _first(scores: Tensor) -> Tensor:
    """Puts all weight on the first key."""
    first = scores.new_zeros(*scores.shape[:-2], scores.shape[-1])
    first[..., :1] = 1
    return first


def _recurrence(decay: Tensor, gain: Tensor) -> Tensor:
    """Solves q_j = decay_j q_{j−1} + gain_j in log K sweeps: each sweep doubles the length of the solved stretches."""
    length = 1
    while length < gain.shape[-1]:
        gain = gain + decay * nn.functional.pad(gain[..., :-length], (length, 0))
        decay = decay * nn.functional.pad(decay[..., :-length], (length, 0))
        length *= 2
    return gain


def _hard_alignment(stops: Tensor, state: Tensor) -> Tensor:
    """Moves the weight between two stops to the second one, query by query; `stops` is boolean, (..., Q, K)."""
    rows = [state.unsqueeze(-2)[..., :0, :]]
    for stop in stops.unbind(-2):
        waiting = state.cumsum(-1)
        taken = (waiting * stop).cummax(-1).values if stop.shape[-1] else waiting
        state = stop * (waiting - nn.functional.pad(taken[..., :-1], (1, 0)))
        rows.append(state.unsqueeze(-2))
    return torch.cat(rows, -2)
