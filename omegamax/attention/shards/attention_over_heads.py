"""Attention over a sequence whose parts lie in several processes, for every normalizer: each rank takes some heads.

The ranks exchange parts of the sequence with all heads for the whole sequence with a few heads each. Attention runs as
in one process, and the outputs are exchanged back.

Jacobs et al., "DeepSpeed Ulysses", arXiv:2309.14509.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from omegamax import routing
from omegamax.attention.length_scaled import LengthScale, LengthScaled
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.relative_bias import RelativeBias
from omegamax.attention.shards.ranks import Ranks
from omegamax.attention.shards.whole_problem import WholeProblem
from omegamax.attention.sparse_attention import sparse_attention
from omegamax.operators.operator import Operator
from omegamax.operators.scaled import Scaled

_WHO = "attention_over_heads"


def attention_over_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    normalizer: Normalizer,
    *,
    group: ProcessGroup | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    lengths: Tensor | None = None,
    bias: Tensor | RelativeBias | None = None,
    scale: float | None = None,
) -> Tensor:
    """Computes `sparse_attention` over the queries, keys and values of all ranks; each rank computes some of the heads.

    Every rank holds a part of the sequence: that of rank 0 comes first, then that of rank 1, and so on. The parts may
    differ in length, and may be empty. All ranks call this function at once, and all of them run the backward pass.
    The heads are shared out as evenly as they can be; with fewer heads than ranks, some ranks have none. A rank holds
    the whole sequence of its heads. Without `torch.distributed` there is one rank.

    It takes any normalizer, with the derivatives that it has in one process. A `NormalizerModule` sees the scores of
    some heads only, so it must not have parameters for each head.

    Mask, lengths, bias and the parameters of the normalizer are those of the whole sequence and of all heads, the same
    on every rank. Their gradients are parts, as those of all parameters that ranks share: the sum over the ranks is the
    gradient.

    Arguments:
        query: (..., heads, Q of this rank, size)
        key: (..., kv heads, K of this rank, size); each head of the keys serves heads / kv heads heads of the queries
        value: (..., kv heads, K of this rank, features)
        normalizer: what turns scores into weights
        group: the processes that share the sequence; None takes all
        mask: boolean, broadcasts to (..., heads, Q, K) of all ranks; True means "may attend"
        causal: whether query i sees only keys up to i, counted over all ranks, and from the end where there are fewer
            queries than keys
        lengths: how many keys each item has in all ranks together, integers shaped as the leading axes
        bias: added to the scores: broadcasts to (..., heads, Q, K) of all ranks, or is a `RelativeBias` for them
        scale: what products are multiplied by; None is 1/√size

    Returns the output for the queries of this rank, (..., heads, Q of this rank, features).

    >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    >>> attention_over_heads(query, key, torch.eye(3), SquaredNorm(), scale=1.0)  # one process: all is here
    tensor([[0.7500, 0.2500, 0.0000]])
    """
    return _attend(
        group, query, key, value, normalizer, mask=mask, causal=causal, lengths=lengths, bias=bias, scale=scale
    )


@routing.outside_graphs
def _attend(group: ProcessGroup | None, query: Any, key: Any, value: Any, normalizer: Any, **options: Any) -> Tensor:
    ranks = Ranks(_WHO, group)
    whole = WholeProblem(_WHO, ranks, query, key, value, normalizer, **options)
    heads = _HeadsOfRanks(whole)
    query, key, value = _to_heads(whole, heads)
    own = heads.of(ranks.rank)
    if own.start == own.stop:
        output = _empty_output(whole, query, key, value)
    else:
        output = sparse_attention(
            query,
            key,
            value,
            _of_heads(whole.normalizer_of_rows(normalizer), own),
            mask=_slice(whole.mask, -3, own),
            causal=whole.causal,
            lengths=_slice_lengths(whole, own),
            bias=_slice_bias(whole.bias, own),
            scale=whole.scale,
        )
    return whole.shaped(_to_sequence(whole, heads, output))


def _empty_output(whole: WholeProblem, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Returns an output without heads that depends on all inputs: this rank too must run the backward pass."""
    output = query.new_zeros(*whole.lead, 0, whole.shape[-2], value.shape[-1])
    for tensor in (query, key, value, *whole.shared):
        output = output + tensor.reshape(-1)[:0].sum().to(output.dtype)
    return output


