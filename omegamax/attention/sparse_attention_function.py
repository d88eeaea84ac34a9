"""Sparse attention under autograd: native where rows have few weights, dense products by blocks where they have many.

A block of queries in which most keys may have weight is refused by the native kernel. It is then computed from dense
scores of a few rows at a time, keeps nothing, and is computed again in the backward pass. So memory never grows with
Q · K.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
_ONCE = (
    "sparse_attention: the gradient can be taken once, got a second differentiation; compute the weights with "
    "Attention(normalizer=...), which is differentiable twice"
)
_ELEMENTS = 1 << 18  # of a dense block of scores, or two blocks of queries where they have more


@dataclass(frozen=True, eq=False)
class Settings:
    """What a call is given beside tensors that learn. Sizes are (batch, heads, queries, keys)."""

    operator: Operator | TopK
    scale: float
    causal: bool
    lengths: Tensor | None  # (batch · heads,)
    mask: Tensor | None  # (batch or 1, heads or 1, Q or 1, K or 1)
    relative: bool  # whether the bias is a table by distance, (batch or 1, heads or 1, Q + K − 1)
    dropout: float
    seed: int
    keeps_all: bool  # whether the whole support is wanted, however large
    found: list[kernel.Support]  # receives the support where it is wanted

    def row_operator(self, parameter: Tensor | None, shape: torch.Size) -> kernel.RowOperator:
        """The operator with one parameter per row, or one for all."""
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
        """The scores beside products, as the native calls read them."""
        mask = added = None
        if self.mask is not None:
            mask = kernel.Strides(self.mask, 0, _strides(self.mask.expand(shape)))
        if bias is not None and self.relative:
            batch, head, _ = bias.expand(*shape[:2], bias.shape[-1]).stride()
            added = kernel.Strides(bias, shape[2] - 1, (batch, head, -1, 1))
        elif bias is not None:
            added = kernel.Strides(bias, 0, _strides(bias.expand(shape)))
        return kernel.Rows(self.scale, self.causal, self.lengths, mask, added, self.dropout, self.seed)


class SparseAttention(torch.autograd.Function):
    """Output of sparse attention; once differentiable."""

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
        """Saves the support for the backward pass."""
        shape = (*query.shape[:3], key.shape[2])
        operator, rows = settings.row_operator(parameter, query.shape), settings.rows(shape, bias)
        wanted = any(ctx.needs_input_grad) or settings.keeps_all

        # The k best are few however flat a row is.
        may_refuse = not settings.keeps_all and not isinstance(settings.operator, TopK)

        def run(may_refuse: bool) -> kernel.NativeOutput:
            return kernel.forward(query, key, value, operator, rows, wants_support=wanted, may_refuse=may_refuse)

        output, support, refused = run(may_refuse)
        some_refused = bool(refused.any())
        if some_refused and not all(bool(x.isfinite().all()) for x in (key, value)):
            # Dense products would spread what is not finite to rows that may not read it.
            output, support, refused = run(False)
            some_refused = False
        blocks = _Blocks(settings, query, key, value, parameter, bias, refused) if some_refused else None
        if blocks is not None:
            blocks.forward(output)
        if settings.keeps_all and support is not None:
            settings.found.append(support)
        ctx.settings, ctx.some_refused = settings, some_refused
        ctx.save_for_backward(query, key, value, parameter, bias, refused, *(support or ()))
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients that raise where they are differentiated again."""
        saved = ctx.saved_tensors  # read once: under checkpointing each reading computes them again
        with torch.no_grad():
            found = _gradients(ctx, saved, grads[0])
        origins = grads[0], *(tensor for tensor in saved[:5] if tensor is not None)
        return None, *(None if grad is None else once(_ONCE, grad, *origins) for grad in found)


