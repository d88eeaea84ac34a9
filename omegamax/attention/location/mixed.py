"""Mixed attention: by content and by position.

    weights_t = argmax_Ω(score(q_t, k_u) + log φ(t, u))          under Shannon, ∝ exp(score) · φ

The window φ (of `GaussianMixtureAttention`) says where to look next, the score what for. A softmax under a Gaussian is
the "local" attention of Luong, Pham & Manning, EMNLP 2015; here the window moves monotonically and Ω is any.
"""

from __future__ import annotations

from torch import Tensor

from omegamax.attention.attention import ScoredAttention, StatefulAttentionOutput
from omegamax.attention.location.gaussian_mixture import GaussianMixtureAttention
from omegamax.attention.masking import allowed_pairs, average, values_or_keys, zero_unread
from omegamax.attention.normalizers import Normalizer, normalize
from omegamax.attention.scores import Score
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class MixedAttention(ScoredAttention):
    """Adds the logarithm of a sliding Gaussian window to content scores, then applies any normalizer.

    Queries (..., Q, dq), keys (..., K, dk), values (..., K, features). `state` is the window's κ, (..., components).

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...
        location: the window, a `GaussianMixtureAttention`
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`

    >>> attention = MixedAttention(DotProduct(), GaussianMixtureAttention(3, 2), normalizer=SquaredNorm())
    >>> attention(torch.randn(4, 3), torch.randn(7, 3)).weights.sum(-1)
    tensor([1., 1., 1., 1.], grad_fn=<SumBackward1>)
    """

    def __init__(self, score: Score, location: GaussianMixtureAttention, *, normalizer: Normalizer = _SHANNON) -> None:
        super().__init__(score, normalizer)
        if location.normalizer is not None:
            raise ValueError(
                "MixedAttention: location must be a window without a normalizer, got one with "
                f"{type(location.normalizer).__name__}; give the normalizer to MixedAttention"
            )
        self.location = location

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        *,
        state: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> StatefulAttentionOutput:
        """Averages the values, by default the keys; also returns weights and κ. True in `mask` means "may attend"."""
        value = values_or_keys("MixedAttention", key, value)
        allowed = allowed_pairs("MixedAttention", query, key, mask=mask, lengths=lengths)
        window = self.location.window(query, key.shape[-2], state=state)
        scores = self.score(query, zero_unread(key, allowed, query.shape[-2])) + window.scores
        weights = normalize(self.normalizer, scores, allowed).to(value.dtype)
        return StatefulAttentionOutput(average(weights, value, allowed), weights, window.state)
