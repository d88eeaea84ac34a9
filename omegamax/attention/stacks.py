"""What the stacks of a Transformer share: heads with their own normalizer, positions, one batch axis, masks."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from omegamax.attention.masks import attention_mask
from omegamax.attention.multihead import MultiheadAttention
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.positions import Positions
from omegamax.attention.structured import TreeNormalizer


def heads(size: int, n_heads: int, dropout: float, key_size: int | None, normalizer: Normalizer) -> MultiheadAttention:
    """Multi-head attention with a normalizer of its own."""
    own = copy.deepcopy(normalizer) if isinstance(normalizer, nn.Module) else normalizer
    return MultiheadAttention(size, n_heads, dropout, batch_first=True, normalizer=own, key_size=key_size)


def embedded(x: Tensor, positions: Positions | None, dropout: nn.Module, start: int = 0) -> Tensor:
    """Vectors with their positions, if any."""
    return x if positions is None else dropout(positions(x, start=start))


def flat(x: Tensor) -> Tensor:
    """One batch axis, whatever there was."""
    return x.unsqueeze(0) if x.dim() == 2 else x.flatten(0, -3)


def blocked_by(
    x: Tensor, n_queries: int, n_keys: int, *, mask: Tensor | None, lengths: Tensor | None, causal: bool = False
) -> Tensor | None:
    """PyTorch's meaning, True = may not attend, with an axis for heads: (batch or 1, 1, Q or 1, K)."""
    shape = (*x.shape[:-2], n_queries, n_keys)
    allowed = attention_mask(x.new_zeros(()).expand(shape), mask=mask, lengths=lengths, causal=causal)
    if allowed is None:
        return None
    if allowed.dim() > 2:  # it depends on the item
        allowed = allowed.expand(*shape[:-2], *allowed.shape[-2:])
    return ~flat(allowed).unsqueeze(1)


def refuse_matrix_normalizers(stack: nn.Module) -> None:
    """A structure over queries and keys lets early queries feel later ones: nothing is causal about it."""
    for attention in stack.modules():
        if not isinstance(attention, MultiheadAttention):
            continue
        normalizer = attention.normalizer
        if isinstance(normalizer, TreeNormalizer) or getattr(normalizer, "event_ndim", 1) == 2:
            raise ValueError(
                f"{type(stack).__name__}: causal attention needs a normalizer of rows, got {type(normalizer).__name__} "
                "over the matrix of queries and keys, where every row depends on later ones; pass causal=False, or "
                "take a regularizer such as om.SquaredNorm()"
            )