def _gradients(ctx: Any, saved: tuple[Any, ...], grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of queries, keys, values, the parameter and the bias."""
    settings = ctx.settings
    query, key, value, parameter, bias, refused, *kept = saved
    support = kernel.Support(*kept)
    grad_output = grad_output.contiguous()
    shape = (*query.shape[:3], key.shape[2])
    operator, rows = settings.row_operator(parameter, query.shape), settings.rows(shape, bias)
    wants_along = parameter is not None and ctx.needs_input_grad[4]
    found = kernel.backward(query, key, value, grad_output, support, operator, rows, wants_along=wants_along)
    grad_bias = None
    if bias is not None and ctx.needs_input_grad[5]:
        grad_bias = _bias_gradient(settings, bias, shape, support, found.scores)
    if ctx.some_refused:
        _Blocks(settings, query, key, value, parameter, bias, refused).backward(grad_output, found, grad_bias)
    grad_parameter = None
    if found.along is not None:
        grad_parameter = -found.along.unsqueeze(-1).sum_to_size(parameter.shape).to(parameter.dtype)
    return found.query, found.key, found.value, grad_parameter, grad_bias


def _strides(tensor: Tensor) -> tuple[int, int, int, int]:
    batch, head, query, key = (0 if n == 1 else s for n, s in zip(tensor.shape, tensor.stride()))
    return batch, head, query, key


def _bias_gradient(
    settings: Settings, bias: Tensor, shape: tuple[int, int, int, int], support: kernel.Support, grads: Tensor
) -> Tensor:
    """The gradients of scores, added up where several scores share a number of the bias."""
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
    """Where an element of a broadcast tensor lies in the tensor."""
    place = torch.zeros_like(indices[0])
    for index, size in zip(indices, tensor.shape):
        place = place * size + (index if size > 1 else 0)
    return place


class _Chunk(NamedTuple):
    """Some rows of one head, and the keys that they may attend to."""

    item: int
    head: int
    rows: slice
    keys: slice


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The blocks of queries that the native kernel refused, in dense products of a few rows."""

    settings: Settings
    query: Tensor
    key: Tensor
    value: Tensor
    parameter: Tensor | None
    bias: Tensor | None
    refused: Tensor

    def forward(self, output: Tensor) -> None:
        """Writes the output of the refused rows."""
        for chunk in self._chunks():
            weights = self._operator(chunk).solve_weights(self._scores(chunk))
            factors = self._dropout(chunk, weights)
            weights = weights if factors is None else weights * factors
            output[chunk.item, chunk.head, chunk.rows] = weights @ self._of_keys(self.value, chunk)

    def backward(self, grad_output: Tensor, found: kernel.Gradients, grad_bias: Tensor | None) -> None:
        """Adds the gradients of the refused rows."""
        for chunk in self._chunks():
            operator = self._operator(chunk)
            grad = grad_output[chunk.item, chunk.head, chunk.rows]
            certificate = operator.solve_certificate(self._scores(chunk))
            direction = grad @ self._of_keys(self.value, chunk).T
            factors = self._dropout(chunk, direction)
            weights = certificate[0]
            if factors is not None:
                direction, weights = direction * factors, weights * factors
            if found.along is not None and isinstance(operator, Operator):
                product, (along,) = operator.pull_back(certificate, direction)
                found.along[chunk.item, chunk.head, chunk.rows] = along.squeeze(-1)
            else:
                product = operator.hessian_product(certificate, direction)
            self._of_keys(found.value, chunk).addmm_(weights.T, grad)
            query = self.query[chunk.item, chunk.head, chunk.rows]
            self._of_keys(found.key, chunk).addmm_(product.T, query, alpha=self.settings.scale)
            found.query[chunk.item, chunk.head, chunk.rows] = (product @ self._of_keys(self.key, chunk)).mul_(
                self.settings.scale
            )
            if grad_bias is not None:
                self._add_to_bias(chunk, product, grad_bias)

    def _chunks(self) -> Iterator[_Chunk]:
        """Neighbouring refused blocks, as many at once as scores have room for."""
        n_queries, n_keys = self.query.shape[2], self.key.shape[2]
        at_once = max(2, _ELEMENTS // max(1, n_keys) // kernel.QUERY_BLOCK)
        refused = self.refused.tolist()
        for item, heads in enumerate(refused):
            for head, blocks in enumerate(heads):
                first = 0
                while first < len(blocks):
                    last = first
                    while last < len(blocks) and blocks[last] and last - first < at_once:
                        last += 1
                    if last > first:
                        rows = slice(first * kernel.QUERY_BLOCK, min(last * kernel.QUERY_BLOCK, n_queries))
                        yield _Chunk(item, head, rows, slice(0, self._limit(item, head, rows)))
                    first = max(last, first + 1)

    def _limit(self, item: int, head: int, rows: slice) -> int:
        """How many keys the rows can see together."""
        limit = self.key.shape[2]
        if self.settings.causal:
            limit = max(0, limit - self.query.shape[2] + rows.stop)
        if self.settings.lengths is not None:
            limit = min(limit, int(self.settings.lengths[item * self.query.shape[1] + head]))
        return limit

    def _of_keys(self, tensor: Tensor, chunk: _Chunk) -> Tensor:
        """The keys or values of a chunk, (keys, features)."""
        return tensor[chunk.item, chunk.head // (self.query.shape[1] // self.key.shape[1]), chunk.keys]

    def _operator(self, chunk: _Chunk) -> Operator | TopK:
        """The operator with the parameters of the rows."""
        operator = self.settings.operator
        if self.parameter is None or isinstance(operator, TopK):
            return operator
        per_row = self.parameter.detach().expand(*self.query.shape[:3], 1)
        return operator.with_parameters((per_row[chunk.item, chunk.head, chunk.rows],))

    def _scores(self, chunk: _Chunk) -> Tensor:
        query = self.query[chunk.item, chunk.head, chunk.rows] * self.settings.scale
        scores = query @ self._of_keys(self.key, chunk).T
        if self.bias is not None:
            scores += self._bias(chunk)
        allowed = self._allowed(chunk)
        return scores if allowed is None else scores.masked_fill_(~allowed, -torch.inf)

    def _shape(self) -> tuple[int, int, int, int]:
        batch, heads, n_queries, _ = self.query.shape
        return batch, heads, n_queries, self.key.shape[2]

    def _bias(self, chunk: _Chunk) -> Tensor:
        assert self.bias is not None
        if not self.settings.relative:
            return self.bias.expand(self._shape())[chunk.item, chunk.head, chunk.rows, chunk.keys]
        table = self.bias.expand(*self._shape()[:2], self.bias.shape[-1])[chunk.item, chunk.head]
        return table[self._steps(chunk)]

    def _steps(self, chunk: _Chunk) -> Tensor:
        """Where each pair of a query and a key looks into a table by distance."""
        key, query = torch.arange(chunk.keys.stop), torch.arange(chunk.rows.start, chunk.rows.stop).unsqueeze(-1)
        return key - query + self.query.shape[2] - 1

    def _add_to_bias(self, chunk: _Chunk, product: Tensor, grad_bias: Tensor) -> None:
        own = grad_bias[chunk.item % len(grad_bias), chunk.head % grad_bias.shape[1]]  # of size 1: shared by all
        if self.settings.relative:
            own.index_add_(0, self._steps(chunk).reshape(-1), product.reshape(-1))
            return
        part = own[chunk.rows] if own.shape[0] > 1 else own
        part = part[:, chunk.keys] if own.shape[1] > 1 else part
        part += product.sum_to_size(part.shape)

    def _allowed(self, chunk: _Chunk) -> Tensor | None:
        """Which of the keys each row may attend to; None where all are allowed."""
        allowed = None
        if self.settings.mask is not None:
            allowed = self.settings.mask.expand(self._shape())[chunk.item, chunk.head, chunk.rows, chunk.keys]
        if self.settings.causal:
            key, query = torch.arange(chunk.keys.stop), torch.arange(chunk.rows.start, chunk.rows.stop).unsqueeze(-1)
            past = key <= query + (self.key.shape[2] - self.query.shape[2])
            allowed = past if allowed is None else allowed & past
        return allowed

    def _dropout(self, chunk: _Chunk, like: Tensor) -> Tensor | None:
        """What the weights are multiplied by: the same in both passes."""
        share = self.settings.dropout
        if share == 0:
            return None
        place = (chunk.item * self.query.shape[1] + chunk.head) * self.query.shape[2] + chunk.rows.start
        generator = torch.Generator().manual_seed((self.settings.seed + 0x9E3779B9 * (place + 1)) % (1 << 63))
        return (torch.rand(like.shape, generator=generator, dtype=like.dtype) >= share) / (1 - share)
