"""Sparse attention under autograd: prepares the native calls, and adds the gradient of a bias, which they lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.attention.top_k import TopK
from omegamax.kernels import sparse_attention as kernel
from omegamax.kernels.oscarmax import MOST, STRENGTH
from omegamax.operators.evaluation import once
from omegamax.operators.fused import Fused
from omegamax.operators.operator import Operator
from omegamax.operators.oscar import Oscar
from omegamax.operators.squared_norm import SquaredNorm
from omegamax.operators.tsallis import Tsallis

NATIVE_OPERATORS = (SquaredNorm, Tsallis, Oscar, Fused, TopK)
ONCE = (
    "sparse_attention: the gradient can be taken once, got a second differentiation; call the layer with "
    "need_weights=True, which takes dense scores and is differentiable twice"
)
_ELEMENTS = 1 << 18  # of dense gradients of scores, or two blocks of queries where they have more


@dataclass(frozen=True, eq=False)
class Settings:
    """All arguments of a call but the tensors that learn. Sizes are (batch, heads, queries, keys)."""

    operator: Operator | TopK
    scale: float
    causal: bool = False
    lengths: Tensor | None = None  # (batch · heads,)
    mask: Tensor | None = None  # (batch or 1, heads or 1, Q or 1, K or 1)
    relative: bool = False  # whether the bias is a table by distance, (batch or 1, heads or 1, Q + K − 1)
    dropout: float = 0.0
    seed: int | Tensor = 0  # of dropout; a tensor inside a graph
    keeps_all: bool = False  # whether the whole support is wanted, however large
    found: list[kernel.Support] = field(default_factory=list)  # receives the support where it is wanted

    def row_operator(self, parameter: Tensor | None, shape: torch.Size) -> kernel.RowOperator:
        """Returns the operator as the native calls take it, with one parameter per row or one for all."""
        operator = self.operator
        number: Any = 2.0
        most = float("inf")
        if isinstance(operator, SquaredNorm):
            kind = kernel.ENTMAX
        elif isinstance(operator, Tsallis):
            kind, number = kernel.ENTMAX, operator.alpha
        elif isinstance(operator, TopK):
            kind, number = kernel.TOP, operator.k
        elif isinstance(operator, Oscar):
            kind, number = kernel.OSCAR, operator.strength
            if number is None:
                number, most = STRENGTH, MOST
        elif isinstance(operator, Fused):
            kind, number = kernel.FUSED, operator.strength
        else:
            raise TypeError(
                f"sparse_attention: operator must have a native kernel, got "
                f"{type(operator).__name__}; take dense scores"
            )
        if parameter is not None:
            return kernel.RowOperator(kind, parameter.detach().double().expand(*shape[:-1], 1).contiguous(), most)
        return kernel.RowOperator(kind, float(number), most)

    def rows(self, shape: tuple[int, int, int, int], bias: Tensor | None) -> kernel.Rows:
        """Returns the scale, mask, bias and dropout of the scores, as the native calls read them."""
        mask = added = None
        if self.mask is not None:
            mask = kernel.Strides.of(self.mask.expand(shape))
        if bias is not None and self.relative:
            batch, head, _ = bias.expand(*shape[:2], bias.shape[-1]).stride()
            added = kernel.Strides(bias, shape[2] - 1, (batch, head, -1, 1))
        elif bias is not None:
            added = kernel.Strides.of(bias.expand(shape))
        return kernel.Rows(self.scale, self.causal, self.lengths, mask, added, self.dropout, int(self.seed))

    def with_lengths_for_padding(self, shape: tuple[int, int, int, int]) -> Settings:
        """Replaces a mask that keeps the first keys of each item by lengths: keys beyond them cost nothing."""
        if self.mask is None or self.mask.shape[1:3] != (1, 1):
            return self
        kept = self.mask.expand(-1, 1, 1, shape[3]).sum(-1, keepdim=True)  # (batch or 1, 1, 1, 1)
        if not torch.equal(self.mask.expand(-1, 1, 1, shape[3]), torch.arange(shape[3]) < kept):
            return self
        lengths = kept.expand(*shape[:2], 1, 1).reshape(-1)
        lengths = lengths if self.lengths is None else torch.minimum(lengths, self.lengths)
        return replace(self, lengths=lengths.contiguous(), mask=None)


class ForwardPass(NamedTuple):
    """The results of the forward pass: the output, and what the backward pass needs beside the inputs."""

    settings: Settings
    output: Tensor  # (batch, heads, Q, features)
    support: kernel.Support | None  # None where it was not wanted
    refused: Tensor  # (batch, heads, blocks)


def forward_pass(
    settings: Settings,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    parameter: Tensor | None,
    bias: Tensor | None,
    *,
    wants_support: bool,
) -> ForwardPass:
    """Computes output and support of contiguous inputs (batch, heads, length, features); autograd must not record."""
    shape = (*query.shape[:3], key.shape[2])
    settings = settings.with_lengths_for_padding(shape)
    operator, rows = settings.row_operator(parameter, query.shape), settings.rows(shape, bias)

    # The k best are few however flat a row is.
    may_refuse = not settings.keeps_all and not isinstance(settings.operator, TopK)

    output, support, refused = kernel.forward(
        query, key, value, operator, rows, wants_support=wants_support, may_refuse=may_refuse
    )
    return ForwardPass(settings, output, support, refused)


class SparseAttention(torch.autograd.Function):
    """Computes the output of sparse attention, which can be differentiated once."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        parameter: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Computes the output, and saves the support for the backward pass."""
        wanted = any(ctx.needs_input_grad) or settings.keeps_all
        found = forward_pass(settings, query, key, value, parameter, bias, wants_support=wanted)
        if settings.keeps_all and found.support is not None:
            settings.found.append(found.support)
        ctx.settings = found.settings
        ctx.save_for_backward(query, key, value, parameter, bias, found.refused, *(found.support or ()))
        return found.output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients, which raise where they are differentiated again."""
        saved = ctx.saved_tensors  # read once: under checkpointing each reading computes them again
        inputs, refused, support = saved[:5], saved[5], kernel.Support(*saved[6:])
        with torch.no_grad():
            found = gradients(ctx.settings, inputs, refused, support, grads[0], wanted=ctx.needs_input_grad[1:])
        origins = grads[0], *(tensor for tensor in inputs if tensor is not None)
        return None, *(None if grad is None else once(ONCE, grad, *origins) for grad in found)


def gradients(
    settings: Settings,
    inputs: tuple[Any, ...],
    refused: Tensor,
    support: kernel.Support,
    grad_output: Tensor,
    *,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Computes the gradients of queries, keys and values, and, where they are wanted, of the parameter and the bias."""
    query, key, value, parameter, bias = inputs
    grad_output = grad_output.contiguous()
    shape = (*query.shape[:3], key.shape[2])
    operator, rows = settings.row_operator(parameter, query.shape), settings.rows(shape, bias)
    wants_along = parameter is not None and wanted[3]
    found = kernel.backward(query, key, value, grad_output, support, operator, rows, wants_along=wants_along)
    grad_bias = None
    if bias is not None and wanted[4]:
        grad_bias = _bias_gradient(settings, bias, shape, support, found.scores)
    if bool(refused.any()):
        known = query, key, value, grad_output
        if grad_bias is None:
            kernel.add_dense_gradients(*known, refused, operator, rows, found)
        else:
            for chunk in _chunks(refused, shape):
                grads = query.new_empty(chunk.rows.stop - chunk.rows.start, shape[3])
                row = (chunk.item * shape[1] + chunk.head) * shape[2] + chunk.rows.start
                kernel.add_dense_gradients(*known, chunk.only, operator, rows, found, first_row=row, grad_scores=grads)
                _add_to_bias(chunk, grads, grad_bias, settings.relative, shape[2])
    grad_parameter = None
    if found.along is not None:
        grad_parameter = -found.along.unsqueeze(-1).sum_to_size(parameter.shape).to(parameter.dtype)
    return found.query, found.key, found.value, grad_parameter, grad_bias


