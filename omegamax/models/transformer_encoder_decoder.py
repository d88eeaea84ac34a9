"""The Transformer as a model that reads one sequence and writes another, with any normalizers.

    h = encoder(x),      scores of y_t = E decoder(y_<t, h)

Self-attention and the attention to the source have a normalizer each. Vaswani et al., "Attention is all you need",
NeurIPS 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer.decoder import DecoderOutput
from omegamax.attention.transformer.layer import PreNorm, TransformerLayer
from omegamax.attention.transformer.stack import DecoderCache, StackOptions
from omegamax.attention.transformer.transformer import Transformer
from omegamax.models.sequence_model import DecoderStep, SequenceModel
from omegamax.models.token_distribution import TokenDistribution, of_written

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SOFTMAX = TokenDistribution()


class TransformerMemory(NamedTuple):
    """An encoded source: keys and values for each layer of the decoder, each (B, K, features of all heads)."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    allowed: Tensor  # (B, 1, 1, K), True where there is a token


class TransformerEncoderDecoder(SequenceModel):
    """A Transformer over source and target tokens; norms come before the sublayers, unless options say otherwise.

    Arguments:
        n_source: how many source tokens there are; None shares those of the target, and their vectors
        n_target: how many target tokens there are
        cross_normalizer: of the attention to the source; None takes `normalizer`, that of both self-attentions
        distribution: of the next token, and its loss
        size: features of a token
        padding: the target token beyond the end of a text, which costs nothing
        options: `normalizer`, `n_heads`, `n_layers`, `hidden_size`, ... of `TransformerEncoder`

    >>> model = TransformerEncoderDecoder(10, 8, size=4, n_heads=2, n_layers=1, cross_normalizer=SquaredNorm())
    >>> model(torch.randint(10, (2, 5)), torch.tensor([5, 3]), torch.randint(8, (2, 4))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_source: int | None,
        n_target: int,
        *,
        cross_normalizer: Normalizer | None = None,
        distribution: TokenDistribution = _SOFTMAX,
        size: int = 256,
        padding: int = 0,
        **options: Unpack[StackOptions],
    ) -> None:
        super().__init__()
        options.setdefault("placement", PreNorm())
        self.transformer = Transformer(
            n_target,
            size,
            source_vocabulary_size=n_source,
            cross_normalizer=cross_normalizer,
            **options,
        )
        self.distribution, self.padding = distribution, padding

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes minus the loss of each target token after the first; padding costs nothing."""
        hidden = self._decode(source, lengths, target).output
        written = target[:, 1:] != self.padding
        scores = self.transformer.embedding.logits(hidden[written])
        return of_written(-self.distribution.loss(scores, target[:, 1:][written]), written)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        scores = self.transformer.embedding.logits(self._decode(source, lengths, target).output)
        return self.distribution.log_likelihood(scores, target[:, 1:])

    def encode(self, source: Tensor, lengths: Tensor | None) -> TransformerMemory:
        lengths = None if lengths is None else lengths.to(source.device)
        cache = self.transformer.start(source, source_lengths=lengths)
        keys = tuple(cast(Tensor, layer.memory_key) for layer in cache.layers)
        values = tuple(cast(Tensor, layer.memory_value) for layer in cache.layers)
        if lengths is None:
            allowed = torch.ones_like(source, dtype=torch.bool)[:, None, None]
        else:
            allowed = torch.arange(source.shape[1], device=source.device) < lengths[:, None, None, None]
        return TransformerMemory(keys, values, allowed)

    def start(self, encoded: TransformerMemory) -> DecoderCache:
        """Makes a cache that holds no positions, and no source: that does not change from step to step."""
        layers = []
        for layer, key in zip(self.transformer.decoder.layers, encoded.keys):
            begun = cast(TransformerLayer, layer).start(None)
            nothing = key[:, :0]
            layers.append(begun._replace(key=nothing, value=nothing))
        return DecoderCache(tuple(layers), 0, (encoded.allowed.shape[0],), None)

    def step(self, token: Tensor, state: DecoderCache, encoded: TransformerMemory) -> DecoderStep:
        """Returns as weights the mean of the heads of the last layer."""
        layers = tuple(
            layer._replace(memory_key=key, memory_value=value)
            for layer, key, value in zip(state.layers, encoded.keys, encoded.values)
        )
        whole = state._replace(layers=layers, memory_allowed=encoded.allowed)
        stepped = self.transformer.step(token.unsqueeze(1), whole, need_weights=True)
        kept = tuple(layer._replace(memory_key=None, memory_value=None) for layer in stepped.cache.layers)
        assert stepped.cross_weights is not None
        return DecoderStep(
            self.distribution.log_probs(stepped.output.squeeze(1)),
            stepped.cache._replace(layers=kept, memory_allowed=None),
            stepped.cross_weights[-1].mean(1).squeeze(1),
        )

    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes the weights of all heads of all layers, (B, layers · heads, T, K)."""
        weights = self._decode(source, lengths, target, need_weights=True).cross_weights
        assert weights is not None
        return torch.cat(weights, 1)

    def _decode(self, source: Tensor, lengths: Tensor, target: Tensor, need_weights: bool = False) -> DecoderOutput:
        model, lengths = self.transformer, lengths.to(source.device)
        memory = model.encode(source, lengths=lengths).output
        embedded = model.embedding(target[:, :-1])
        # Padding stands at the end of a target, where no earlier token sees it.
        return model.decoder(embedded, memory, memory_lengths=lengths, need_weights=need_weights)