class _HeadsOfRanks:
    """Knows which heads of the queries, and which of the keys, a rank computes."""

    def __init__(self, whole: WholeProblem) -> None:
        self.heads, self.kv_heads, self.size = whole.query.shape[-3], whole.key.shape[-3], whole.ranks.size
        self.repeats = self.heads // self.kv_heads

    def of(self, rank: int) -> slice:
        """Returns the heads of the queries: whole groups that share keys, where there are enough of these."""
        unit = self.repeats if self.kv_heads % self.size == 0 else 1
        n = self.heads // unit
        return slice(n * rank // self.size * unit, n * (rank + 1) // self.size * unit)

    def of_keys(self, rank: int) -> slice:
        """Returns the heads of the keys that those heads of the queries use."""
        own = self.of(rank)
        return slice(
            own.start // self.repeats,
            -(-own.stop // self.repeats) if own.stop > own.start else own.start // self.repeats,
        )


def _to_heads(whole: WholeProblem, heads: _HeadsOfRanks) -> tuple[Tensor, Tensor, Tensor]:
    """Receives queries, keys and values of the own heads from all ranks, (..., own heads, length, features)."""
    ranks, inputs = whole.ranks, (whole.query, whole.key, whole.value)
    lengths = (whole.query_counts, whole.key_counts, whole.key_counts)
    parts, counts = [], []
    own_shapes: list[list[tuple[int, ...]]] = []
    for rank in range(ranks.size):
        slices = (heads.of(rank), heads.of_keys(rank), heads.of_keys(rank))
        parts.append(torch.cat([x[..., s, :, :].reshape(-1) for x, s in zip(inputs, slices)]))
    slices = (heads.of(ranks.rank), heads.of_keys(ranks.rank), heads.of_keys(ranks.rank))
    for rank in range(ranks.size):
        shapes = [(*x.shape[:-3], s.stop - s.start, n[rank], x.shape[-1]) for x, s, n in zip(inputs, slices, lengths)]
        own_shapes.append(shapes)
        counts.append(sum(map(_numel, shapes)))
    received = _exchange(whole, parts, counts)
    pieces: list[list[Tensor]] = [[], [], []]
    for part, shapes in zip(received, own_shapes):
        for piece, flat, shape in zip(pieces, part.split([*map(_numel, shapes)]), shapes):
            piece.append(flat.view(shape))
    query, key, value = (torch.cat(piece, -2) for piece in pieces)
    own, own_keys = slices[0], slices[1]
    if (own_keys.stop - own_keys.start) * heads.repeats != own.stop - own.start:  # some heads of a group are elsewhere
        index = torch.arange(own.start, own.stop, device=key.device) // heads.repeats - own_keys.start
        key, value = key.index_select(-3, index), value.index_select(-3, index)
    return query, key, value


def _to_sequence(whole: WholeProblem, heads: _HeadsOfRanks, output: Tensor) -> Tensor:
    """Exchanges outputs of the own heads for all queries for those of all heads for the own queries."""
    ranks = whole.ranks
    parts = [part.reshape(-1) for part in output.split(whole.query_counts, -2)]
    lead, n_queries, features = whole.lead, whole.query_counts[ranks.rank], output.shape[-1]
    owned = [heads.of(rank) for rank in range(ranks.size)]
    shapes = [(*lead, s.stop - s.start, n_queries, features) for s in owned]
    received = _exchange(whole, parts, [*map(_numel, shapes)])
    return torch.cat([part.view(shape) for part, shape in zip(received, shapes)], -3)


def _numel(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


def _exchange(whole: WholeProblem, parts: list[Tensor], counts: list[int]) -> list[Tensor]:
    """Runs `Ranks.exchange`; can be differentiated any number of times."""
    sizes = [part.numel() for part in parts]
    received = _Exchange.apply(whole.ranks, sizes, counts, torch.cat(parts), whole.anchor())
    return list(received.split(counts))


class _Exchange(torch.autograd.Function):
    """Sends tensors between ranks; their gradients go the opposite way."""

    @staticmethod
    def forward(ctx: Any, ranks: Ranks, sizes: list[int], counts: list[int], sent: Tensor, anchor: Tensor) -> Tensor:
        ctx.ranks, ctx.sizes, ctx.counts = ranks, sizes, counts
        ctx.save_for_backward(anchor)
        return torch.cat(ranks.exchange(list(sent.split(sizes)), counts))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (anchor,) = ctx.saved_tensors
        return None, None, None, _Exchange.apply(ctx.ranks, ctx.counts, ctx.sizes, grads[0], anchor), None


def _slice(tensor: Tensor | None, dim: int, own: slice) -> Tensor | None:
    """Takes the own heads of a tensor; one without heads, or with one for all, stays as it is."""
    if tensor is None or tensor.dim() < -dim or tensor.shape[dim] == 1:
        return tensor
    return tensor.narrow(dim, own.start, own.stop - own.start)


def _slice_bias(bias: Tensor | RelativeBias | None, own: slice) -> Tensor | RelativeBias | None:
    if isinstance(bias, RelativeBias):
        table = _slice(bias.table, -2, own)
        assert table is not None
        return RelativeBias(table)
    return _slice(bias, -3, own)


def _slice_lengths(whole: WholeProblem, own: slice) -> Tensor | None:
    per_head = whole.lengths is not None and whole.lengths.dim() == len(whole.lead) + 1
    return whole.lengths[..., own] if per_head and whole.lengths is not None else whole.lengths


class _ScaleOfHeads(LengthScale):
    """Computes the factors of some heads by a scale that has parameters for all of them."""

    def __init__(self, scale: LengthScale, own: slice) -> None:
        super().__init__()
        self.scale, self.own = scale, own

    def forward(self, counts: Tensor) -> Tensor:
        n_heads = self.scale.n_heads
        if n_heads is None:
            return self.scale(counts)
        if counts.dim() > 2 and counts.shape[-3] > 1:  # heads differ: the others are put beside them
            of_all = counts.new_ones(*counts.shape[:-3], n_heads, *counts.shape[-2:])
            of_all[..., self.own, :, :] = counts
            counts = of_all
        return self.scale(counts)[..., self.own, :, :]


def _of_heads(normalizer: Any, own: slice) -> Any:
    """Returns the normalizer with the parameters of the own heads."""
    if isinstance(normalizer, LengthScaled):
        return LengthScaled(_of_heads(normalizer.normalizer, own), _ScaleOfHeads(normalizer.scale, own))
    if isinstance(normalizer, Scaled):
        gamma = _slice(normalizer.gamma, -3, own) if isinstance(normalizer.gamma, Tensor) else normalizer.gamma
        assert gamma is not None
        return Scaled(_of_heads(normalizer.inner, own), gamma)
    if isinstance(normalizer, Operator) and normalizer.parameters():
        sliced = [_slice(parameter, -3, own) for parameter in normalizer.parameters()]
        return normalizer.with_parameters(tuple(p for p in sliced if p is not None))
    return normalizer
