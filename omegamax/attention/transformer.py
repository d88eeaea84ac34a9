"""The Transformer: tokens in, logits of tokens out.

    p(y_t | y_<t, x) = softmax(E decoder(√d E y_<t + PE, encoder(√d E x + PE)))

The matrix E is shared by the inputs of both sides and the output. Vaswani et al., "Attention is all you need", 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.placements import NormPlacement, PostNorm
from omegamax.attention.positions import Positions, SinusoidalPositions
from omegamax.attention.transformer_decoder import DecoderCache, Stepped, TransformerDecoder
from omegamax.attention.transformer_encoder import Encoded, TransformerEncoder
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()
_POST_NORM = PostNorm()
_SINUSOIDS = SinusoidalPositions()


class Translated(NamedTuple):
    """What a Transformer returns. Weights are per layer, (..., heads, queries, keys); None where not wanted."""

    logits: Tensor  # (..., T, vocabulary), of the token after each
    encoder_weights: tuple[Tensor, ...] | None  # (..., heads, S, S)
    self_weights: tuple[Tensor, ...] | None  # (..., heads, T, T)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, T, S)


class Transformer(nn.Module):
    """Encoder and decoder over tokens; the defaults are the paper's base model.

    Source (..., S) and target (..., T) are integer tokens below `vocabulary_size`; a `source_vocabulary_size` gives the
    source a matrix of its own. `normalizer` is for the two self-attentions and, unless `cross_normalizer` is given, for
    the decoder's attention to the source; one with parameters is copied, every layer learns its own.

    >>> model = Transformer(20, 8, n_heads=2, n_layers=1, hidden_size=16, normalizer=SquaredNorm())
    >>> model(torch.tensor([[3, 4, 5]]), torch.tensor([[0, 7]])).logits.shape
    torch.Size([1, 2, 20])
    """

    def __init__(
        self,
        vocabulary_size: int,
        size: int = 512,
        *,
        source_vocabulary_size: int | None = None,
        n_heads: int = 8,
        n_layers: int = 6,
        hidden_size: int = 2048,
        key_size: int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = nn.functional.relu,
        placement: NormPlacement = _POST_NORM,
        positions: Positions = _SINUSOIDS,
        normalizer: Normalizer = _SHANNON,
        cross_normalizer: Normalizer | None = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "n_heads": n_heads,
            "n_layers": n_layers,
            "hidden_size": hidden_size,
            "key_size": key_size,
            "dropout": dropout,
            "activation": activation,
            "placement": placement,
            "positions": positions,
            "normalizer": normalizer,
        }
        self.encoder = TransformerEncoder(size, **options)
        self.decoder = TransformerDecoder(size, **options, cross_normalizer=cross_normalizer)
        self.embedding = _embedding(vocabulary_size, size)
        self.source_embedding = (
            self.embedding if source_vocabulary_size is None else _embedding(source_vocabulary_size, size)
        )
        self.scale = math.sqrt(size)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
        need_weights: bool = False,
    ) -> Translated:
        """Logits of the token that follows each target token, for training: begin the target with a start token."""
        memory, encoder_weights = self.encode(source, lengths=source_lengths, need_weights=need_weights)
        decoded = self.decoder(
            self.embedding(target) * self.scale,
            memory,
            lengths=target_lengths,
            memory_lengths=source_lengths,
            need_weights=need_weights,
        )
        return Translated(self._logits(decoded.output), encoder_weights, decoded.self_weights, decoded.cross_weights)

    def encode(self, source: Tensor, *, lengths: Tensor | None = None, need_weights: bool = False) -> Encoded:
        """The memory (..., S, size)."""
        return self.encoder(self.source_embedding(source) * self.scale, lengths=lengths, need_weights=need_weights)

    def start(self, source: Tensor, *, source_lengths: Tensor | None = None) -> DecoderCache:
        """The cache before the first target token."""
        memory = self.encode(source, lengths=source_lengths).output
        return self.decoder.start(memory, memory_lengths=source_lengths)

    def step(self, target: Tensor, cache: DecoderCache, *, need_weights: bool = False) -> Stepped:
        """Goes on by the target tokens (..., N), usually one; `output` are the logits of what follows each."""
        stepped = self.decoder.step(self.embedding(target) * self.scale, cache, need_weights=need_weights)
        return stepped._replace(output=self._logits(stepped.output))

    def _logits(self, output: Tensor) -> Tensor:
        return nn.functional.linear(output, self.embedding.weight)


def _embedding(vocabulary_size: int, size: int) -> nn.Embedding:
    """Entries of variance 1/d: after the factor √d the vectors have that of the positions, and logits stay moderate."""
    embedding = nn.Embedding(vocabulary_size, size)
    nn.init.normal_(embedding.weight, std=size**-0.5)
    return embedding
