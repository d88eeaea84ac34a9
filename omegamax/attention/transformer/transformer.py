"""The Transformer: tokens in, logits of tokens out.

    p(y_t | y_<t, x) = softmax(E decoder(√d E y_<t + PE, encoder(√d E x + PE)))

The matrix E is shared by the inputs of both sides and the output. Vaswani et al., "Attention is all you need", 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer.decoder import TransformerDecoder
from omegamax.attention.transformer.embeddings import SinusoidalPositions, TiedEmbedding
from omegamax.attention.transformer.encoder import EncoderOutput, TransformerEncoder
from omegamax.attention.transformer.stack import DecoderCache, StackOptions, StepOutput

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SINUSOIDS = SinusoidalPositions()


class TransformerOutput(NamedTuple):
    """Logits of the next tokens. Weights are per layer, (..., heads, queries, keys); None if not needed."""

    logits: Tensor  # (..., T, vocabulary), of the token after each
    encoder_weights: tuple[Tensor, ...] | None  # (..., heads, S, S)
    self_weights: tuple[Tensor, ...] | None  # (..., heads, T, T)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, T, S)


class Transformer(nn.Module):
    """An encoder and a decoder over tokens; the defaults are the paper's base model.

    Source (..., S) and target (..., T) are integer tokens below `vocabulary_size`; a `source_vocabulary_size` gives the
    source a matrix of its own. The options are those of `TransformerEncoder`, but positions are sinusoidal unless
    others are given (None adds none). `normalizer` is for the two self-attentions and, unless `cross_normalizer` is
    given, for the decoder's attention to the source; one with parameters is copied, every layer learns its own.
    Long sequences take `sparse_attention` unless weights are needed, and are then differentiable once.

    Arguments:
        vocabulary_size: how many tokens there are
        size: features of a token
        source_vocabulary_size: how many tokens the source has; None shares those of the target
        cross_normalizer: for the attention to the source; None takes `normalizer`
        options: `n_heads`, `n_layers`, `normalizer`, ... of `TransformerEncoder`

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
        cross_normalizer: Normalizer | None = None,
        **options: Unpack[StackOptions],
    ) -> None:
        super().__init__()
        options.setdefault("positions", _SINUSOIDS)
        self.encoder = TransformerEncoder(size, **options)
        self.decoder = TransformerDecoder(size, cross_normalizer=cross_normalizer, **options)
        self.embedding = TiedEmbedding(vocabulary_size, size)
        self.source_embedding = self.embedding
        if source_vocabulary_size is not None:
            self.source_embedding = TiedEmbedding(source_vocabulary_size, size)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
        need_weights: bool = False,
    ) -> TransformerOutput:
        """Computes logits of the token after each target token, for training; the target begins with a start token.

        Arguments:
            source: integers (..., S)
            target: integers (..., T)
            source_lengths: how many source tokens each item has
            target_lengths: how many target tokens each item has
            need_weights: whether weights are returned
        """
        memory, encoder_weights = self.encode(source, lengths=source_lengths, need_weights=need_weights)
        decoded = self.decoder(
            self.embedding(target),
            memory,
            lengths=target_lengths,
            memory_lengths=source_lengths,
            need_weights=need_weights,
        )
        return TransformerOutput(
            self.embedding.logits(decoded.output), encoder_weights, decoded.self_weights, decoded.cross_weights
        )

    def encode(self, source: Tensor, *, lengths: Tensor | None = None, need_weights: bool = False) -> EncoderOutput:
        """Encodes the source into a memory (..., S, size).

        Arguments:
            source: integers (..., S)
            lengths: how many tokens each item has
            need_weights: whether weights are returned
        """
        return self.encoder(self.source_embedding(source), lengths=lengths, need_weights=need_weights)

    def start(self, source: Tensor, *, source_lengths: Tensor | None = None) -> DecoderCache:
        """Makes the cache before the first target token.

        Arguments:
            source: integers (..., S)
            source_lengths: how many source tokens each item has
        """
        memory = self.encode(source, lengths=source_lengths).output
        return self.decoder.start(memory, memory_lengths=source_lengths)

    def step(self, target: Tensor, cache: DecoderCache, *, need_weights: bool = False) -> StepOutput:
        """Appends target tokens (..., N), usually one; `output` holds the logits of what follows each.

        Arguments:
            target: integers (..., N)
            cache: what `start` or the step before returned
            need_weights: whether weights are returned
        """
        stepped = self.decoder.step(self.embedding(target), cache, need_weights=need_weights)
        return stepped._replace(output=self.embedding.logits(stepped.output))
