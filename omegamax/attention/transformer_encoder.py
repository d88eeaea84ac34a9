"""The Transformer's encoder: layers of self-attention and a feed-forward network, any normalizer.

    x ← x + MultiHead(x, x, x),      x ← x + W₂ relu(W₁ x + b₁) + b₂       each with a layer norm

Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.placements import NormPlacement, PostNorm
from omegamax.attention.positions import Positions
from omegamax.attention.stacks import blocked_by, embedded, flat, heads, refuse_matrix_normalizers
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_POST_NORM = PostNorm()


class Encoded(NamedTuple):
    """What an encoder returns."""

    output: Tensor  # (..., N, size)
    weights: tuple[Tensor, ...] | None  # per layer, (..., heads, N, N); None where they were not wanted


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network; parameters have the names of `torch.nn.TransformerEncoderLayer`."""

    def __init__(
        self,
        size: int,
        *,
        n_heads: int,
        hidden_size: int,
        key_size: int | None,
        dropout: float,
        activation: Callable[[Tensor], Tensor],
        placement: NormPlacement,
        normalizer: Normalizer,
    ) -> None:
        super().__init__()
        self.self_attn = heads(size, n_heads, dropout, key_size, normalizer)
        self.linear1 = nn.Linear(size, hidden_size)
        self.linear2 = nn.Linear(hidden_size, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation
        self.placement = placement

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Vectors (batch, N, size) and the weights; True in blocked (batch or 1, 1, N or 1, N): may not attend."""
        seen = self.placement.before(self.norm1, x)
        attended, weights = self.self_attn._attend(*self.self_attn._project(seen, seen, seen), None, blocked)
        x = self.placement.after(self.norm1, x + self.dropout(attended))
        hidden = self.dropout(self.activation(self.linear1(self.placement.before(self.norm2, x))))
        return self.placement.after(self.norm2, x + self.dropout(self.linear2(hidden))), weights


class TransformerEncoder(nn.Module):
    """A stack of layers; every one looks at the whole sequence through its own heads.

    Vectors (..., N, size) to vectors of the same shape. A normalizer with parameters is copied: every layer learns its
    own. `positions` are added first. With Shannon it computes what `torch.nn.TransformerEncoder` computes, and loads
    its state_dict; its final norm is `placement.final`.

    >>> encoder = TransformerEncoder(8, n_heads=2, n_layers=3, hidden_size=16, normalizer=SquaredNorm())
    >>> output, weights = encoder(torch.zeros(4, 5, 8), need_weights=True)
    >>> output.shape, len(weights), weights[0].shape
    (torch.Size([4, 5, 8]), 3, torch.Size([4, 2, 5, 5]))
    """

    def __init__(
        self,
        size: int = 512,
        *,
        n_heads: int = 8,
        n_layers: int = 6,
        hidden_size: int = 2048,
        key_size: int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = nn.functional.relu,
        placement: NormPlacement = _POST_NORM,
        positions: Positions | None = None,
        normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "n_heads": n_heads,
            "hidden_size": hidden_size,
            "key_size": key_size,
            "dropout": dropout,
            "activation": activation,
            "placement": placement,
            "normalizer": normalizer,
        }
        self.layers = nn.ModuleList([EncoderLayer(size, **options) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(size) if placement.final else None
        self.positions = copy.deepcopy(positions)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> Encoded:
        """Encodes x.

        `mask` is boolean and broadcasts to (..., N, N): True means "may attend"; `lengths` counts the vectors of an
        item; `causal` lets each see itself and those before it.
        """
        if causal:
            refuse_matrix_normalizers(self)
        batch = x.shape[:-2]
        blocked = blocked_by(x, x.shape[-2], x.shape[-2], mask=mask, lengths=lengths, causal=causal)
        x = embedded(flat(x), self.positions, self.dropout)
        kept = []
        for layer in self.layers:
            x, weights = layer(x, blocked)
            if need_weights:
                kept.append(weights.reshape(*batch, *weights.shape[1:]))
        x = x if self.norm is None else self.norm(x)
        return Encoded(x.reshape(*batch, *x.shape[1:]), tuple(kept) if need_weights else None)
