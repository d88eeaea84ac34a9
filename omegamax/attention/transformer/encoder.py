"""The Transformer's encoder: a stack that attends to the whole sequence; if causal, a decoder without a memory.

    x ← x + MultiHead(x, x, x),      x ← x + W₂ relu(W₁ x + b₁) + b₂       each with a layer norm

Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from omegamax.attention.transformer.stack import DecoderCache, StackOptions, StepOutput, TransformerStack

if TYPE_CHECKING:
    from typing_extensions import Unpack


class EncoderOutput(NamedTuple):
    """Vectors of an encoder, and the weights of all layers."""

    output: Tensor  # (..., N, size)
    weights: tuple[Tensor, ...] | None  # per layer, (..., heads, N, N); None where they were not wanted


class TransformerEncoder(TransformerStack):
    """A stack of layers, each of which attends to the whole sequence.

    Vectors (..., N, size) to vectors of the same shape. The options and their defaults are n_heads=8, n_layers=6,
    hidden_size=2048, key_size=None (that of a head's queries and keys), dropout=0.1, activation=relu,
    placement=PostNorm(), positions=None (added first) and normalizer=Shannon(). A normalizer with parameters is copied:
    every layer learns its own. With Shannon it computes what `torch.nn.TransformerEncoder` computes, and loads its
    state_dict; its final norm is `placement.final`.

    Unless weights are needed, long sequences take `sparse_attention` where the normalizer is sparse: faster, and memory
    grows with N, not N². That way is differentiable once; `need_weights=True` is differentiable twice.

    With `causal=True` each vector sees itself and those before it: the stack of a language model, to which positions
    can be added one `step` at a time.

    Arguments:
        size: features of a vector
        options: those above, by name

    >>> encoder = TransformerEncoder(8, n_heads=2, n_layers=3, hidden_size=16, normalizer=SquaredNorm()).eval()
    >>> x = torch.randn(4, 5, 8)
    >>> output, weights = encoder(x, causal=True, need_weights=True)
    >>> output.shape, len(weights), weights[0].shape
    (torch.Size([4, 5, 8]), 3, torch.Size([4, 2, 5, 5]))
    >>> cache = None
    >>> for i in range(5):
    ...     stepped = encoder.step(x[:, i : i + 1], cache)
    ...     cache = stepped.cache
    >>> torch.allclose(stepped.output, output[:, 4:], atol=1e-6)
    True
    """

    def __init__(self, size: int = 512, **options: Unpack[StackOptions]) -> None:
        super().__init__(size, None, **options)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> EncoderOutput:
        """Encodes x.

        `mask` is boolean and broadcasts to (..., N, N): True means "may attend"; `lengths` counts the vectors of an
        item; `causal` lets each see itself and those before it.
        """
        if causal:
            self._refuse_matrix_normalizers()
        self._check_vectors("x", x)
        masks = self._masks(x, x.shape[-2], x.shape[-2], mask=mask, lengths=lengths, causal=causal)
        stepped = self._advance(self._without_padding(x, masks), self._begin(), masks, need_weights)
        return EncoderOutput(stepped.output, stepped.self_weights)

    def step(self, x: Tensor, cache: DecoderCache | None = None, *, need_weights: bool = False) -> StepOutput:
        """Appends the N positions of x, usually one, causally; without a cache they are the first."""
        if cache is None:
            self._refuse_matrix_normalizers()
            cache = self._begin()
        return self._step(x, cache, need_weights)
