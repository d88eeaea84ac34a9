"""The Transformer's decoder: causal self-attention, attention to a memory, a feed-forward network; any normalizers.

    x ← x + MultiHead(x, past x, past x),      x ← x + MultiHead(x, memory, memory),      x ← x + FFN(x)

Vaswani et al., "Attention is all you need", NeurIPS 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from omegamax.attention.normalizers import Normalizer
from omegamax.attention.transformer.stack import DecoderCache, StackOptions, StepOutput, TransformerStack
from omegamax.operators.shannon import Shannon

if TYPE_CHECKING:
    from typing_extensions import Unpack

_SHANNON = Shannon()


class DecoderOutput(NamedTuple):
    """Vectors of a decoder. Weights are per layer; None if not needed."""

    output: Tensor  # (..., N, size)
    self_weights: tuple[Tensor, ...] | None  # (..., heads, N, N)
    cross_weights: tuple[Tensor, ...] | None  # (..., heads, N, M)


class TransformerDecoder(TransformerStack):
    """A stack of layers that attend to their own past and to a memory.

    Vectors (..., N, size) and a memory (..., M, size) with the same batch axes. The options are those of
    `TransformerEncoder`, which is also the decoder without a memory. `normalizer` is for self-attention and, unless
    `cross_normalizer` is given, for attention to the memory; one with parameters is copied, every layer learns its own.
    With Shannon it computes what `torch.nn.TransformerDecoder` computes, and loads its state_dict; its final norm is
    `placement.final`. As in `TransformerEncoder`, long sequences take `sparse_attention` unless weights are needed, and
    are then differentiable once.

    Arguments:
        size: features of a vector
        cross_normalizer: for the attention to the memory; None takes `normalizer`
        options: `n_heads`, `n_layers`, `normalizer`, ... of `TransformerEncoder`

    >>> decoder = TransformerDecoder(8, n_heads=2, n_layers=1, hidden_size=16, cross_normalizer=SquaredNorm()).eval()
    >>> memory, x = torch.randn(4, 5, 8), torch.randn(4, 3, 8)
    >>> whole = decoder(x, memory).output
    >>> cache = decoder.start(memory)
    >>> for i in range(3):
    ...     output, cache, *_ = decoder.step(x[:, i : i + 1], cache)
    >>> torch.allclose(output, whole[:, 2:], atol=1e-6)
    True
    """

    def __init__(
        self, size: int = 512, *, cross_normalizer: Normalizer | None = None, **options: Unpack[StackOptions]
    ) -> None:
        same = options.get("normalizer", _SHANNON)
        super().__init__(size, same if cross_normalizer is None else cross_normalizer, **options)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = True,
        memory_mask: Tensor | None = None,
        memory_lengths: Tensor | None = None,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Decodes all of x at once.

        `mask` (..., N, N) and `memory_mask` (..., N, M) are boolean and broadcast: True means "may attend"; `lengths`
        counts the vectors of an item and `memory_lengths` those of its memory.

        Arguments:
            x: vectors (..., N, size)
            memory: vectors (..., M, size)
            mask: boolean, broadcasts to (..., N, N)
            lengths: how many vectors each item has
            causal: whether a vector sees only itself and those before it
            memory_mask: boolean, broadcasts to (..., N, M)
            memory_lengths: how many vectors each memory has
            need_weights: whether weights are returned
        """
        if causal:
            self._refuse_matrix_normalizers()
        self._check_vectors("x", x)
        self._check_vectors("memory", memory)
        if x.shape[:-2] != memory.shape[:-2]:
            raise ValueError(
                f"TransformerDecoder: x (..., N, size) and memory (..., M, size) must have the same batch axes, got "
                f"{tuple(x.shape)} and {tuple(memory.shape)}; expand one of them"
            )
        n, m = x.shape[-2], memory.shape[-2]
        masks = self._masks(x, n, n, mask=mask, lengths=lengths, causal=causal)
        cache = self._begin(memory, self._masks(x, n, m, mask=memory_mask, lengths=memory_lengths).allowed)
        stepped = self._advance(self._without_padding(x, masks), cache, masks, need_weights)
        return DecoderOutput(stepped.output, stepped.self_weights, stepped.cross_weights)

    def start(
        self, memory: Tensor, *, memory_mask: Tensor | None = None, memory_lengths: Tensor | None = None
    ) -> DecoderCache:
        """Makes the cache before the first step; `memory_mask` (..., 1, M) holds for every position.

        Arguments:
            memory: vectors (..., M, size)
            memory_mask: boolean (..., 1, M)
            memory_lengths: how many vectors each memory has
        """
        self._refuse_matrix_normalizers()
        self._check_vectors("memory", memory)
        masks = self._masks(memory, 1, memory.shape[-2], mask=memory_mask, lengths=memory_lengths)
        return self._begin(memory, masks.allowed)

    def step(self, x: Tensor, cache: DecoderCache, *, need_weights: bool = False) -> StepOutput:
        """Appends the N positions of x, usually one; the returned cache holds them too.

        Arguments:
            x: vectors (..., N, size)
            cache: what `start` or the step before returned
            need_weights: whether weights are returned
        """
        return self._step(x, cache, need_weights)
