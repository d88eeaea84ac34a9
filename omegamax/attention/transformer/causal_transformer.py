"""A language model, a Transformer without an encoder: tokens in, logits of the next token out.

    p(x_t | x_<t) = softmax(E stack(√d E x_<t + PE))

Radford et al., "Improving language understanding by generative pre-training", 2018, on the decoder of Vaswani et al.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from omegamax.attention.transformer.embeddings import SinusoidalPositions, TiedEmbedding
from omegamax.attention.transformer.encoder import TransformerEncoder
from omegamax.attention.transformer.stack import DecoderCache, StackOptions, StepOutput

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SINUSOIDS = SinusoidalPositions()


class CausalTransformerOutput(NamedTuple):
    """Logits of the next tokens, and the weights of all layers."""

    logits: Tensor  # (..., N, vocabulary), of the token after each
    weights: tuple[Tensor, ...] | None  # per layer, (..., heads, N, N); None where they were not wanted


class CausalTransformer(nn.Module):
    """A stack of causal layers over tokens, whose matrix of vectors also gives the logits.

    Tokens (..., N) are integers below `vocabulary_size`. The options are those of `TransformerEncoder`, but positions
    are sinusoidal unless others are given (None adds none). As there, long sequences take `sparse_attention` unless
    weights are needed, and are then differentiable once.

    Arguments:
        vocabulary_size: how many tokens there are
        size: features of a token
        options: `n_heads`, `n_layers`, `normalizer`, ... of `TransformerEncoder`

    >>> model = CausalTransformer(20, 8, n_heads=2, n_layers=1, hidden_size=16, normalizer=SquaredNorm()).eval()
    >>> tokens = torch.tensor([[3, 4, 5]])
    >>> whole = model(tokens).logits                                     # (1, 3, 20)
    >>> stepped = model.step(tokens[:, :2])
    >>> torch.allclose(model.step(tokens[:, 2:], stepped.cache).output, whole[:, 2:], atol=1e-6)
    True
    """

    def __init__(self, vocabulary_size: int, size: int = 512, **options: Unpack[StackOptions]) -> None:
        super().__init__()
        options.setdefault("positions", _SINUSOIDS)
        self.stack = TransformerEncoder(size, **options)
        self.embedding = TiedEmbedding(vocabulary_size, size)

    def forward(
        self, tokens: Tensor, *, lengths: Tensor | None = None, need_weights: bool = False
    ) -> CausalTransformerOutput:
        """Computes logits of the token that follows each; `lengths` counts the tokens of an item.

        Arguments:
            tokens: integers (..., N)
            lengths: how many tokens each item has
            need_weights: whether weights are returned
        """
        output, weights = self.stack(self.embedding(tokens), lengths=lengths, causal=True, need_weights=need_weights)
        return CausalTransformerOutput(self.embedding.logits(output), weights)

    def step(self, tokens: Tensor, cache: DecoderCache | None = None, *, need_weights: bool = False) -> StepOutput:
        """Appends tokens (..., N), usually one, first without a cache; `output` holds the logits of what follows.

        Arguments:
            tokens: integers (..., N)
            cache: what the step before returned; None begins
            need_weights: whether weights are returned
        """
        stepped = self.stack.step(self.embedding(tokens), cache, need_weights=need_weights)
        return stepped._replace(output=self.embedding.logits(stepped.output))
