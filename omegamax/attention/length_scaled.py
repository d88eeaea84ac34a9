"""A temperature that depends on how many keys a query may attend to, for contexts longer than those of training.

    weights = argmax_Ω(f(n) · scores)      n: the number of keys that the row may attend to

    LogLength           f(n) = s log n                  Scalable-Softmax (SSMax) with Ω = Shannon: Nakanishi, 2025
    AdaptiveLogLength   f(n) = δ + β (log n)^γ          Adaptive-Scalable Entmax (ASEntmax) with Ω = Tsallis:
                                                        Vasylenko, Pitorro, Martins & Treviso, ICLR 2026

With scores in a fixed range, the largest weight of softmax goes to 0 as n grows; with scores times log n it need not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.inputs import at_least_float32
from omegamax.attention.normalizers import Normalizer, NormalizerModule, check_normalizer, normalize
from omegamax.module_repr import shown
from omegamax.modules import Above


class LengthScale(nn.Module, ABC):
    """Computes what scores are multiplied by from the number of keys of their row."""

    n_heads: int | None = None  # scores must be (..., n_heads, Q, K), or (..., Q, K) where it is None

    @abstractmethod
    def forward(self, counts: Tensor) -> Tensor:
        """Maps integers that broadcast to (..., heads, Q, 1) to factors that do.

        Arguments:
            counts: how many keys each row may attend to; 0 where there is none
        """


class LogLength(LengthScale):
    """f(n) = s log n, with an s for each head that learns: the scale of Scalable-Softmax (SSMax).

    A row with one key has f = 0, and its weight is one, whatever its score; so has a row without keys, whose weights
    are zero.

    Nakanishi, "Scalable-Softmax is superior for attention", arXiv:2501.19399.

    Arguments:
        n_heads: scores are (..., n_heads, Q, K) and every head has its own s; None has one s for scores (..., Q, K)
        s: its first value; by default that of the paper's first figure

    >>> LogLength(s=0.5)(torch.tensor([[1], [10], [100]])).flatten()
    tensor([0.0000, 1.1513, 2.3026], grad_fn=<ViewBackward0>)
    """

    def __init__(self, n_heads: int | None = None, *, s: float = 0.43) -> None:
        super().__init__()
        checks.check_finite("LogLength", "s", s, "it is about 1 / log n for rows as sharp as without it")
        self.n_heads = n_heads
        self.s = nn.Parameter(torch.full(_per_head("LogLength", n_heads), float(s)))

    def forward(self, counts: Tensor) -> Tensor:
        return self.s * _log(counts, self.s)

    def extra_repr(self) -> str:
        return shown(s=self.s)


class AdaptiveLogLength(LengthScale):
    """f(n) = δ + β (log n)^γ, with β > 0 and γ of each head that learn: the scale of Adaptive-Scalable Entmax.

    At γ = 0 the temperature does not depend on n. Below, rows become flatter as n grows, above they become sharper;
    δ = 0 and γ = 1 is `LogLength`. Where n is 0 or 1, (log n)^γ is taken as 0, for γ below 0 too.

    The paper computes β and γ from the query, by a projection in every head. Here they are numbers, because a
    normalizer sees scores only.

    Vasylenko, Pitorro, Martins & Treviso, "Long-context generalization with sparse attention", arXiv:2506.16640.

    Arguments:
        n_heads: scores are (..., n_heads, Q, K) and every head has its own β and γ; None has one each for (..., Q, K)
        beta: the first value of β
        exponent: the first value of γ; `gamma` is the name of temperatures in this library
        delta: δ, which does not learn

    >>> AdaptiveLogLength(beta=0.5, exponent=2.0)(torch.tensor([[1], [10], [100]])).flatten()
    tensor([ 1.0000,  3.6509, 11.6038], grad_fn=<ViewBackward0>)
    """

    def __init__(
        self, n_heads: int | None = None, *, beta: float = 0.43, exponent: float = 1.0, delta: float = 1.0
    ) -> None:
        super().__init__()
        who = "AdaptiveLogLength"
        checks.check_finite(who, "exponent", exponent, "1 grows with log n")
        checks.check_finite(who, "delta", delta, "1 is the temperature without a scale")
        self.n_heads = n_heads
        shape = _per_head(who, n_heads)
        self.beta = Above(0.0, start=beta, shape=shape)
        self.exponent = nn.Parameter(torch.full(shape, float(exponent)))
        self.delta = float(delta)

    def forward(self, counts: Tensor) -> Tensor:
        beta, log = self.beta(), _log(counts, self.exponent)
        several = log > 0
        power = torch.where(several, torch.where(several, log, 1) ** self.exponent, 0)  # 0 ** γ has no derivative in γ
        return self.delta + beta * power

    def extra_repr(self) -> str:
        return shown(exponent=self.exponent, delta=self.delta)


def _per_head(who: str, n_heads: int | None) -> tuple[int, ...]:
    if n_heads is None:
        return ()
    checks.check_count(who, "n_heads", n_heads)
    return n_heads, 1, 1


def _log(counts: Tensor, parameter: Tensor) -> Tensor:
    """Computes log n, and 0 for n = 0; in the parameter's type, in float32 at least."""
    wide = torch.float64 if parameter.dtype is torch.float64 else torch.float32
    return counts.clamp(min=1).to(wide).log()