def _bias_gradient(
    settings: Settings, bias: Tensor, shape: tuple[int, int, int, int], support: kernel.Support, grads: Tensor
) -> Tensor:
    """Adds up the gradients of the scores that share a number of the bias."""
    _, n_heads, n_queries, _ = shape
    counts = support.offsets.diff()
    row = torch.repeat_interleave(torch.arange(len(counts)), counts)
    item, head, query, key = row // (n_heads * n_queries), row // n_queries % n_heads, row % n_queries, support.indices
    if settings.relative:
        at = _place((item, head, key - query + n_queries - 1), bias)
    else:
        at = _place((item, head, query, key.long()), bias)
    return torch.zeros_like(bias).view(-1).index_add_(0, at, grads).view(bias.shape)


def _place(indices: tuple[Tensor, ...], tensor: Tensor) -> Tensor:
    """Computes where an element of a broadcast tensor lies in the tensor itself."""
    place = torch.zeros_like(indices[0])
    for index, size in zip(indices, tensor.shape):
        place = place * size + (index if size > 1 else 0)
    return place


class _Chunk(NamedTuple):
    """Refused blocks of one head that lie next to each other."""

    item: int
    head: int
    rows: slice
    only: Tensor  # as `refused`: these blocks and no others


def _chunks(refused: Tensor, shape: tuple[int, int, int, int]) -> Iterator[_Chunk]:
    """Yields the refused blocks, as many at once as dense gradients of scores have room for."""
    at_once = max(2, _ELEMENTS // max(1, shape[3]) // kernel.QUERY_BLOCK)
    for item, heads in enumerate(refused.tolist()):
        for head, blocks in enumerate(heads):
            first = 0
            while first < len(blocks):
                last = first
                while last < len(blocks) and blocks[last] and last - first < at_once:
                    last += 1
                if last > first:
                    only = torch.zeros_like(refused)
                    only[item, head, first:last] = True
                    rows = slice(first * kernel.QUERY_BLOCK, min(last * kernel.QUERY_BLOCK, shape[2]))
                    yield _Chunk(item, head, rows, only)
                first = max(last, first + 1)


def _add_to_bias(chunk: _Chunk, grads: Tensor, grad_bias: Tensor, relative: bool, n_queries: int) -> None:
    """Adds the dense gradients of some rows of scores where several scores may share a number of the bias."""
    own = grad_bias[chunk.item % len(grad_bias), chunk.head % grad_bias.shape[1]]  # of size 1: shared by all
    if relative:
        key, query = torch.arange(grads.shape[1]), torch.arange(chunk.rows.start, chunk.rows.stop).unsqueeze(-1)
        own.index_add_(0, (key - query + n_queries - 1).reshape(-1), grads.reshape(-1))
        return
    part = own[chunk.rows] if own.shape[0] > 1 else own
    part += grads.sum_to_size(part.shape)