class LengthScaled(NormalizerModule):
    """Applies any normalizer of rows to scores that are multiplied by a function of the number of keys of the row.

        weights = argmax_Ω(f(n) · scores)

    n counts the keys that a row may attend to: those that are neither masked nor −inf. So every row of causal attention
    has its own n. Biases are part of the scores. `sparse_attention` takes this the sparse way if it takes the
    normalizer that way.

    Arguments:
        normalizer: what turns the scaled scores into weights: a regularizer or a layer such as `Entmax()`
        scale: f, a `LogLength`, an `AdaptiveLogLength` or a `LengthScale` of your own; None is `LogLength()`

    >>> attention = Attention(normalizer=LengthScaled(SquaredNorm(), LogLength(s=1.0)))
    >>> query, key = torch.ones(2, 1), torch.tensor([[0.0], [0.5]])
    >>> attention(query, key, causal=True).weights.detach()              # log 2 · (0, 0.5) in the second row
    tensor([[1.0000, 0.0000],
            [0.3267, 0.6733]])
    """

    def __init__(self, normalizer: Normalizer, scale: LengthScale | None = None) -> None:
        super().__init__()
        check_normalizer("LengthScaled", normalizer)
        if normalizer.event_ndim != 1:
            raise ValueError(
                "LengthScaled: normalizer must be one of rows, each of which has its number of keys, got "
                f"{type(normalizer).__name__} over the matrix of queries and keys; use for example om.SquaredNorm()"
            )
        if scale is not None and not isinstance(scale, LengthScale):
            raise TypeError(
                f"LengthScaled: scale must be a LengthScale, got {type(scale).__name__}; use "
                "om.attention.LogLength(n_heads) or om.attention.AdaptiveLogLength(n_heads)"
            )
        self.normalizer = normalizer
        self.scale = LogLength() if scale is None else scale

    @property
    def rows_sum_to_one(self) -> bool:  # type: ignore[override]
        """Whether the rows of the normalizer sum to one."""
        return self.normalizer.rows_sum_to_one

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Counts the keys of each row, scales its scores and normalizes them."""
        out = scores == -torch.inf
        if mask is not None:
            checks.check_mask("LengthScaled", scores, mask)
            out = out | ~mask
        factor = self.factor(scores, (~out).sum(-1, keepdim=True))
        wide = at_least_float32(scores)
        scaled = torch.where(out, -torch.inf, torch.where(out, 0, wide) * factor.to(wide.dtype))
        return normalize(self.normalizer, scaled, None).to(scores.dtype)

    def factor(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Computes what `scores` (..., Q, K) are multiplied by from the `counts` of keys of their rows, (..., Q, 1)."""
        n_heads = self.scale.n_heads
        if n_heads is not None and (scores.dim() < 3 or scores.shape[-3] != n_heads):
            raise ValueError(
                f"LengthScaled: scores must be (..., {n_heads} heads, Q, K), as the scale was made, got "
                f"{tuple(scores.shape)}; give it the number of heads, or n_heads=None where there are none"
            )
        factor = self.scale(counts)
        checks.check_row_parameter("LengthScaled", "scale", factor, scores)
        return factor

    def extra_repr(self) -> str:
        return shown(normalizer=self.normalizer)
